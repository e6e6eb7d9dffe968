"""What is wrong with a chat template, a tokenizer, or the tokens that end an answer.

Each check is a function of the code that its findings carry, and its docstring is what is looked for. They look at
what comes out for a small conversation, not at the template's source.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from mlxctl.engine.loader import Source
from mlxctl.engine.prompt.confined import Confined, TooMuch
from mlxctl.engine.prompt.render import common
from mlxctl.engine.prompt.sample import (
    ANSWER,
    QUESTION,
    SECOND,
    SYSTEM,
    THOUGHT,
    TOOL,
    Sample,
    assistant,
    numbered,
    user,
)
from mlxctl.engine.prompt.template import source
from mlxctl.errors import MlxctlError, first_line
from mlxctl.events import Message
from mlxctl.settings import Settings

Severity = Literal["error", "warning", "note"]
Found = Iterator[tuple[str, str]]  # (evidence, mend)
_LOOKS_SPECIAL = re.compile(  # as the families spell them; XML of the text's own, such as <tool_call>, is none
    r"<\|[^|<>\s]{1,40}\|?>|<[^|<>\s]{1,40}\|>|<｜[^｜<>\s]{1,40}｜>|<(?:start|end)_of_[a-z]{1,20}>|</?s>"
    r"|<(?:bos|eos|pad|unk|sop|eop)>|<[A-Z][A-Z_]{1,30}_TOKEN>|\[(?:gMASK|sMASK|MASK|CLS|SEP)\]"
)
_THOUGHTS = "reasoning_content", "thinking"  # where messages carry what was thought, by the names that templates read
_LINE, _STOP = 400, 20  # most characters of a finding's text, and of a stop text that is proposed
_ODD_TEXT = 'Don\'t  fold  this :  café, naïve\n\n\t漢字 🙂 ﬁ "x" . y'


class Finding(msgspec.Struct, frozen=True):
    """One fault or property. code: stays the same from version to version. severity: "error" spoils answers, "warning"
    costs something, "note" is good to know."""

    code: str
    severity: Severity
    evidence: str
    mend: str


Check = Callable[[Sample], Found]
_CHECKS: dict[str, tuple[Severity, bool, Check]] = {}


def lint(tokenizer: Any, settings: Settings, folder: Path | None = None) -> list[Finding]:
    """Everything that is found, errors first.

    tokenizer: as the library's `load_tokenizer` returns it, with the EOS ids that count. folder: the model's, whose
    config.json and generation_config.json name EOS ids; None: not looked at.
    """
    sample = Sample(tokenizer, settings, folder)
    found = [
        Finding(code, severity, _short(evidence), _short(mend))
        for code, (severity, of_template, check) in _CHECKS.items()
        if not of_template or sample.renders
        for evidence, mend in _guarded(check, sample)
    ]
    order: Sequence[Severity] = ("error", "warning", "note")
    return sorted(found, key=lambda finding: order.index(finding.severity))


def _guarded(check: Check, sample: Sample) -> list[tuple[str, str]]:
    """What a check finds; a tokenizer that is odd in what one of them looks at shall not hide the others'."""
    try:
        return list(check(sample))
    except (MlxctlError, MemoryError):
        raise
    except Exception as error:  # tokenizers and templates raise anything
        sample.stumbles.append(f"{check.__name__.replace('_', '-')}: {type(error).__name__}: {first_line(error)}")
        return []


def _short(text: str) -> str:
    """A text of a line and no more: a template may write a hundred thousand characters where a token is looked for."""
    return text if len(text) <= _LINE else f"{text[: _LINE - 60]} ... {text[-40:]}"


@contextmanager
def examined(source: Source, settings: Settings, say: Callable[[str], None]) -> Iterator[None]:
    """While something else is done, look for what spoils answers, in a child process; then tell it.

    Raises TemplateError for a template that takes too much time or memory.
    """
    if not source.tokenizer.has_chat_template or settings.prompt.ignore_chat_template:
        yield
        return
    work = Confined(lambda: lint(source.tokenizer, settings, source.path), settings.model_id)
    try:
        yield
        for finding in _found(work):
            if finding.severity == "error" and finding.code != "template-fails":  # which the run itself will tell
                say(f"{settings.model_id}: {finding.code}: {finding.evidence}; {finding.mend}")
    finally:
        work.close()


