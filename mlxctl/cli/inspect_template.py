"""`mlxctl inspect-template`: what the model is handed, and what is wrong with it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click
import msgspec

from mlxctl import options, rules
from mlxctl.cli import inputs
from mlxctl.cli.app import App
from mlxctl.cli.options import GroupedOption, TableCommand, parameters, profile_option, unset_option
from mlxctl.cli.run import settle
from mlxctl.cli.streams import divert_prints
from mlxctl.cli.table import table
from mlxctl.cli.template_view import as_findings, as_source, on_screen, paired, side_by_side
from mlxctl.errors import ExitStatus, UsageError
from mlxctl.events import Message
from mlxctl.output.json import encode
from mlxctl.settings import Settings

_MODEL = {"model.path", "model.revision", "model.trust_remote_code", "model.extra_eos_token"}
_REQUEST = {"request.prompt", "request.messages", "request.chat_template_config", "request.think", "request.escapes",
            "request.allow_special", "request.offline", "request.param", "request.recursive"}  # fmt: skip
_ROWS = [row for row in options.options() if row.section == "prompt" or row.key in _MODEL | _REQUEST]


# Words that would be taken for a text, which most templates take for true.
_AS_PYTHON = {"True": "true", "False": "false", "None": "null", "TRUE": "true", "FALSE": "false"}


def _show(flag: str, help: str, **more: Any) -> GroupedOption:
    return GroupedOption([flag], group="Show", help=help, **more)


_SHOW = [
    _show("--tokens", "The prompt token by token: id, piece, special or not", is_flag=True),
    _show("--raw", "The template's Jinja source", is_flag=True),
    _show("--diff", "The prompt beside the one with another argument, such as enable_thinking=false (repeatable)",
          multiple=True, metavar="NAME=VALUE"),
    _show("--arguments", "The variables that the template reads", is_flag=True),
    _show("--lint", "What is wrong with the template, the tokenizer and the end tokens", is_flag=True),
    _show("--strict", "As --lint, and exit with 5 when there are errors", is_flag=True),
    _show("--turns", "A sample conversation of so many questions, instead of a prompt", type=click.IntRange(1, 1000),
          metavar="N"),
    GroupedOption(["--format", "form"], group="Show", type=click.Choice(["text", "json"]), default="text",
                  help="Text, or a JSON object with all that is asked for"),
]  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """What is to be shown: parts by name, the arguments of the other rendering, and whether a person looks at it."""

    parts: list[str]
    other: dict[str, Any]
    drawn: bool

    @property
    def renders(self) -> bool:
        """Whether any of it is a prompt."""
        return bool({"prompt", "tokens", "diff"} & {*self.parts})


@click.command(cls=TableCommand, params=[*_SHOW, profile_option(), unset_option(), *parameters(_ROWS)])
@click.argument("words", nargs=-1, metavar="[PROMPT]...")
@click.pass_obj
def command(app: App, /, words: tuple[str, ...], tokens: bool, raw: bool, diff: tuple[str, ...], arguments: bool,
            lint: bool, strict: bool, turns: int | None, form: str, **params: Any) -> int:  # fmt: skip
    """Print the prompt as the model is handed it, exactly: what the chat template makes of the messages.

    Only the tokenizer is loaded. Without a prompt a sample question is shown.
    """
    asked = {"tokens": tokens, "source": raw, "diff": bool(diff), "arguments": arguments, "findings": lint or strict}
    parts = [name for name, wanted in asked.items() if wanted] or ["prompt"]
    shown = Shown(parts, dict(map(_argument, diff)), drawn=form == "text")
    if form == "text" and len(shown.parts) > 1:
        raise UsageError("--tokens, --raw, --diff, --arguments and --lint: one at a time, or all with --format json")
    settings = settle(app, **params).settings
    request = settings.request
    given = words or turns is not None or request.prompt is not None or request.messages is not None
    if given and not shown.renders:
        raise UsageError("--lint, --raw and --arguments look at the template alone: no prompt, messages or --turns")
    messages = _messages(app, settings, words, turns) if shown.renders else []
    divert_prints()
    report = _report(app, settings, messages, shown)
    if form == "json":
        app.stdout.write(encode(report) + "\n")
    else:
        app.stdout.draw(_VIEWS[shown.parts[0]](app, report))
    for notice in report.get("notices", ()):
        app.say(notice)
    wrong = any(finding["severity"] == "error" for finding in report.get("findings", ()))
    return ExitStatus.TEMPLATE if strict and wrong else ExitStatus.OK


def _argument(text: str) -> tuple[str, Any]:
    """("enable_thinking", False) of "enable_thinking=false": a value as JSON, or else as text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"--diff: expected NAME=VALUE, got {text!r}")
    if value in _AS_PYTHON:
        raise UsageError(f"--diff {name.strip()}={value}: in JSON this is {_AS_PYTHON[value]}")
    try:
        return name.strip(), json.loads(value)
    except (ValueError, RecursionError):
        return name.strip(), value


