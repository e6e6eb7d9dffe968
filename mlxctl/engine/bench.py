"""Measuring one model: how long prompts of a length take to process, and so many tokens to generate."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from mlxctl.engine import device, kv
from mlxctl.engine.stream import as_run_error
from mlxctl.settings import KV, Settings

_SEED = 0  # of the prompts: the same tokens in every bench


@dataclass(frozen=True)
class Task:
    """One thing to measure: either the processing of `prompt` tokens or the generation of `generate`, behind `depth`
    tokens that are processed already, `batch` sequences at once."""

    prompt: int
    generate: int
    depth: int = 0
    kv_bits: int | None = None
    batch: int = 1

    @property
    def name(self) -> str:
        """As llama-bench calls it: "pp512", "tg128 @ d1024"."""
        what = f"pp{self.prompt}" if self.prompt else f"tg{self.generate}"
        return what + (f" @ d{self.depth}" if self.depth else "")

    @property
    def tokens(self) -> int:
        """Tokens that are timed, of all sequences."""
        return (self.prompt or self.generate) * self.batch


@dataclass(frozen=True)
class Sample:
    """One measurement: seconds, the bytes that the caches held in the middle of it, at least, and the most GB that mlx
    held."""

    seconds: float
    cache_bytes: int
    peak_memory_gb: float


@dataclass(frozen=True)
class Size:
    """How large a model is. type: as its config calls it, with the bits of its weights where they are quantized."""

    type: str
    bytes: int
    parameters: int


def size(model: Any, config: dict[str, Any]) -> Size:
    """Of a model in memory."""
    from mlx.utils import tree_flatten
    from mlx_lm.utils import get_total_parameters

    arrays: list[tuple[str, Any]] = tree_flatten(model.parameters())  # type: ignore[assignment]
    total = sum(array.nbytes for _, array in arrays)
    bits = (config.get("quantization") or {}).get("bits")
    name = str(config.get("model_type", "unknown")) + (f" {bits}-bit" if bits else "")
    return Size(name, int(total), int(get_total_parameters(model)))


class Bench:
    """Measures a model in memory. Nothing is sampled and nothing ends early: the likeliest token is taken each time,
    whatever it is."""

    def __init__(self, model: Any, touched: int | None, vocab_size: int | None, settings: Settings) -> None:
        self._model = model
        self._touched = touched
        self._vocab = vocab_size or 1000
        self._settings = settings
        self._ready: tuple[tuple[int, int | None], list[Any]] | None = None  # caches at a depth

    def measure(self, test: Task) -> Sample:
        """Run a test once. What stands before it (the tokens of its depth) is processed once and not timed.

        Raises ResourceError, or MlxctlError where the library gives up.
        """
        import mlx.core as mx

        with as_run_error(self._settings.model_id), device.wired():
            self._prepare(test)
            mx.reset_peak_memory()
            device.synchronize()  # what the test before has left to compute
            return self._batch(test) if test.batch > 1 else self._single(test)

    def bytes_per_token(self, test: Task, sample: Sample) -> int | None:
        """What one token reads at least: sequences of a batch share the weights. None where nobody knows."""
        if self._touched is None or not test.generate:
            return None
        return self._touched // test.batch + sample.cache_bytes // test.batch

    def _kv(self, test: Task) -> KV:
        return msgspec.structs.replace(self._settings.kv, kv_bits=test.kv_bits)

    def _prepare(self, test: Task) -> None:
        """Process the tokens of the depth, unless that was done for the test before."""
        key = (test.depth, test.kv_bits)
        if self._ready is not None and self._ready[0] == key:
            return
        self._ready = None  # there may not be room for both
        caches = kv.make_caches(self._model, None, self._settings.kv) or []
        ids, size = self._prompt(test.depth), self._settings.generation.prefill_step_size
        for start in range(0, len(ids), size):
            caches = kv.feed(self._model, caches, ids[start : start + size], self._kv(test))
        self._ready = (key, caches)

    def _copy(self) -> list[Any]:
        """A copy of what is prepared."""
        if self._ready is None:
            raise AssertionError("nothing is prepared")
        return kv.copy(self._ready[1])

    @contextmanager
    def _lent(self, test: Task) -> Iterator[list[Any]]:
        """What is prepared itself, where it can step back after the test: a copy would be made while the clock runs,
        and take its memory again."""
        if self._ready is None:
            raise AssertionError("nothing is prepared")
        key, caches = self._ready
        late = test.kv_bits is not None and self._settings.kv.quantized_kv_start > test.depth
        if late or not kv.can_step_back(caches):
            yield self._copy()
            return
        self._ready = None
        yield caches
        if kv.can_step_back(caches):
            kv.step_back(caches, test.depth)
            self._ready = (key, caches)

    def _prompt(self, tokens: int) -> list[int]:
        import mlx.core as mx

        found: list[int] = mx.random.randint(0, self._vocab, (tokens,), key=mx.random.key(_SEED)).tolist()  # type: ignore[assignment]
        return found

    def _single(self, test: Task) -> Sample:
        import mlx.core as mx
        from mlx_lm.generate import generate_step

        settings, prompt = self._kv(test), mx.array(self._prompt(max(test.prompt, 1)))
        mx.eval(prompt)
        with self._lent(test) as caches:
            steps = generate_step(
                prompt,
                self._model,
                max_tokens=test.generate + 1,
                prompt_cache=caches,
                prefill_step_size=self._settings.generation.prefill_step_size,
                kv_bits=settings.kv_bits,
                kv_group_size=settings.kv_group_size,
                quantized_kv_start=settings.quantized_kv_start,
            )
            started = time.perf_counter()
            with closing(steps):
                next(steps)
                first, before = time.perf_counter(), kv.held_bytes(caches)
                for _ in range(test.generate):
                    next(steps)
                ended = time.perf_counter()
            held = (before + kv.held_bytes(caches)) // 2
            device.synchronize()  # the step that nobody asked for any more
            seconds = ended - first if test.generate else first - started
            return Sample(seconds, held, mx.get_peak_memory() / 1e9)

    def _batch(self, test: Task) -> Sample:
        import mlx.core as mx
        from mlx_lm.generate import BatchGenerator

        caches = [self._copy() for _ in range(test.batch)]
        held = sum(map(kv.held_bytes, caches))  # what is generated is not counted: the ceiling is never too low
        whole = self._prompt(max(test.prompt, 1) * test.batch)
        prompts = [whole[start :: test.batch] for start in range(test.batch)]
        started = time.perf_counter()
        batch = BatchGenerator(
            self._model,
            prefill_batch_size=test.batch,
            completion_batch_size=test.batch,
            prefill_step_size=self._settings.generation.prefill_step_size,
        )
        with closing(batch):
            batch.insert(prompts, [test.generate + 1] * test.batch, caches=caches)
            batch.next_generated()
            first = time.perf_counter()
            while test.generate and batch.next_generated():
                pass
            seconds = time.perf_counter() - first if test.generate else first - started
        return Sample(seconds, held, mx.get_peak_memory() / 1e9)
