"""The loop: token ids in, events out."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from mlxctl.engine import device, kv
from mlxctl.engine.job import Job
from mlxctl.engine.text import Scanner, Thinking
from mlxctl.errors import MlxctlError, ResourceError, UsageError, first_line, is_out_of_memory
from mlxctl.events import Event, Progress, Timing, Token

_SPACES = ("Ġ", "▁")  # how vocabularies spell a space at the start of a token
_ENDLESS = 2**31 - 1  # speculative decoding cannot take -1


@dataclass
class _Clock:
    """When things happened, on time.perf_counter."""

    prefill: float = 0.0
    read: float | None = None  # where reading the prompt is all there is to do
    first: float | None = None
    last: float | None = None


@dataclass
class Generation:
    """A run under way: iterate `events`, then read what came of it. `stop` is None until it has ended."""

    job: Job
    text: str = ""
    thinking: str = ""
    ids: list[int] = field(default_factory=list)
    stop: dict[str, Any] | None = None
    snapshot: kv.Prefix | None = None
    _clock: _Clock = field(default_factory=_Clock)
    _drafted: int = 0
    _accepted: int = 0
    _round_left: int = 0
    _space: bool = False
    _steps: int = 0
    _fed: int = 0  # of the job's ids, by both models
    _sure: bool = True  # of what the caches hold: not while they are being changed
    _caches_at_first: int = 0  # bytes that the first token read of them
    _handed_over: tuple[int | None, int | None, int | None] | None = None  # what the caches measured then

    def events(self) -> Iterator[Event]:
        """Prefill, then decode. Raises ResourceError, or MlxctlError when the library gives up."""
        self._begin()
        with as_run_error(self.job.settings.model_id), device.wired():
            if self.job.caches is not None and self.job.embeddings is None:
                yield from self.prefill(self.job.ids[:-1])  # the library takes the last one
            if self.stop is None:
                yield from self._decode()

    def reading(self) -> Iterator[Progress]:
        """Process the prompt, and that is all."""
        self._begin()
        with as_run_error(self.job.settings.model_id), device.wired():
            yield from self.prefill(self.job.ids)
        if self.stop is None:
            self._clock.read = time.perf_counter()

    def _begin(self) -> None:
        import mlx.core as mx

        mx.reset_peak_memory()
        self._clock.prefill = time.perf_counter()

    def prefill(self, ids: list[int]) -> Iterator[Progress]:
        """Process tokens of the prompt here rather than in the library: its callback cannot yield, is not called with a
        draft model, and could not be cancelled. Ends early, with `stop` set, when the run is cancelled."""
        job, caches = self.job, self.job.caches or []
        size = job.settings.generation.prefill_step_size
        if size < 1:
            raise UsageError(f"--prefill-step-size: expected a whole number of at least 1, got {size}")
        main = len(job.model.layers) if job.draft is not None else len(caches)
        parts = [(job.model, slice(None, main))] + ([(job.draft, slice(main, None))] if job.draft is not None else [])
        self._steps = total = len(ids) * len(parts) + 1
        pause = None if job.snapshot_at is None else job.snapshot_at - job.cached_tokens
        done = 0
        yield Progress(done, total)
        for model, part in parts:
            for start, stop in _spans(len(ids), size, pause):
                if self._cancelled():
                    return
                self._sure = False
                caches[part] = kv.feed(model, caches[part], ids[start:stop], job.settings.kv)
                self._sure = True
                done += stop - start
                self._fed = max(done - len(ids) * (len(parts) - 1), 0)
                yield Progress(done, total)
                if stop == pause and job.draft is None:
                    self.snapshot = kv.Prefix([*job.seen, *ids[:stop]], kv.copy(caches), made_under=self._shape)
        self._cancelled()

    @property
    def _shape(self) -> tuple[Any, ...]:
        return kv.shaping(self.job.settings.kv)

    def hand_over(self) -> kv.Prefix | None:
        """What the caches hold when the run has ended; None where that cannot be known, or was asked for before."""
        job = self.job
        if not job.caches or not self._sure or job.embeddings is not None or len(job.seen) != job.cached_tokens:
            return None
        ids = job.ids if self.ids else job.ids[: self._fed]  # it may have ended in the middle of the prompt
        self._handed_over = self._measure()
        held = kv.reconciled([*job.seen, *ids, *self.ids], [*job.caches])
        job.caches.clear()
        return None if held is None else replace(held, made_under=self._shape)

    @property
    def tokens(self) -> int:
        """Tokens generated so far, the end token included."""
        return len(self.ids)

    def timing(self) -> Timing:
        """The figures so far."""
        import mlx.core as mx

        job, clock, now = self.job, self._clock, time.perf_counter()
        decode_s = clock.last - clock.first if clock.first is not None and clock.last is not None else None
        size, layers, quantized = self._measure()
        told = clock.first or clock.read
        drafting = job.draft is not None
        return Timing(
            load_s=job.load_s,
            ttft_s=clock.first - job.started if clock.first is not None else None,
            prompt_tokens=job.prompt_tokens,
            cached_tokens=job.cached_tokens,
            prefill_tokens=len(job.ids),
            prompt_tps=len(job.ids) / (told - clock.prefill) if told and clock.prefill and job.ids else None,
            generation_tokens=self.tokens,
            generation_tps=(self.tokens - 1) / decode_s if decode_s and self.tokens > 1 else None,
            decode_s=decode_s if self.tokens > 1 else None,
            total_s=(job.load_s or 0.0) + now - job.started,
            peak_memory_gb=mx.get_peak_memory() / 1e9,
            kv_bytes=size,
            kv_layers=layers,
            kv_layers_quantized=quantized,
            draft_tokens=self._drafted if drafting else None,
            draft_accepted=self._accepted if drafting else None,
            bytes_per_token=self._bytes_per_token(),
        )

    def interrupt(self, signal: str) -> None:
        """Record that a signal ended the run."""
        self.stop = {"kind": "signal", "signal": signal}

    def _bytes_per_token(self) -> int | None:
        """What a token of the answer read, at the middle of it."""
        job = self.job
        if job.touched is None or not job.caches or self.tokens < 2:
            return None
        return job.touched + (self._caches_at_first + kv.held_bytes(job.caches)) // 2

    def _measure(self) -> tuple[int | None, int | None, int | None]:
        job = self.job
        if self._handed_over is not None:
            return self._handed_over
        if job.caches is None:
            return None, None, None
        size, layers, quantized = kv.measure(job.caches)
        if job.draft is not None and job.settings.kv.kv_bits is not None and quantized < layers:
            return None, layers, None  # the library quantizes copies of its own list, out of our sight
        return size, layers, quantized

    def _cancelled(self) -> bool:
        signal = self.job.cancel()
        if signal is not None:
            self.interrupt(signal)
        return signal is not None

    def _decode(self) -> Iterator[Event]:
        # While the library's generator is suspended the default stream is another one: it must be closed.
        with closing(self._responses()) as responses:
            self._sure = False
            for response in responses:
                self._sure = True
                token = self.take(response)
                if self.tokens == 1 and self._steps:
                    yield Progress(self._steps, self._steps)
                yield token
                if self.stop is not None:
                    return
                self._sure = False

    def take(self, response: Any) -> Token:
        """One response of the library (token, text, logprobs, from_draft, finish_reason): what of it is to be shown.
        `stop` is set when it is the last."""
        self._count(response)
        raw, string = self._scanner.feed(self._spaced(response))
        self._end(response, string)
        if self.stop is not None and string is None:
            raw += self._scanner.flush()
        text, thought = self._thinking.feed(raw, last=self.stop is not None)
        self.text += text
        self.thinking += thought
        logprob = response.logprobs[response.token].item() if self.job.logprobs else None
        return Token(response.token, raw, text, thought, response.from_draft, logprob, self._top(response.logprobs))

    @cached_property
    def _scanner(self) -> Scanner:
        return Scanner(self.job.settings.generation.stop)

    @cached_property
    def _thinking(self) -> Thinking:
        tokenizer = self.job.tokenizer
        return Thinking(tokenizer.think_start, tokenizer.think_end, inside=self.job.opened_thinking)

    @property
    def is_satisfied(self) -> bool:
        """Whether the answer is of the grammar that was asked for, if one was."""
        held = self.job.constraint
        if held is not None and self.stop is not None and self.stop["kind"] == "string":
            return held.accepts(self.text)
        return held is None or held.is_satisfied(self.ids)

    def _top(self, logprobs: Any) -> list[dict[str, Any]] | None:
        """The likeliest tokens of a step, where they are asked for."""
        import mlx.core as mx

        if not self.job.top_logprobs:
            return None
        ids: list[int] = mx.argsort(-logprobs)[: self.job.top_logprobs].tolist()  # type: ignore[assignment]
        pieces = self.job.tokenizer.convert_ids_to_tokens(ids)
        rows = zip(ids, pieces, logprobs[mx.array(ids)].tolist(), strict=True)
        return [{"id": id, "piece": piece, "text": self.job.tokenizer.decode([id]), "logprob": value}
                for id, piece, value in rows]  # fmt: skip

    def _spaced(self, response: Any) -> str:
        """The response's text, with the one space that the library cuts off the start, where it belongs to a text."""
        if self.tokens == 1 and self.job.keep_space:
            self._space = _cuts_space(self.job.tokenizer, response.token)
        text: str = response.text
        if self._space and (text or response.finish_reason):
            self._space = False
            return f" {text}" if text else ""
        return text

    def _end(self, response: Any, string: str | None) -> None:
        """Note why the run ends with this token, if it does."""
        held = self.job.constraint
        whole = self.ids[:-1] if response.finish_reason == "stop" else self.ids
        if string is not None:
            self.stop = {"kind": "string", "string": string}
        elif response.finish_reason is not None and held is not None and held.is_complete(whole):
            self.stop = {"kind": "grammar"}
        elif response.finish_reason == "length":
            self.stop = {"kind": "length", "max_tokens": self.job.limit}
        elif response.finish_reason == "stop":
            name = self.job.tokenizer.convert_ids_to_tokens(response.token)
            self.stop = {"kind": "eos", "token_id": response.token, "token": name}
        else:
            self._cancelled()

    def _responses(self) -> Any:
        from mlx_lm.generate import stream_generate

        job, settings = self.job, self.job.settings
        prefilled = job.caches is not None and job.embeddings is None
        options: dict[str, Any] = {}
        if job.embeddings is not None:
            options["input_embeddings"] = job.embeddings
        if job.draft is not None:
            options |= {"draft_model": job.draft, "num_draft_tokens": settings.model.num_draft_tokens}
        return stream_generate(
            job.model,
            job.tokenizer,
            job.ids[-1:] if prefilled else job.ids,
            max_tokens=_ENDLESS if job.draft is not None and job.limit < 0 else job.limit,
            sampler=job.sampler,
            logits_processors=list(job.processors),
            prompt_cache=job.caches,
            prefill_step_size=settings.generation.prefill_step_size,
            kv_bits=settings.kv.kv_bits,
            kv_group_size=settings.kv.kv_group_size,
            quantized_kv_start=settings.kv.quantized_kv_start,
            **options,
        )

    def _count(self, response: Any) -> None:
        self._clock.last = time.perf_counter()
        if self._clock.first is None:
            self._clock.first = self._clock.last
            self._caches_at_first = kv.held_bytes(self.job.caches or [])
        if self._round_left == 0:  # a round drafts some tokens and yields those accepted and one of the model's own
            planned = self.job.settings.model.num_draft_tokens
            left = self.job.limit - self.tokens if self.job.limit > 0 else planned
            self._drafted += min(planned, left)
            self._round_left = 1
        self.ids.append(response.token)
        self._accepted += response.from_draft
        if not response.from_draft:
            self._round_left = 0