def _found(work: Confined) -> list[Finding]:
    """What was found; nothing where the tokenizer cannot be looked at: the run itself will tell."""
    try:
        findings: list[Finding] = work.result(list[Finding])
        return findings
    except TooMuch:
        raise
    except MlxctlError:
        return []


def codes() -> dict[str, tuple[Severity, str]]:
    """Every code, with its severity and what is looked for."""
    return {code: (severity, " ".join((check.__doc__ or "").split())) for code, (severity, _, check) in _CHECKS.items()}


def _check(severity: Severity, *, of_template: bool = True) -> Callable[[Check], Check]:
    """Register a check. of_template: it needs one that renders a plain question."""

    def register(check: Check) -> Check:
        _CHECKS[check.__name__.replace("_", "-")] = severity, of_template, check
        return check

    return register


@_check("warning", of_template=False)
def no_template(sample: Sample) -> Found:
    """The tokenizer has no chat template, so that a question is handed over bare."""
    if not sample.tokenizer.has_chat_template:
        yield "the tokenizer has no chat template", "use a variant that is made for chats, or ask for a completion"


@_check("error", of_template=False)
def template_fails(sample: Sample) -> Found:
    """The template fails with a plain question."""
    if sample.tokenizer.has_chat_template and not sample.renders:
        why = sample.why(user())
        missing = re.search(r"'(\w+)' is undefined", why)
        mend = f"--chat-template-config '{{\"{missing[1]}\": …}}', or " if missing else "mend the template, or "
        yield f"a plain question fails: {why}", f"{mend}--ignore-chat-template"


@_check("error")
def text_dropped(sample: Sample) -> Found:
    """What the user says does not come through."""
    if QUESTION not in (sample.text(user()) or ""):
        yield "the user's text is not in the prompt", "mend the template: it must write message['content']"


def _closing(sample: Sample, tail: str) -> list[str]:
    """The special tokens that follow an answer at once, with nothing but blanks between them."""
    names: list[str] = []
    while (name := sample.first_special(tail)) is not None:
        before, _, tail = tail.partition(name)
        if names and before.strip():
            break
        names.append(name)
    return names


def _ends(sample: Sample) -> list[str]:
    """The special tokens that close an answer: those after the last of a conversation, but of what one that more
    follows begins with, too, no others."""
    closings = [closing for tail in sample.endings if (closing := _closing(sample, tail))]
    alike = closings[0][: common(closings)] if closings else []
    return alike or [name for closing in closings[:1] for name in closing]


@_check("error")
def end_token_not_eos(sample: Sample) -> Found:
    """The token that ends a turn of the assistant does not end an answer: the model runs on past its turn."""
    ends = _ends(sample)
    if ends and all(sample.special[name] not in sample.tokenizer.eos_token_ids for name in ends):
        yield (
            f"an answer ends with {ends[0]}, which is none of the end tokens: "
            f"{sample.named(sample.tokenizer.eos_token_ids) or 'there are none'}",
            f"extra_eos_token = [{json.dumps(ends[0], ensure_ascii=False)}] under [model] of a profile, "
            f"or --extra-eos-token {shlex.quote(ends[0])}",
        )


@_check("warning")
def no_end_token(sample: Sample) -> Found:
    """The template writes no token at the end of an answer: the model may not know when to stop."""
    stopped = any(stop in sample.endings[-1] for stop in sample.settings.generation.stop) if sample.endings else True
    if not stopped and not any(map(sample.first_special, sample.endings)):
        stop = sample.endings[-1].strip(" ")[:_STOP] or "\n"
        yield (
            f"after an answer the template writes {json.dumps(sample.endings[-1], ensure_ascii=False)}, and no token",
            f"stop = [{json.dumps(stop, ensure_ascii=False)}] under [generation] of a profile, or --stop",
        )


