"""Many answers at once: sequences that share each step of the model, and make room for the next when they end."""

import inspect
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from mlxctl.engine import device, kv, prompt
from mlxctl.engine.job import Loaded, seed_numbers
from mlxctl.engine.kv import Prefix
from mlxctl.engine.loader import Say
from mlxctl.engine.stream import Generation, as_run_error
from mlxctl.events import Message
from mlxctl.settings import Settings

_PREFILL = 8  # prompts that are processed together
_ENDLESS = 2**31 - 1


# What the code of a model with a running state names when it leaves the padding of shorter prompts out of that state.
_PADDING = ("create_ssm_mask", "make_mask", "lengths")


def heeds_padding(model: Any, caches: Sequence[Any]) -> bool:
    """Whether shorter prompts of a batch are answered as they would be alone. In some models of the library (mamba,
    rwkv7) the padding runs through the state; attention masks it."""
    if all(type(part).__name__ != "ArraysCache" for part in kv.parts(caches)):
        return True
    source = inspect.getsource(sys.modules[type(model).__module__])
    return any(name in source for name in _PADDING)


@dataclass
class _Sequence:
    """One answer under way."""

    key: int
    generation: Generation
    detokenizer: Any


class Batch:
    """Answers under way, by the library's batch generator. `add` while there is `room`, then `step`."""

    def __init__(self, loaded: Loaded, settings: Settings, size: int) -> None:
        from mlx_lm.generate import BatchGenerator

        self.seed = settings.sampler.seed if settings.sampler.seed is not None else secrets.randbelow(2**32)
        seed_numbers(self.seed)
        self._loaded = loaded
        self._settings = settings
        self._size = size
        self._generator = BatchGenerator(
            loaded.weights.model,
            completion_batch_size=size,
            prefill_batch_size=min(size, _PREFILL),
            prefill_step_size=settings.generation.prefill_step_size,
        )
        self._running: dict[int, _Sequence] = {}
        self._samplers: dict[Any, Any] = {}
        self._shared: Prefix | None = None

    @property
    def room(self) -> int:
        """How many more answers can be under way."""
        return self._size - len(self._running)

    @property
    def is_empty(self) -> bool:
        return not self._running

    def share(self, beginnings: Sequence[Sequence[Message]]) -> int:
        """Process once what these prompts begin with alike; return how many tokens that is, 0 for too few to matter."""
        settings = self._settings
        rendered = [prompt.render(self._loaded.source.tokenizer, messages, settings).ids for messages in beginnings]
        length = min(prompt.common(rendered), min(map(len, rendered)) - 1) if len(rendered) > 1 else 0
        caches = kv.make_caches(self._loaded.weights.model, None, settings.kv)
        if length < kv.WORTH_SHARING or caches is None or not kv.can_be_joined(caches):
            return 0
        ids, size = rendered[0][:length], settings.generation.prefill_step_size
        with as_run_error(settings.model_id), device.wired():
            for start in range(0, length, size):
                caches = kv.feed(self._loaded.weights.model, caches, ids[start : start + size], settings.kv)
        self._shared = Prefix(ids, caches, stays=True)
        return length

    def add(self, key: int, messages: Sequence[Message], settings: Settings, say: Say) -> None:
        """Begin an answer. Raises TemplateError, UsageError."""
        shared = [self._shared] if self._shared is not None and self._begins_alike(messages, settings) else []
        job = self._loaded.answer(
            messages, settings, say, prefixes=shared, shared=None, any_split=True, cancel=lambda: None, logprobs=False,
            top_logprobs=0, seed=self.seed,
        )  # fmt: skip
        eos = [[id] for id in sorted(job.tokenizer.eos_token_ids)]
        (uid,) = self._generator.insert(
            [job.ids],
            [_ENDLESS if job.limit < 0 else job.limit],
            caches=[job.caches],
            all_tokens=[[*job.seen]],
            samplers=[self._sampler(settings, job.sampler)],
            logits_processors=[list(job.processors)],
            stop_sequences=[_stops(eos)],
        )
        self._running[uid] = _Sequence(key, Generation(job), job.tokenizer.detokenizer)

    def step(self) -> list[tuple[int, Generation]]:
        """One step of the model; return the answers that ended with it, by their keys.

        Raises ResourceError, or MlxctlError when the library gives up.
        """
        ended = []
        with as_run_error(self._settings.model_id):
            for response in self._generator.next_generated():
                sequence = self._running.get(response.uid)
                if sequence is not None and self._take(sequence, response):
                    del self._running[response.uid]
                    ended.append((sequence.key, sequence.generation))
        return ended

    def close(self) -> None:
        """Give back what the generator holds."""
        self._generator.close()

    def _begins_alike(self, messages: Sequence[Message], settings: Settings) -> bool:
        ids = prompt.render(self._loaded.source.tokenizer, messages, settings).ids
        held = self._shared.ids if self._shared is not None else []
        return len(ids) > len(held) and ids[: len(held)] == held

    def _sampler(self, settings: Settings, made: Any) -> Any:
        """One for all answers of the same settings: those share a call."""
        return self._samplers.setdefault(str(settings.sampler), made)

    def _take(self, sequence: _Sequence, response: Any) -> bool:
        """Add a token to an answer; whether that was its last."""
        detokenizer, generation = sequence.detokenizer, sequence.generation
        if response.finish_reason != "stop":
            detokenizer.add_token(response.token)
        if response.finish_reason is not None:
            detokenizer.finalize()
        generation.take(
            SimpleNamespace(token=response.token, text=detokenizer.last_segment, logprobs=response.logprobs,
                            from_draft=False, finish_reason=response.finish_reason)
        )  # fmt: skip
        if response.prompt_cache is not None and generation.job.caches is not None:
            generation.job.caches[:] = response.prompt_cache  # what it is measured by
        if generation.stop is not None and response.finish_reason is None:
            self._generator.remove([response.uid])
        return generation.stop is not None


def _stops(sequences: list[list[int]]) -> Any:
    from mlx_lm.generate import StopSequences

    return StopSequences(sequences)
