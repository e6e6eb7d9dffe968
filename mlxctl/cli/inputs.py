"""The prompt: its parts from the command line, files and stdin, and the messages made of them."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlxctl import documents, filling
from mlxctl.caches.meta import Piece
from mlxctl.cli.app import App
from mlxctl.errors import UsageError, first_line
from mlxctl.events import Message
from mlxctl.filling import Given
from mlxctl.paths import absolute, expand
from mlxctl.settings import Settings
from mlxctl.texts import before, decode, read_file

_NOTHING_TO_KEEP = "give a system prompt, -f FILE or text after the name of the cache, or pipe text in"
_DEEPEST = 64  # lists and objects in a message that lie in each other: templates recurse


def _as_it_is(texts: Sequence[str]) -> "Asked":
    raise AssertionError("there are no documents")


@dataclass(frozen=True)
class Asked:
    """What the model is asked. shared: the beginning of the last text that the next question may have too; None where
    nobody shall look for it. pieces: what the last text is made of. documents: files and stdin, which `remade` takes
    other texts for.
    """

    messages: list[Message]
    shared: str | None = None
    pieces: tuple[Piece, ...] = ()
    documents: tuple[Piece, ...] = ()
    remade: "Callable[[Sequence[str]], Asked]" = _as_it_is


Ask = Callable[[], Asked]  # makes the messages, once the model is there: a pipe may fill while it loads


@dataclass(frozen=True)
class Parts:
    """What the prompt is made of, before stdin.

    named: "-" asks for stdin. wants_stdin: that, or there is nothing else.
    """

    system: str | None
    files: list[Piece]
    question: str
    messages: list[Message]
    named: bool
    wants_stdin: bool
    template: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)


def gather(settings: Settings, words: Sequence[str], app: App, *, asks: bool = True) -> Parts:
    """Read files and the question, and see that something will be asked. Raises UsageError.

    asks: False where a beginning is prepared, which may be a system prompt alone.
    """
    said = " ".join(decode(os.fsencode(word), "the question") for word in words if word != "-")
    given = [text for text in (said, settings.request.prompt or "") if text]
    named = "-" in (*words, settings.request.prompt)
    question = "\n\n".join(text for text in given if text != "-")
    if settings.request.escapes:
        question = unescape(question)
    system = system_prompt(settings)
    files = documents_of(settings, app)
    _check_images(settings)
    messages = read_messages(settings.request.messages) if settings.request.messages else []
    template, params = settings.prompt.template, settings.request.param
    found_places = places(settings)
    nothing = not question.strip() and not any(file.text.strip() for file in files) and not messages
    nothing = nothing and (template is None or "stdin" in found_places)
    if nothing and not named and not app.stdin.carries_data() and (asks or system is None):
        what = "the prompt is empty" if given or words or files else "no prompt"
        hint = 'ask something: mlxctl run "…", or pipe text in, or -f FILE' if asks else _NOTHING_TO_KEEP
        raise UsageError(what, hint=hint)
    if system is not None and messages and messages[0]["role"] == "system":
        raise UsageError(f"system prompt: {settings.request.messages} has one already")
    wants_stdin = named or (nothing and asks) or ("stdin" in found_places and app.stdin.carries_data())
    return Parts(system, files, question, messages, named, wants_stdin, template if asks else None, params)


def documents_of(settings: Settings, app: App) -> list[Piece]:
    """The files that go before the question. Raises UsageError."""
    found = documents.gather(settings.prompt.files, recursive=settings.request.recursive, say=app.say)
    return [Piece(one.name, one.text, str(absolute(one.name).resolve())) for one in found]


def asked_with(
    settings: Settings, files: list[Piece], question: str, messages: Sequence[Message] = ()
) -> list[Message]:
    """The messages of one of many questions, to each of which the same files go, or messages with the system prompt
    where they have none. Raises UsageError."""
    if messages:
        own = messages[0]["role"] == "system"
        return [*messages] if own else _with_system(system_prompt(settings), [*messages])
    parts = Parts(system_prompt(settings), files, question, [], named=False, wants_stdin=False,
                  template=settings.prompt.template, params=settings.request.param)  # fmt: skip
    if not question.strip() and not files:
        raise UsageError("the prompt is empty")
    return _asked(parts, "").messages


def finish(parts: Parts, app: App) -> Asked:
    """Read stdin and make the messages. A pipe that nobody asked for is read only if something is in it by now."""
    piped = ""
    if parts.wants_stdin or (app.stdin.carries_data() and app.stdin.ready()):
        piped = app.stdin.read()
    elif app.stdin.carries_data():
        app.say("stdin is an open pipe with nothing in it yet, and is left alone; name it with - to wait for it")
        return _asked(parts, "")
    if not piped.strip() and parts.named:
        raise UsageError("the prompt is empty: there was nothing on stdin")
    if not piped.strip() and app.stdin.carries_data():
        app.say("stdin was empty: the question is all there is")
    return _asked(parts, piped)


def beginning(parts: Parts, app: App) -> Asked:
    """The messages of a beginning that is prepared: files, stdin and text, open to go on after a blank line."""
    piped = app.stdin.read() if parts.wants_stdin or (app.stdin.carries_data() and app.stdin.ready()) else ""
    every = (*parts.files, Piece("stdin", piped), Piece("the text", parts.question))
    pieces = tuple(piece for piece in every if piece.text)
    text = _before([piece.text for piece in pieces])
    asked = [*parts.messages, {"role": "user", "content": text}] if text else parts.messages
    return Asked(_with_system(parts.system, asked), pieces=pieces)


def _asked(parts: Parts, piped: str) -> Asked:
    """What is asked, and how to ask it with other documents."""

    def remade(texts: Sequence[str]) -> Asked:
        files = [file._replace(text=text) for file, text in zip(parts.files, texts, strict=False)]
        return _made(replace(parts, files=files), texts[-1] if piped else "")

    documents = (*parts.files, *([Piece("stdin", piped)] if piped else []))
    return replace(_made(parts, piped), documents=documents, remade=remade)


def _made(parts: Parts, piped: str) -> Asked:
    if parts.template is not None:
        return _filled(parts, parts.template, piped)
    first = [file.text for file in parts.files] + [piped]
    text = _join([*first, parts.question])
    if not text.strip() and not parts.messages:
        raise UsageError("the prompt is empty: there was nothing on stdin")
    asked = [*parts.messages, {"role": "user", "content": text}] if text else parts.messages
    if not asked[-1]["content"].strip() and asked[-1]["role"] == "user":
        raise UsageError("the prompt is empty: the last message says nothing")
    pieces = (*parts.files, Piece("stdin", piped), Piece("the question", parts.question))
    shared = _before(first) if parts.question else ""
    return Asked(_with_system(parts.system, asked), shared, tuple(piece for piece in pieces if piece.text))


def places(settings: Settings) -> list[str]:
    """The places of the prompt template. Raises UsageError for parameters without one."""
    if settings.prompt.template is None:
        if settings.request.param:
            raise UsageError("--param: there is no prompt template to fill (--prompt-template, or prompt.template of a "
                             "profile)")  # fmt: skip
        return []
    return filling.places(settings.prompt.template)


def _filled(parts: Parts, template: str, piped: str) -> Asked:
    """The messages, their last text made by the prompt template."""
    given = Given(piped, parts.question, {file.name: file.text for file in parts.files}, parts.params)
    text = filling.fill(template, given)
    if not text.strip():
        raise UsageError("the prompt is empty: prompt.template makes nothing of what is given")
    messages = _with_system(parts.system, [*parts.messages, {"role": "user", "content": text}])
    return Asked(messages, filling.before_the_question(template, given), (Piece("the prompt", text),))


def _join(parts: list[str]) -> str:
    """One text, the parts a blank line apart; a part alone stays as it is."""
    *before, last = [part for part in parts if part] or [""]
    return _before(before) + last


def _before(parts: list[str]) -> str:
    """The parts as they stand before another."""
    return "".join(before(part) for part in parts if part)


def as_upstream(settings: Settings, app: App) -> Asked:
    """The messages as mlx_lm.generate makes them: stdin only for "-", an empty prompt kept."""
    prompt = unescape(settings.request.prompt or "")
    if prompt == "-":
        prompt = app.stdin.read()
    _check_images(settings)
    text = _join([*(read_file(path) for path in settings.prompt.files), prompt])
    return Asked(_with_system(system_prompt(settings), [{"role": "user", "content": text}]))


def system_prompt(settings: Settings) -> str | None:
    """The system prompt's text, given or from its file."""
    prompt = settings.prompt
    return prompt.system if prompt.system_file is None else read_file(prompt.system_file)