def _always_opens(sample: Sample) -> bool:
    """Whether every prompt ends with a turn of the assistant that is open, asked for or not: what follows an answer at
    the end is no beginning of what follows it when the user goes on."""
    last = (sample.text(user(), assistant(), generate=False) or "").rpartition(ANSWER)[2]
    more = (sample.text(user(), assistant(), user(SECOND)) or "").partition(ANSWER)[2]
    return bool(more) and not more.startswith(last)


@_check("error")
def no_generation_prompt(sample: Sample) -> Found:
    """The template does not open the assistant's turn, though turns have a heading."""
    asked, open_ = sample.text(user(), generate=False) or "", sample.text(user()) or ""
    before, found, _ = (sample.text(user(), assistant(), generate=False) or "").partition(ANSWER)
    after, between = asked.rpartition(QUESTION)[2], before.rpartition(QUESTION)[2]
    if asked != open_ or not found or QUESTION not in asked or (between.startswith(after) and _always_opens(sample)):
        return
    heading = between[common([after, between]) :]
    if heading.strip():
        yield (
            f"add_generation_prompt changes nothing, and an answer begins with {json.dumps(heading)}",
            "mend the template: {% if add_generation_prompt %} must write that heading",
        )


@_check("error")
def system_dropped(sample: Sample) -> Found:
    """A system prompt is left out without a word."""
    system: Message = {"role": "system", "content": SYSTEM}
    first, second = sample.text(system, user()), sample.text(system, user(), assistant(), user(SECOND))
    if first is not None and SYSTEM not in first:
        yield "a system prompt does not come through", "say it in the question; --system-prompt does nothing here"
    elif second is not None and SYSTEM not in second:
        yield "in a second turn the system prompt is left out", "say it in the question, too"


@_check("warning")
def system_refused(sample: Sample) -> Found:
    """A system prompt is an error."""
    messages: tuple[Message, ...] = ({"role": "system", "content": SYSTEM}, user())
    if sample.text(*messages) is None:
        yield f"a system prompt fails: {sample.why(*messages)}", "say it in the question instead of --system-prompt"


@_check("error")
def second_turn_fails(sample: Sample) -> Found:
    """The template takes one question, and fails with an answer and a second question."""
    messages = user(), assistant(), user(SECOND)
    if sample.text(*messages) is None:
        yield f"a second question fails: {sample.why(*messages)}", "mend the template, or ask one question at a time"


@_check("error")
def history_dropped(sample: Sample) -> Found:
    """Earlier questions or answers are left out of the prompt."""
    text = sample.text(user(), assistant(), user(SECOND))
    lost = [name for name, said in (("question", QUESTION), ("answer", ANSWER)) if said not in (text or said)]
    mend = "mend the template: it must write every message as it was said"
    if QUESTION not in (sample.text(user()) or ""):
        return  # which is told as it is
    if lost:
        yield f"in a second turn the first {' and the first '.join(lost)} is not in the prompt as it was", mend
    elif sample.long and numbered(QUESTION, 0) not in sample.long:
        yield "in a fifth turn the first question is not in the prompt", mend


@_check("error")
def double_bos(sample: Sample) -> Found:
    """The prompt begins with the BOS token twice."""
    bos = sample.tokenizer.bos_token_id
    for before in sample.beginnings if bos is not None else ():
        if sample.ids(sample.text(*before, user()) or "")[:2] == [bos, bos]:
            where = " with a system prompt" if before else ""
            yield f"a prompt{where} begins with {sample.named({bos})} twice", "mend the template: it must write it once"
            return


@_check("warning")
def missing_bos(sample: Sample) -> Found:
    """The tokenizer puts BOS before a text, and the template does not."""
    bos, ids = sample.tokenizer.bos_token_id, sample.ids(sample.text(user()) or "")
    if bos is not None and sample.tokenizer.encode("x")[:1] == [bos] and ids[:1] != [bos]:
        yield f"the prompt does not begin with {sample.named({bos})}", "mend the template: {{ bos_token }} comes first"