def _spans(total: int, size: int, pause: int | None) -> Iterator[tuple[int, int]]:
    """Cut a range in steps of a size, one of which ends at `pause`."""
    start = 0
    while start < total:
        stop = min(start + size, total)
        if pause is not None and start < pause < stop:
            stop = pause
        yield start, stop
        start = stop


def _cuts_space(tokenizer: Any, first: int) -> bool:
    """Whether the detokenizer cuts one space off an answer that begins with this token."""
    spaced = tokenizer.convert_ids_to_tokens(first)[:1] in _SPACES
    detokenizer = tokenizer.detokenizer
    kind = type(detokenizer).__name__
    if kind == "NaiveStreamingDetokenizer":  # what it decodes may lack the space already
        return spaced and not tokenizer.decode([first]).startswith(" ")
    return spaced and bool(getattr(detokenizer, "trim_space", True))


@contextmanager
def as_run_error(model: str) -> Iterator[None]:
    """Turn what the library raises while it generates into one line."""
    try:
        yield
    except MlxctlError:
        raise
    except Exception as error:
        # Shapes that do not fit, caches that cannot be quantized, a bad argument: all sorts of types.
        if is_out_of_memory(error):
            raise ResourceError(f"out of memory while {model} was answering ({first_line(error)})") from error
        raise MlxctlError(f"{model} cannot answer with these settings: {first_line(error)}") from error
