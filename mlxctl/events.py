"""What a run yields: plain data, so that an engine in another process can send the same."""

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

SCHEMA: Final = "mlxctl.run/1"

Message = dict[str, Any]  # {"role": "user", "content": "…"}, as chat templates take it


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the person should know; never part of the answer."""

    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Prompt tokens processed so far."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token and the text it released.

    raw: all of it; text: the answer's part; thinking: the part between the thinking markers. The markers stand in
    raw alone. Text that may yet turn out to be a stop string is held back and comes with a later token.
    logprob: natural logarithm of the token's probability, None unless asked for. top_logprobs: likewise of the
    likeliest tokens, as {"id", "piece", "text", "logprob"}, the likeliest first.
    """

    id: int
    raw: str
    text: str
    thinking: str
    from_draft: bool = False
    logprob: float | None = None
    top_logprobs: list[dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Figures of a run: seconds, tokens, tokens per second, GB of 1e9 bytes. None is unknown, never zero.

    generation_tokens counts the end token, as mlx_lm does; generation_tps is of the tokens after the first.
    bytes_per_token: what one more token reads at least, weights and caches; ceiling_tps: the rate at which memory
    delivers that, where its bandwidth was measured.
    """

    load_s: float | None = None
    ttft_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    prefill_tokens: int | None = None
    prompt_tps: float | None = None
    generation_tokens: int = 0
    generation_tps: float | None = None
    decode_s: float | None = None
    total_s: float | None = None
    peak_memory_gb: float | None = None
    kv_bytes: int | None = None
    kv_layers: int | None = None
    kv_layers_quantized: int | None = None
    draft_tokens: int | None = None
    draft_accepted: int | None = None
    bytes_per_token: int | None = None
    ceiling_tps: float | None = None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Which model answered. dtype: the type it computed in; expanded: whether quantized weights were made dense."""

    id: str
    path: str
    revision: str | None
    fingerprint: str
    dtype: str
    expanded: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a run. finish_reason: "stop", "length" or "interrupted"; `stop` says by what, and with "incomplete"
    that the answer does not satisfy the grammar that was asked for."""

    text: str
    thinking: str | None
    finish_reason: Literal["stop", "length", "interrupted"]
    stop: dict[str, Any]
    profile: str | None
    model: ModelInfo
    seed: int
    timing: Timing
    versions: dict[str, str]
    device: str

    @property
    def is_incomplete(self) -> bool:
        """Whether it is not what the grammar asks for: it was cut before its end."""
        return bool(self.stop.get("incomplete"))

    def as_dict(self) -> dict[str, Any]:
        """The run object of README, as JSON types."""
        return {"schema": SCHEMA, **asdict(self)}


Event = Notice | Progress | Token | Done
