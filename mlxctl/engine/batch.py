"""Many answers at once: sequences that share each step of the model, and make room for the next when they end."""

import inspect
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from mlxctl import rules
from mlxctl.engine import device, kv, prompt
from mlxctl.engine.constraint import Constraint
from mlxctl.engine.job import Cancel, Loaded, seed_numbers
from mlxctl.engine.kv import Prefix
from mlxctl.engine.loader import Say
from mlxctl.engine.stream import Generation, as_run_error
from mlxctl.errors import MlxctlError
from mlxctl.events import Message
from mlxctl.settings import Settings

_PREFILL = 8  # prompts that are processed together
_ENDLESS = 2**31 - 1


def heeds_padding(model: Any, caches: Sequence[Any]) -> bool:
    """Whether shorter prompts of a batch are answered as they would be alone. Attention masks the padding; it stays out
    of a running state only in models whose code asks for the `lengths` of prompts (not in mamba, rwkv7 or jamba)."""
    if all(type(part).__name__ != "ArraysCache" for part in kv.parts(caches)):
        return True
    return "lengths" in inspect.getsource(sys.modules[type(model).__module__])


class _Held:
    """A grammar in a step that other answers share: what it cannot follow ends its own answer alone."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self.fault: MlxctlError | None = None

    def __call__(self, tokens: Any, logits: Any) -> Any:
        if self.fault is None:
            try:
                return self._constraint(tokens, logits)
            except MlxctlError as error:
                self.fault = error
        return logits


@dataclass
class _Sequence:
    """One answer under way."""

    key: int
    generation: Generation
    detokenizer: Any
    held: list[_Held]

    @property
    def fault(self) -> MlxctlError | None:
        """Why it cannot go on."""
        return next((held.fault for held in self.held if held.fault is not None), None)


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

    def share(self, beginnings: Sequence[Sequence[Message]], cancel: Cancel) -> int:
        """Process once what these prompts begin with alike; return how many tokens that is, 0 for too few to matter.

        Prompts that nothing can be made of, or that are too long, are left for their own turn to tell. cancel: asked
        between the steps.
        """
        settings = self._settings
        rendered = [ids for messages in beginnings if (ids := self._ids(messages)) is not None]
        length = min(prompt.common(rendered), min(map(len, rendered)) - 1) if len(rendered) > 1 else 0
        caches = kv.make_caches(self._loaded.weights.model, None, settings.kv)
        if length < kv.WORTH_SHARING or caches is None or not kv.can_be_joined(caches):
            return 0
        ids, size = rendered[0][:length], settings.generation.prefill_step_size
        with as_run_error(settings.model_id), device.wired():
            for start in range(0, length, size):
                if cancel() is not None:
                    return 0
                caches = kv.feed(self._loaded.weights.model, caches, ids[start : start + size], settings.kv)
        self._shared = Prefix(ids, caches, stays=True)
        return length

    def _ids(self, messages: Sequence[Message]) -> list[int] | None:
        """The tokens of a prompt that can be answered."""
        tokenizer, facts = self._loaded.source.tokenizer, self._loaded.weights.facts
        try:
            least = prompt.least_tokens(tokenizer, messages)
            rules.enforce(rules.for_long_text(self._settings, facts, least), self._settings, _silent)
            ids = prompt.render(tokenizer, messages, self._settings).ids
            rules.enforce(rules.for_prompt(self._settings, facts, len(ids)), self._settings, _silent)
        except MlxctlError:
            return None
        return ids

    def add(self, key: int, messages: Sequence[Message], settings: Settings, say: Say) -> None:
        """Begin an answer. Raises TemplateError, UsageError."""
        shared = [self._shared] if self._shared is not None else []
        job = self._loaded.answer(
            messages, settings, say, prefixes=shared, shared=None, any_split=True, cancel=lambda: None, logprobs=False,
            top_logprobs=0, seed=self.seed,
        )  # fmt: skip
        self._loaded = replace(self._loaded, load_s=None)  # the first answer has paid for it
        held = [_Held(one) for one in job.processors if isinstance(one, Constraint)]
        processors = [one for one in job.processors if not isinstance(one, Constraint)]
        eos = [[id] for id in sorted(job.tokenizer.eos_token_ids)]
        (uid,) = self._generator.insert(
            [job.ids],
            [_ENDLESS if job.limit < 0 else job.limit],
            caches=[job.caches],
            all_tokens=[[*job.seen]],
            samplers=[self._sampler(settings, job.sampler)],
            logits_processors=[[*processors, *held]],
            stop_sequences=[_stops(eos)],
        )
        self._running[uid] = _Sequence(key, Generation(job), job.tokenizer.detokenizer, held)

    def step(self) -> list[tuple[int, Generation | MlxctlError]]:
        """One step of the model; return the answers that ended with it, by their keys, and why some could not go on.

        Raises ResourceError, or MlxctlError when the library gives up.
        """
        ended: list[tuple[int, Generation | MlxctlError]] = []
        with as_run_error(self._settings.model_id):
            for response in self._generator.next_generated():
                sequence = self._running.get(response.uid)
                if sequence is None:
                    continue
                if sequence.fault is not None:
                    self._generator.remove([response.uid])
                elif not self._take(sequence, response):
                    continue
                del self._running[response.uid]
                ended.append((sequence.key, sequence.fault or sequence.generation))
        return ended

    def close(self) -> None:
        """Give back what the generator holds."""
        self._generator.close()

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
        caches = response.prompt_cache
        if generation.stop is not None and response.finish_reason is None:  # a stop text is nothing to the library
            caches, _ = self._generator.remove([response.uid], return_prompt_caches=True).get(response.uid, (None, ()))
        if caches is not None and generation.job.caches is not None:
            generation.job.caches[:] = caches  # what it is measured by
        return generation.stop is not None


def _silent(text: str) -> None:
    """It will be told at the turn of the prompt."""


def _stops(sequences: list[list[int]]) -> Any:
    from mlx_lm.generate import StopSequences

    return StopSequences(sequences)