def _with_system(system: str | None, messages: list[Message]) -> list[Message]:
    return messages if system is None else [{"role": "system", "content": system}, *messages]


def _check_images(settings: Settings) -> None:
    for path in settings.request.image:
        if not expand(path).is_file():
            raise UsageError(f"--image {path}: no such file")


def read_messages(path: str) -> list[Message]:
    """An OpenAI-style message list: a JSON array, or an object whose "messages" is one."""
    try:
        data = json.loads(read_file(path).removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
    except ValueError as error:
        raise UsageError(f"{path}: not JSON: {first_line(error)}") from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply") from None
    return checked_messages(data.get("messages") if isinstance(data, dict) else data, path)


def checked_messages(found: Any, where: str) -> list[Message]:
    """A message list that came from outside. Raises UsageError, which names the place."""
    if not isinstance(found, list) or not found:
        raise UsageError(f"{where}: expected a JSON array of messages, with one at least")
    return [_message(f"{where}: message {number}", message) for number, message in enumerate(found, 1)]


def _message(where: str, message: Any) -> Message:
    """Check one message; text in parts is joined, as mlx_lm.server does."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise UsageError(f'{where}: expected an object with a text "role"')
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(_part(where, part) for part in content)
    if content is None and message.get("tool_calls"):
        content = ""
    if not isinstance(content, str):
        raise UsageError(f'{where}: "content" must be text, got {content!r}'[:200])
    if _depth(message) > _DEEPEST:
        raise UsageError(f"{where}: nested too deeply")
    try:
        json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{where}: holds half a character (a lone surrogate)") from None
    return {**message, "content": content}


def _depth(value: Any, above: int = 0) -> int:
    """How many lists and objects lie in each other, as far as it matters."""
    if above > _DEEPEST or not isinstance(value, dict | list):
        return above
    inner = value.values() if isinstance(value, dict) else value
    return max((_depth(item, above + 1) for item in inner), default=above + 1)


def _part(where: str, part: Any) -> str:
    if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
        raise UsageError(f"{where}: only parts of type text can be taken, got {part!r}"[:200])
    text: str = part["text"]
    return text


def unescape(text: str) -> str:
    r"""Turn the two characters \n and \t into newline and tab, as mlx_lm.generate does."""
    return text.replace("\\n", "\n").replace("\\t", "\t")
