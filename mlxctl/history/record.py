"""A run as the history keeps it: what it measured, and what made it so."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from mlxctl.events import SCHEMA, ModelInfo, Timing


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The object "mlxctl.run/1"; without text unless output.log_text asked for it. finish_reason: None for what answers
    nothing."""

    schema: Literal["mlxctl.run/1"] = SCHEMA
    text: str | UnsetType = UNSET
    thinking: str | UnsetType | None = UNSET
    finish_reason: str | None
    stop: dict[str, Any] | None
    profile: str | None
    model: ModelInfo
    seed: int | None
    timing: Timing
    versions: dict[str, str]
    device: str


class Setting(msgspec.Struct, frozen=True):
    """A setting and where it came from; without a value where that is words that were not to be kept."""

    origin: str
    value: Any = UNSET


class Tested(msgspec.Struct, frozen=True):
    """What of a bench's test is looked at again."""

    test: str
    avg_ts: float
    stddev_ts: float | None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What made a run what it was. settings: by key. The hashes are of token ids, None where these are not known.

    messages, ids: what was said and the answer's tokens, where output.log_text asked for it. tests: of a bench.
    """

    settings: dict[str, Setting]
    prompt_hash: str | None = None
    answer_hash: str | None = None
    messages: list[dict[str, Any]] | UnsetType = UNSET
    ids: list[int] | UnsetType = UNSET
    tests: list[dict[str, Any]] | UnsetType = UNSET


class Record(msgspec.Struct, frozen=True):
    """One run. at: seconds since 1970. model: its name, a folder's in full."""

    id: int
    at: float
    command: str
    model: str
    profile: str | None
    run: Run
    receipt: Receipt