@_check("error")
def unknown_special_token(sample: Sample) -> Found:
    """The template writes what looks like a special token and is none of the tokenizer's."""
    for name in _unknown(sample, _said(sample)):
        yield f"{name} is written, and encoded as text", "use the model's own tokenizer files, or mend the template"


def _said(sample: Sample) -> list[str | None]:
    """Conversations of the usual roles, as the template writes them."""
    return [sample.text({"role": "system", "content": SYSTEM}, user()), sample.text(user(), assistant(), user(SECOND))]


def _unknown(sample: Sample, texts: Iterable[str | None]) -> list[str]:
    """What looks like special tokens in rendered texts, and is none."""
    spelled = dict.fromkeys(name for text in texts for name in _LOOKS_SPECIAL.findall(text or ""))
    return [name for name in spelled if len(sample.ids(name)) != 1]


@_check("warning", of_template=False)
def eos_disagree(sample: Sample) -> Found:
    """config.json, generation_config.json and the tokenizer name different end tokens."""
    said = list(sample.eos_by_file.values())
    if any(not (one <= other or other <= one) for one in said for other in said):
        evidence = "; ".join(f"{name}: {sample.named(ids)}" for name, ids in sample.eos_by_file.items())
        yield evidence, "all of them end an answer here; in other tools name them with extra_eos_token"


@_check("warning", of_template=False)
def unknown_end_token(sample: Sample) -> Found:
    """config.json or generation_config.json name an end token that the tokenizer does not have."""
    for name, ids in sample.eos_by_file.items():
        unknown = {id for id in ids if sample.piece(id) is None}
        if unknown:
            yield f"{name}: {', '.join(map(str, sorted(unknown)))} is no token", "use the model's own tokenizer files"


@_check("note", of_template=False)
def extra_eos_present(sample: Sample) -> Found:
    """An extra_eos_token ends answers without being named."""
    known = set().union(*sample.eos_by_file.values())
    spelled = {sample.piece(id): id for id in known} | {f"id:{id}": id for id in known}
    for name in sample.settings.model.extra_eos_token:
        if name in spelled:
            yield f"{name} is among the model's own end tokens", "it can be left out of extra_eos_token"


@_check("warning")
def turn_not_prefix(sample: Sample) -> Found:
    """What was said is written otherwise in the next turn: a cache is cut there."""
    for before in sample.beginnings:
        first = sample.ids(sample.text(*before, user(), generate=False) or "")
        opened = sample.ids(sample.text(*before, user()) or "")
        second = sample.ids(sample.text(*before, user(), assistant(), user(SECOND)) or "")
        same = common([opened, second]) if second else len(opened)
        if same < min(len(first), len(opened)) - 1:
            yield (
                f"of the {len(opened)} tokens of a first turn{' with a system prompt' if before else ''}, the second "
                f"begins with {same}: a cache is cut there, and {len(opened) - same} tokens and the answer are "
                "computed again",
                "mend the template: what it writes of a message must not depend on what follows",
            )
            return


@_check("note")
def answer_not_prefix(sample: Sample) -> Found:
    """The beginning of an answer is written otherwise in the next turn: its cache is cut there."""
    opened, second = sample.text(user()) or "", sample.text(user(), assistant(), user(SECOND)) or ""
    if not second or any(True for _ in turn_not_prefix(sample)) or second.startswith(opened.rstrip()):
        return
    ids, following = sample.ids(opened), sample.ids(second)
    same = common([ids, following]) if following else len(ids)
    yield (
        f"of the {len(ids)} tokens that an answer follows, the next turn begins with {same}: "
        f"{len(ids) - same} tokens and the answer are computed again",
        "none: templates of models that think do so"
        if _thinking(sample) is not None
        else "mend the template: an answer must begin as the generation prompt does",
    )


@_check("note")
def thinking_kept(sample: Sample) -> Found:
    """The thinking of earlier answers stays in the prompt."""
    if _thinking(sample) is True:
        yield "the thinking of earlier answers is shown to the model again", "it takes room in the context"


