"""Running a past run again: its settings and messages from the receipt, and how the tokens compare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from mlxctl import options
from mlxctl.errors import UsageError
from mlxctl.events import Message
from mlxctl.history.receipt import hash_of
from mlxctl.history.record import Record
from mlxctl.settings import Settings

# What a run has beside its answer, or starts from: nothing of that is to be done again.
_LEFT_OUT = ("cache.name", "cache.auto", "request.prompt_cache_file", "request.cache_update", "request.dry_run",
             "request.stats_file", "request.messages")  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How the tokens compare. first_difference: the place of the first other token, counted from 0; None where there is
    none, or where the words of the run were not kept."""

    id: int
    same: bool
    tokens: int
    tokens_then: int
    first_difference: int | None


def settings_of(record: Record, given: Mapping[str, Any]) -> Settings:
    """The settings of a run, with what is given anew. Raises UsageError where something is missing or cannot be."""
    if record.run.finish_reason is None:
        raise UsageError(f"run {record.id} is a {record.command}: there is no answer to compare")
    if record.run.finish_reason == "interrupted" and not record.run.timing.generation_tokens:
        raise UsageError(f"run {record.id} was interrupted before its first token")
    if record.receipt.prompt_hash is None:
        raise UsageError(f"run {record.id} began with a file of mlx_lm.cache_prompt, whose tokens nobody knows")
    values = {key: setting.value for key, setting in record.receipt.settings.items()}
    known = {key for key in values if key in options.by_key() or key.startswith("template.")}
    kept = {key: values[key] for key in known - {*_LEFT_OUT} if values[key] is not UNSET}
    return options.build({**_checked(record, kept), **given, **_fixed(record)}, profile=record.profile)


def require_words(record: Record, given: Mapping[str, Any]) -> None:
    """See that all is there again that was not kept. Raises UsageError, which names the flags."""
    gone = [key for key, setting in record.receipt.settings.items()
            if setting.value is UNSET and key not in given and key != "request.prompt"]  # fmt: skip
    gone = [key for key in gone if key.partition("template.")[2] not in given.get("request.chat_template_config", {})]
    if gone:
        flags = ", ".join(dict.fromkeys(_flag(key) for key in gone))
        raise UsageError(f"the words of run {record.id} were not kept: give its prompt again, and {flags}")


def _flag(key: str) -> str:
    row = options.by_key().get(key)
    return row.flag_name if row is not None else "--chat-template-config"


def messages_of(record: Record) -> list[Message] | None:
    """What was said, where it was kept."""
    return None if record.receipt.messages is UNSET else record.receipt.messages


def require_same_prompt(record: Record, ids: Sequence[int]) -> None:
    """Raises UsageError for another prompt than that of the run."""
    if hash_of(ids) != record.receipt.prompt_hash:
        raise UsageError(f"this is not the prompt of run {record.id}: its tokens are others",
                         hint=_whole_prompt(record))  # fmt: skip


def _whole_prompt(record: Record) -> str:
    """What must be given for the same prompt."""
    cache = record.receipt.settings.get("cache.name")
    if cache is not None and cache.value:
        return f"it went on from what cache {cache.value} holds: give all of that, too, with --messages"
    if record.command == "chat":
        return "a turn of a chat has all that was said before it: give it with --messages"
    return "the prompt, its files and the chat template must be what they were"


def unchecked(given: Mapping[str, Any]) -> list[str]:
    """Flags of what was given anew and is no part of the prompt, so that nothing tells whether it is what it was."""
    of_prompt = ("prompt.", "request.prompt", "request.messages", "request.param", "request.chat_template_config",
                 "request.offline")  # fmt: skip
    return [options.by_key()[key].flag_name for key in given if not key.startswith(of_prompt)]


def outcome(record: Record, ids: Sequence[int]) -> Outcome:
    """Compare the tokens of now with those of then."""
    then = record.receipt.ids
    count = record.run.timing.generation_tokens
    same = hash_of(ids) == record.receipt.answer_hash
    place = None
    if not same and then is not UNSET:
        pairs = zip(ids, then, strict=False)
        place = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(ids), len(then)))
    return Outcome(record.id, same, len(ids), count, place)


def changes(record: Record, fingerprint: str, versions: Mapping[str, str], device: str) -> list[str]:
    """What is not as it was then, in words."""
    run = record.run
    found = [f"the model's files are others than those of run {record.id}"] * (run.model.fingerprint != fingerprint)
    found += [f"{name} was {old}, it is {versions.get(name, 'gone')}"
              for name, old in run.versions.items() if versions.get(name) != old]  # fmt: skip
    found += [f"it ran on {run.device}, this is {device}"] * (run.device != device)
    if run.timing.cached_tokens:
        found.append("its prompt came from a cache in part and is read as a whole now, which may turn near ties")
    return found


def _fixed(record: Record) -> dict[str, Any]:
    """What makes an answer the same one."""
    fixed: dict[str, Any] = {"sampler.seed": record.run.seed}
    if record.model.startswith("/"):  # a folder, however it was called from where the run was
        fixed["model.path"] = record.model
    if record.run.finish_reason == "interrupted":
        fixed["generation.max_tokens"] = record.run.timing.generation_tokens
    return fixed


def _checked(record: Record, values: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {key: options.check(options.by_key()[key], value) if key in options.by_key() else value
                for key, value in values.items()}  # fmt: skip
    except ValueError as error:
        raise UsageError(f"run {record.id} was made with settings that cannot be any more: {error}") from None
