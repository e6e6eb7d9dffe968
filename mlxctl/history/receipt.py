"""A run's receipt: what made the answer what it is, so that it can be told, compared and made again."""

import hashlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from mlxctl import options
from mlxctl.history.record import Receipt, Setting
from mlxctl.profiles.places import from_here
from mlxctl.profiles.values import Value
from mlxctl.settings import Settings

if TYPE_CHECKING:
    from mlxctl.engine.stream import Generation


def of_run(generation: "Generation", asked: Mapping[str, Value]) -> Receipt:
    """Of an answer, or of a prompt that was read. asked: the settings as they were asked for, with their origins."""
    job = generation.job
    known = len(job.seen) == job.cached_tokens  # a file of mlx_lm.cache_prompt does not tell its tokens
    words = job.settings.output.log_text
    return Receipt(
        settings=settings(job.settings, asked),
        prompt_hash=hash_of([*job.seen, *job.ids]) if known else None,
        answer_hash=hash_of(generation.ids),
        messages=[dict(message) for message in job.messages] if words else UNSET,
        ids=list(generation.ids) if words else UNSET,
    )


def settings(used: Settings, asked: Mapping[str, Value]) -> dict[str, Setting]:
    """What a run used, by key: a prompt cache may have changed what was asked for."""
    return dict(_settings(used, asked))


def hash_of(ids: Sequence[int]) -> str:
    """Tells two lists of token ids apart."""
    return "sha256:" + hashlib.sha256(array("I", ids).tobytes()).hexdigest()


def _settings(used: Settings, asked: Mapping[str, Value]) -> Iterator[tuple[str, Setting]]:
    effective = msgspec.to_builtins(used)
    for row in options.options():
        value = effective[row.section][row.name]
        secret = row.words and value not in (None, [], {}) and not used.output.log_text
        yield row.key, Setting(_origin(asked.get(row.key), value), UNSET if secret else _in_full(row.key, value, asked))
    for name, value in used.template.items():
        # A switch says nothing; a text may be said to the model.
        secret = not isinstance(value, bool | int | float | None) and not used.output.log_text
        yield f"template.{name}", Setting(_origin(asked.get(f"template.{name}"), value), UNSET if secret else value)


def _in_full(key: str, value: Any, asked: Mapping[str, Value]) -> Any:
    """Names of files and folders as they are found from anywhere."""
    return from_here(key, replace(asked[key], value=value)).value if key in asked and value else value


def _origin(asked: Value | None, value: Any) -> str:
    same = asked is not None and msgspec.to_builtins(asked.value) == value
    return asked.origin if asked is not None and same else "the run"