@_check("note")
def thinking_dropped(sample: Sample) -> Found:
    """The thinking of earlier answers is left out of the prompt."""
    if _thinking(sample) is False:
        yield "the thinking of earlier answers is not shown to the model again", "a cache is cut at each answer"


def _thinking(sample: Sample) -> bool | None:
    """Whether thinking is kept; None for a model that does not think."""
    start, end = sample.tokenizer.think_start, sample.tokenizer.think_end
    if start is None and not _reads_thoughts(source(sample.tokenizer) or ""):
        return None
    inside = f"{start}\n{THOUGHT}\n{end}\n\n{ANSWER}" if start is not None else ANSWER
    # As chat sends it, and as it stands in the text of an answer; both at once no program sends.
    apart = {"content": ANSWER, **dict.fromkeys(_THOUGHTS, THOUGHT)}
    for form in (apart, {"content": inside}):
        message = {"role": "assistant", **form}
        text = sample.text(user(), message, user(SECOND))
        if text is not None and THOUGHT in text:
            return True
    return False


def _reads_thoughts(template: str) -> bool:
    """Whether a template looks for what was thought in a message, rather than at a switch of such a name."""
    return any(re.search(rf"""\.{name}\b|\[\s*['"]{name}['"]\s*\]""", template) for name in _THOUGHTS)


@_check("note")
def strips_whitespace(sample: Sample) -> Found:
    """Spaces and line ends around a text are taken away."""
    question, answer = f"  {QUESTION}\n\n", f"  {ANSWER}\n\n"
    text = sample.text(user(question), assistant(answer), user(SECOND)) or sample.text(user(question)) or ""
    stripped = [name for name, said in (("a question", question), ("an answer", answer))
                if said not in text and said.strip() in text]  # fmt: skip
    if stripped:
        yield f"spaces and line ends around {' and '.join(stripped)} are taken away", "none, where they do not matter"


@_check("note")
def tools_unsupported(sample: Sample) -> Found:
    """Results of tools fail, or are left out."""
    texts = [sample.text(*messages) for messages in _TOOL_USED]
    if not any(texts):
        yield f"the role tool fails: {sample.why(*_TOOL_USED[0])}", "use a model that knows tools"
    elif not any(TOOL in (text or "") for text in texts):
        yield "what a tool said does not come through", "use a model that knows tools"
    elif unknown := [name for name in _unknown(sample, texts) if name not in _unknown(sample, _said(sample))]:
        yield f"{unknown[0]} is written around what a tool said, and encoded as text", "use a model that knows tools"


def _tool_used(arguments: Any) -> tuple[Message, ...]:
    """A conversation in which the model called a tool, and the tool answered."""
    call = {"type": "function", "id": "tide00001", "function": {"name": "tide", "arguments": arguments}}
    return (
        user(), {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "tide", "tool_call_id": "tide00001", "content": TOOL},
    )  # fmt: skip


_ARGUMENTS = {"pier": "north"}
_TOOL_USED = _tool_used(_ARGUMENTS), _tool_used(json.dumps(_ARGUMENTS))  # some templates want them as text


@_check("warning", of_template=False)
def changes_text(sample: Sample) -> Found:
    """Text does not come back from encoding and decoding as it was."""
    # What a tokenizer tidies up when it decodes is another matter: answers are put together without that.
    back = sample.tokenizer.decode(sample.ids(_ODD_TEXT), clean_up_tokenization_spaces=False)
    if back == _ODD_TEXT or back == f" {_ODD_TEXT}":
        return
    at = next((i for i, (one, other) in enumerate(zip(_ODD_TEXT, back, strict=False)) if one != other), len(back))
    around = slice(max(at - 8, 0), at + 8)
    yield (
        f"{json.dumps(_ODD_TEXT[around], ensure_ascii=False)} becomes {json.dumps(back[around], ensure_ascii=False)}",
        "none: the model never sees such text as it is",
    )


@_check("note", of_template=False)
def not_checked(sample: Sample) -> Found:
    """Something of the above could not be looked at."""
    for stumble in sample.stumbles:
        yield stumble, "none: what it looks for may be there or not"