def _messages(app: App, settings: Settings, words: Sequence[str], turns: int | None) -> list[Message]:
    """What was given, or a sample conversation."""
    request = settings.request
    given = bool(words or settings.prompt.files) or request.prompt is not None or request.messages is not None
    if turns is not None and given:
        raise UsageError("--turns makes a conversation of its own: no prompt, no files and no --messages with it")
    if turns is not None or not (given or app.stdin.carries_data()):
        system = inputs.system_prompt(settings)
        return [*([{"role": "system", "content": system}] if system is not None else []), *_sample(turns or 1)]
    return inputs.finish(inputs.gather(settings, words, app), app).messages


def _sample(turns: int) -> list[Message]:
    said = [({"role": "user", "content": f"Question {number}?"}, {"role": "assistant", "content": f"Answer {number}."})
            for number in range(1, turns + 1)]  # fmt: skip
    return [message for turn in said for message in turn][:-1]


def _report(app: App, settings: Settings, messages: list[Message], shown: Shown) -> dict[str, Any]:
    """Everything that is to be shown, as plain data. A template is run where it can do no harm."""
    from mlxctl.engine import prompt
    from mlxctl.engine.loader import open_source

    rules.enforce(rules.for_settings(settings), settings, app.say)
    other = _with(settings, shown.other)
    if shown.other:
        rules.enforce(rules.for_settings(other), other, lambda warning: None)
    if settings.model.path is None:
        app.say(f"no model is named (--model, -P): using {settings.model_id}")
    source = open_source(settings, app.say, weights=False)
    rules.enforce(rules.for_config(settings, source.facts), settings, app.say)

    given = sum(len(message["content"]) for message in messages)

    def work() -> dict[str, Any]:
        """The parts of the template alone, after those of a prompt."""
        alone: dict[str, Callable[[], Any]] = {
            "source": lambda: prompt.source(source.tokenizer),
            "arguments": lambda: prompt.arguments(source.tokenizer),
            "findings": lambda: prompt.lint(source.tokenizer, settings, source.path),
        }
        rendered = _rendered(source.tokenizer, messages, settings, other, shown) if shown.renders else {}
        return rendered | {part: alone[part]() for part in shown.parts if part in alone}

    found: dict[str, Any] = prompt.confined(work, settings.model_id, dict[str, Any], given)
    model = {"id": source.id, "path": str(source.path), "revision": source.revision}
    return {"schema": "mlxctl.template/1", "model": model, "template": prompt.template_hash(source.tokenizer), **found}


def _rendered(
    tokenizer: Any, messages: list[Message], settings: Settings, other: Settings, shown: Shown
) -> dict[str, Any]:
    """The parts of a prompt."""
    from mlxctl.engine import prompt

    rendered = prompt.render(tokenizer, messages, settings)
    report: dict[str, Any] = {"prompt": rendered.text, "prompt_tokens": len(rendered.ids),
                              "notices": [*prompt.notices(tokenizer, rendered, settings)]}  # fmt: skip
    if "tokens" in shown.parts:
        report["tokens"] = prompt.pieces(tokenizer, rendered.ids)
    if "diff" in shown.parts:
        changed = prompt.render(tokenizer, messages, other)
        report["notices"] += prompt.notices(tokenizer, changed, other)
        report["diff"] = {"arguments": shown.other, "prompt": changed.text, "prompt_tokens": len(changed.ids)}
        if shown.drawn:
            report["rows"] = [*paired(rendered.text, changed.text)]
    return report


def _with(settings: Settings, arguments: dict[str, Any]) -> Settings:
    """Settings under which the template is given these arguments, too."""
    request = msgspec.structs.replace(
        settings.request, think=None, chat_template_config={**settings.asked_template, **arguments}
    )
    return msgspec.structs.replace(settings, request=request)


def _prompt(app: App, report: dict[str, Any]) -> str:
    return on_screen(app, report["prompt"])


def _tokens(app: App, report: dict[str, Any]) -> str:
    rows = (
        (
            str(place),
            str(token["id"]),
            _piece(token["piece"]),
            encode(token["text"]),
            "special" if token["special"] else "",
        )
        for place, token in enumerate(report["tokens"])
    )
    return table(app, ("#", "id", "piece", "text", ""), rows)


def _piece(piece: str) -> str:
    return piece if piece.isprintable() else json.dumps(piece)


def _source(app: App, report: dict[str, Any]) -> str:
    if report["source"] is None:
        raise UsageError(f"{report['model']['id']} has no chat template in Jinja, or several and none is the default")
    return as_source(app, report["source"])


def _diff(app: App, report: dict[str, Any]) -> str:
    other = report["diff"]
    return side_by_side(app, report["rows"], encode(other["arguments"]))


def _arguments(app: App, report: dict[str, Any]) -> str:
    rows = (
        (
            one["name"],
            one["kind"],
            encode(one["default"]) if one["known"] else "-",
            ", ".join(map(encode, one["values"])),
        )
        for one in report["arguments"]
    )
    if not report["arguments"]:
        app.say("the template reads no arguments of its own")
        return ""
    return table(app, ("name", "kind", "default", "compared with"), rows)


def _findings(app: App, report: dict[str, Any]) -> str:
    return as_findings(app, report["findings"])


# One part each, for a person or a pipe; on a terminal nothing in it steers that.
_VIEWS: dict[str, Callable[[App, dict[str, Any]], str]] = {
    "prompt": _prompt, "tokens": _tokens, "source": _source, "diff": _diff, "arguments": _arguments,
    "findings": _findings,
}  # fmt: skip
