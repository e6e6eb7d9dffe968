"""From messages to token ids: the chat template, and what may go wrong in it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl.engine.prompt.template import unread_arguments
from mlxctl.engine.special import Guard, protected
from mlxctl.errors import ModelError, ResourceError, TemplateError, UsageError, first_line, is_out_of_memory
from mlxctl.events import Message
from mlxctl.settings import Settings

_PROBES = ("A", "zero", "1", "(")  # texts that tokenizers take apart in different ways
_QUERY = "mlxctl-query-7d1f"  # marks the user's text when the suffix for an upstream cache file is cut out
_LONG = 200_000  # characters
_LONGEST, _TIMES = 1_000_000, 4  # characters that a template may add, and how often it may repeat what it is given


@dataclass(frozen=True)
class Rendered:
    """What the model is handed. continues: the answer goes on with a text that was begun, rather than starting a turn.

    opened_thinking: the prompt ends inside a thinking block. dropped: what has no place without a template.
    """

    text: str
    ids: list[int]
    templated: bool
    continues: bool
    opened_thinking: bool
    dropped: tuple[str, ...]


def render(tokenizer: Any, messages: Sequence[Message], settings: Settings, *, suffix: bool = False) -> Rendered:
    """Render messages with the chat template and encode them.

    A last message of the assistant is continued, and so is `prompt.prefill_response`. suffix: return only what
    follows the beginning of the last message's text, for a cache that holds the rest (mlx_lm.cache_prompt's rule).
    Raises TemplateError, or UsageError where there is nothing to say to the model.
    """
    if not messages:
        raise UsageError("there are no messages to answer")
    if suffix and all(message["role"] != "user" for message in messages):
        raise UsageError("the messages ask nothing: a prompt cache is continued with a message of the user")
    templated = tokenizer.has_chat_template and not settings.prompt.ignore_chat_template
    messages = _with_prefill(list(messages), settings)
    dropped = () if templated else _without_place(messages)
    guard = Guard(tokenizer)
    guarded = not settings.request.allow_special and guard.spelled(messages)
    messages = guard.hide(messages) if guarded else messages
    text = _apply(tokenizer, messages, settings, suffix) if templated else _bare(messages)
    add_special_tokens = not templated and not suffix
    if guarded:
        ids = guard.encode(text, add_special_tokens=add_special_tokens)
        text = guard.reveal(text)
    else:
        ids = encode(tokenizer, text, add_special_tokens, settings)
    if not ids:
        raise UsageError("the prompt is empty: there is nothing to hand to the model")
    continues = not templated or messages[-1]["role"] == "assistant"
    begun = messages[-1]["content"] if messages[-1]["role"] == "assistant" else ""
    return Rendered(text, ids, templated, continues, _opened(tokenizer, text, begun), dropped)


def least_tokens(tokenizer: Any, messages: Sequence[Message]) -> int:
    """How many tokens messages have at the very least, by the longest token there is: told at once, where encoding
    millions of characters takes minutes and gigabytes. 0 for what is short."""
    characters = sum(len(message["content"]) for message in messages if isinstance(message.get("content"), str))
    if characters < _LONG:
        return 0
    return characters // max(map(len, tokenizer.get_vocab()))


@dataclass(frozen=True)
class OpenTurn:
    """A prompt up to where the user goes on speaking. stable: how many of its ids hold whatever comes next."""

    text: str
    ids: list[int]
    stable: int


def open_turn(tokenizer: Any, messages: Sequence[Message], settings: Settings) -> OpenTurn:
    """Render messages up to the end of the last text of the user, where a question may follow.

    Where the last message is not the user's, a turn is opened. Raises TemplateError, UsageError.
    """
    opened = (
        [*messages] if messages and messages[-1]["role"] == "user" else [*messages, {"role": "user", "content": ""}]
    )
    text, ids = _until(tokenizer, opened, settings)
    full = [render(tokenizer, _going_on(opened, probe), settings).ids for probe in _PROBES]
    settled = full[0][: common(full)]
    if tokenizer.decode(settled) == tokenizer.decode(ids):
        return OpenTurn(text, settled, len(settled))  # the same text, as it is encoded when more follows
    return OpenTurn(text, ids, common([ids, *full]))


def _until(tokenizer: Any, messages: list[Message], settings: Settings) -> tuple[str, list[int]]:
    """(text, ids) of the prompt up to the end of the last message's text."""
    templated = tokenizer.has_chat_template and not settings.prompt.ignore_chat_template
    guard = Guard(tokenizer)
    guarded = not settings.request.allow_special and guard.spelled(messages)
    marked = _going_on(guard.hide(messages) if guarded else messages, _QUERY)
    text = _template(tokenizer, marked, settings) if templated else _bare(marked)
    before, found, _ = text.rpartition(_QUERY)
    if not found:
        raise TemplateError(f"the chat template of {settings.model_id} does not pass the user's text on as it is")
    if guarded:
        return guard.reveal(before), guard.encode(before, add_special_tokens=not templated)
    return before, encode(tokenizer, before, not templated, settings)


def stable_length(tokenizer: Any, messages: Sequence[Message], settings: Settings, ids: list[int], shared: str) -> int:
    """How many of a prompt's ids hold when the last text of the user goes on otherwise after its beginning `shared`."""
    asked = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=None)
    if asked is None:
        return 0
    cut = [*messages[:asked], {**messages[asked], "content": shared}]
    return common([ids, *(render(tokenizer, _going_on(cut, probe), settings).ids for probe in _PROBES)])


def pieces(tokenizer: Any, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Token by token: its id, its piece of the vocabulary, its text, and whether it is special rather than text."""
    special = set(protected(tokenizer).values())
    found = zip(ids, tokenizer.convert_ids_to_tokens(list(ids)), strict=True)
    return [{"id": id, "piece": piece, "text": tokenizer.decode([id]), "special": id in special} for id, piece in found]


def _going_on(messages: Sequence[Message], text: str) -> list[Message]:
    """The messages, with more text at the end of the last."""
    return [*messages[:-1], {**messages[-1], "content": messages[-1]["content"] + text}]


def common(prompts: Sequence[Sequence[Any]]) -> int:
    """How many tokens all of the prompts begin with alike."""
    return next((n for n, column in enumerate(zip(*prompts, strict=False)) if len(set(column)) > 1),
                min(map(len, prompts)))  # fmt: skip


def encode(tokenizer: Any, text: str, add_special_tokens: bool, settings: Settings) -> list[int]:
    """Token ids of a text. Raises ModelError."""
    try:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=add_special_tokens)
    except Exception as error:  # a damaged tokenizer fails in any way
        reason = first_line(error)
        raise ModelError(f"the tokenizer of {settings.model_id} cannot encode the prompt: {reason}") from error
    return ids


def notices(tokenizer: Any, rendered: Rendered, settings: Settings) -> Iterator[str]:
    """What a person should know of how the prompt came about."""
    if rendered.templated:
        yield from unread_notices(tokenizer, settings)
    elif not settings.prompt.ignore_chat_template:
        yield f"{settings.model_id} has no chat template: the text is handed over bare"
    if rendered.dropped:
        yield f"without a chat template these have no place and are left out: {', '.join(rendered.dropped)}"


def unread_notices(tokenizer: Any, settings: Settings) -> list[str]:
    """Which arguments the chat template is given and does not read, in words."""
    names = unread_arguments(tokenizer, settings.template_arguments)
    return [f"the chat template does not read {name!r}: it changes nothing" for name in names]


def _with_prefill(messages: list[Message], settings: Settings) -> list[Message]:
    prefill = settings.prompt.prefill_response
    return messages if prefill is None else [*messages, {"role": "assistant", "content": prefill}]


def _without_place(messages: list[Message]) -> tuple[str, ...]:
    """What a bare text cannot hold, in words."""
    names = {"system": "the system prompt", "assistant": "the answer's beginning (or earlier answers)"}
    roles = dict.fromkeys(message["role"] for message in messages if message["role"] != "user")
    return tuple(names.get(role, f"the messages of {role}") for role in roles)


def _bare(messages: list[Message]) -> str:
    """The user's text alone, as mlx_lm does without a template."""
    texts = [message["content"] for message in messages if message["role"] == "user"]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _apply(tokenizer: Any, messages: list[Message], settings: Settings, suffix: bool) -> str:
    text = _template(tokenizer, messages, settings)
    if not suffix:
        return text
    asked = max(i for i, message in enumerate(messages) if message["role"] == "user")
    marked = [{**message, "content": _QUERY} if i == asked else message for i, message in enumerate(messages)]
    start = _template(tokenizer, marked, settings).find(_QUERY)
    if start < 0:
        raise TemplateError(f"the chat template of {settings.model_id} does not pass the user's text on as it is")
    return text[start:]


def _template(tokenizer: Any, messages: list[Message], settings: Settings) -> str:
    return apply(tokenizer, messages, settings, continues=bool(messages) and messages[-1]["role"] == "assistant")


def apply(
    tokenizer: Any, messages: Sequence[Message], settings: Settings, *, continues: bool = False, generate: bool = True
) -> str:
    """What the chat template makes of messages, through the library. Raises TemplateError, ResourceError.

    continues: the last message is left open. generate: else, the assistant's turn is begun.
    """
    try:
        text: str = tokenizer.apply_chat_template(
            [*messages],  # as a list, which templates may add to another
            tokenize=False,
            continue_final_message=continues,
            add_generation_prompt=generate and not continues,
            **settings.template_arguments,
        )
    except Exception as error:
        # Templates are programs of the model's author: they raise anything.
        if is_out_of_memory(error):
            raise ResourceError(f"out of memory in the chat template of {settings.model_id}") from error
        why = first_line(error).encode("utf-8", "replace").decode()  # a template may complain in half a character
        raise TemplateError(f"the chat template of {settings.model_id} fails: {why}", hint=_hint(messages)) from error
    if not is_whole(text):
        raise TemplateError(f"the chat template of {settings.model_id} yields half a character")
    given = sum(len(str(message)) for message in messages)
    if len(text) > _LONGEST + _TIMES * given:
        raise TemplateError(f"the chat template of {settings.model_id} makes {len(text)} characters of {given}")
    return text


def is_whole(text: str) -> bool:
    """Whether a text has no half of a character, which nothing can encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _hint(messages: Sequence[Message]) -> str:
    if messages and messages[0]["role"] == "system":
        return "some templates refuse a system message: try without --system-prompt"
    return "--ignore-chat-template hands the model the bare text"


def _opened(tokenizer: Any, text: str, begun: str) -> bool:
    """Whether the answer begins inside a thinking block: the template opened one, or what is continued did."""
    start, end = tokenizer.think_start, tokenizer.think_end
    return start is not None and (text.rstrip().endswith(start) or begun.rfind(start) > begun.rfind(end))
