"""A loaded model that answers: messages in, events out."""

import time
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import msgspec

from mlxctl import rules
from mlxctl.engine import device, images, kv, kv_compare, prompt
from mlxctl.engine.batch import Batch, heeds_padding
from mlxctl.engine.bench import Bench, Size, size
from mlxctl.engine.fingerprint import file_states, fingerprint
from mlxctl.engine.job import Cancel, Loaded, best, seed_numbers
from mlxctl.engine.kv import Prefix
from mlxctl.engine.loader import Say, Source, Weights, go_offline, load_weights, open_source
from mlxctl.engine.stream import Generation
from mlxctl.engine.upstream_cache import StoredCache, with_stored
from mlxctl.errors import CacheError, UsageError
from mlxctl.events import Done, Event, Message, ModelInfo, Notice
from mlxctl.rules import ModelFacts
from mlxctl.settings import Model, Settings

# By the kind of the stop; else "stop".
_FINISH: dict[str, Literal["length", "interrupted"]] = {"length": "length", "signal": "interrupted"}


def _silent(message: str) -> None:
    pass


def _never() -> None:
    return None


class Engine:
    """A model in memory. `Engine.load` makes one; it serves one stream at a time, on the thread that loaded it."""

    def __init__(self, settings: Settings, source: Source, weights: Weights, stored: StoredCache | None) -> None:
        self.settings = settings
        self.tokenizer = source.tokenizer
        self.running: Generation | None = None
        self._source = source
        self._weights = weights
        self._stored = stored
        self._load_s: float | None = None
        self._states: dict[Path, tuple[int, ...]] = {}
        self._fingerprint = fingerprint(folder for folder in self.folders if folder is not None)

    @classmethod
    def load(cls, settings: Settings, say: Say = _silent, *, examine: bool = False) -> "Engine":
        """Load the model that the settings name.

        say: is told what a person should know (a download, a rule that was bent). examine: meanwhile look in a child
        process at what the chat template makes of a small conversation, and tell what spoils answers; a template that
        does not come to an end is a TemplateError then.
        Raises UsageError (a rule of the settings), ModelError, CacheError, ResourceError.
        """
        started = time.perf_counter()
        rules.enforce(rules.for_settings(settings), settings, say)
        if settings.request.offline:
            go_offline()
        device.require_backend()
        device.ask_for_compiler()
        if settings.sampler.seed is not None:
            seed_numbers(settings.sampler.seed)  # before the weights, which draw numbers too: as mlx_lm.generate does
        settings, stored = with_stored(settings)
        if settings.model.path is None:
            say(f"no model is named: using {settings.model_id}")
        source = open_source(settings, say, stored.tokenizer_config if stored else None)
        rules.enforce(rules.for_config(settings, source.facts), settings, say)

        def check(facts: ModelFacts) -> None:
            rules.enforce(rules.for_caches(settings, facts), settings, say)

        states = file_states([source.path])
        with prompt.examined(source, settings, say) if examine else nullcontext():
            weights = load_weights(source, settings, check, say)
        if stored and kv.count(stored.caches) != len(weights.facts.cache_types):
            raise CacheError(f"the prompt cache has {kv.count(stored.caches)} layers, {source.id} has "
                             f"{len(weights.facts.cache_types)}")  # fmt: skip
        engine = cls(settings, source, weights, stored)
        engine._states = states | file_states(folder for folder in engine.folders[1:] if folder is not None)
        engine._load_s = time.perf_counter() - started
        return engine

    def stream(
        self,
        messages: Sequence[Message],
        *,
        settings: Settings | None = None,
        prefixes: Sequence[Prefix] = (),
        shared: str | None = None,
        any_split: bool = False,
        cancel: Cancel = _never,
        logprobs: bool = False,
        top_logprobs: int = 0,
    ) -> Generator[Event, None, None]:
        """Answer the last message: yields Notice, Progress and Token events, then one Done.

        messages: [{"role": "user", "content": "…"}, …]. settings: for this answer alone; of [model] only
        num_draft_tokens may differ. prefixes: what may be processed already; the one that saves most is used, as far as
        its tokens are the prompt's, and is empty after that, unless it stays. shared: the beginning
        of the last message's text that the next prompt may have too; "" for none of it. Where caches cannot step back,
        a snapshot is kept there (`running.snapshot`). any_split: a full cache of a bounded size may go on as well, to
        which a prompt in pieces is another than one as a whole. cancel: asked between tokens for the name of a signal
        that shall end the run. logprobs: fill Token.logprob; top_logprobs: and Token.top_logprobs with so many.
        Raises TemplateError, UsageError, ResourceError.
        """
        self.running = None  # what is left of the run before is not what this one leaves
        notices: list[str] = []
        settings = self.settings if settings is None else self.check(settings, notices.append)
        job = self._loaded.answer(
            messages, settings, notices.append,
            prefixes=prefixes, shared=shared, any_split=any_split, cancel=cancel, logprobs=logprobs,
            top_logprobs=top_logprobs,
        )  # fmt: skip
        yield from (Notice(text) for text in notices)
        self.running = generation = Generation(job)
        yield from generation.events()
        self._load_s = None  # the model is loaded once; later answers do not pay for it
        yield self.done(generation)

    def prefill(
        self,
        messages: Sequence[Message],
        *,
        settings: Settings | None = None,
        prefixes: Sequence[Prefix] = (),
        cancel: Cancel = _never,
    ) -> Generator[Event, None, Prefix | None]:
        """Process messages up to where the user goes on speaking: yields Progress, returns what is processed.

        prefixes: as in `stream`; the one that is used is empty after that. Returns None when it was cancelled.
        Raises TemplateError, UsageError, ResourceError.
        """
        self.running, settings = None, settings or self.settings
        opened = prompt.open_turn(self.tokenizer, messages, settings)
        caches = self._loaded.fresh_caches(settings)
        ids = opened.ids if kv.always_steps_back(caches) else opened.ids[: opened.stable]
        context = self._weights.facts.context
        if context is not None and len(ids) >= context:
            raise UsageError(f"this has {len(ids)} tokens, the context of {settings.model_id} {context}")
        start = best(prefixes, ids, len(ids), settings) or Prefix([], caches)
        self.running = generation = Generation(self._loaded.read(settings, start, ids, cancel, messages))
        yield from generation.reading()
        return None if generation.stop else generation.hand_over()

    def render(self, messages: Sequence[Message], settings: Settings | None = None) -> prompt.Rendered:
        """What the model is handed, as text and token ids. Raises TemplateError, UsageError."""
        return prompt.render(self.tokenizer, messages, settings or self.settings)

    def count(self, messages: Sequence[Message]) -> int:
        """The tokens of a prompt. Raises TemplateError, UsageError."""
        return len(self.render(messages).ids)

    def unread(self, settings: Settings) -> list[str]:
        """Which arguments the chat template is given and does not read, in words."""
        return prompt.unread_notices(self.tokenizer, settings)

    def open_turn(self, messages: Sequence[Message], settings: Settings | None = None) -> prompt.OpenTurn:
        """The prompt up to where the user goes on speaking: what `prefill` processes."""
        return prompt.open_turn(self.tokenizer, messages, settings or self.settings)

    def template_hash(self) -> str | None:
        """Tells two chat templates apart."""
        return prompt.template_hash(self.tokenizer)

    @property
    def _loaded(self) -> Loaded:
        return Loaded(self._source, self._weights, self._stored, self._load_s)

    @property
    def facts(self) -> ModelFacts:
        """What is known of the model from its config and its caches."""
        return self._weights.facts

    @property
    def info(self) -> ModelInfo:
        """Which model this is."""
        source = self._source
        return ModelInfo(
            source.id, str(source.path), source.revision, self._fingerprint, self._weights.dtype, self._weights.expanded
        )

    @property
    def versions(self) -> dict[str, str]:
        """Of the packages that decide what comes out."""
        return device.versions()

    @property
    def device(self) -> str:
        """What computes, in words."""
        return device.describe()

    @property
    def load_s(self) -> float | None:
        """Seconds that loading took, until an answer has told of them."""
        return self._load_s

    @property
    def fingerprint(self) -> str:
        """Tells two models of one name apart."""
        return self._fingerprint

    @property
    def folders(self) -> tuple[Path, Path | None, Path | None]:
        """Where the model, its adapter and its draft model lie."""
        return self._weights.folder, self._weights.adapter_folder, self._weights.draft_folder

    @property
    def is_on_cpu(self) -> bool:
        """Whether a CPU computes, where reading a long prompt takes minutes."""
        return device.is_cpu()

    @property
    def takes_images(self) -> bool:
        """Whether images can be handed to the model."""
        return images.takes_them(self._weights.model, self._source.config)

    @property
    def is_as_loaded(self) -> bool:
        """Whether the files of the model are those that were loaded."""
        return file_states(folder for folder in self.folders if folder is not None) == self._states

    @property
    def traits(self) -> dict[str, Any]:
        """What the state of a prompt depends on, beside its tokens and the model's files."""
        weights = self._weights
        return {"dtype": weights.dtype, "quantize_activations": self.settings.model.quantize_activations,
                "layers": list(weights.facts.cache_types)}  # fmt: skip

    def fits(self, prefix: Prefix) -> bool:
        """Whether caches from a file are of the kinds and shapes that this model makes."""
        known = self._weights.facts.vocab_size
        if known is not None and max(prefix.ids, default=0) >= known:
            return False
        return kv_compare.fit(prefix.caches, self._from_nothing([0]), self.settings.kv)

    def recompute(self, prefix: Prefix, samples: int) -> Generator[float, None, None]:
        """Compute parts of a prefix anew: yields for each how alike it is to what is held (a cosine, 1 for the same).

        Where caches can be cut, single positions in the context that is held; else the whole, from nothing.
        """
        model, settings = self._weights.model, self.settings
        if not kv.can_step_back(prefix.caches) or self._weights.draft is not None:
            yield kv_compare.likeness(prefix.caches, self._from_nothing(prefix.ids))
            return
        last, held = len(prefix.ids) - 1, kv.copied(prefix)
        for position in sorted({last * i // max(samples - 1, 1) for i in range(samples)}, reverse=True):
            whole = kv.take(held, position + 1)
            stored = kv_compare.last(whole.caches) if whole is not None else []
            before = kv.take(whole, position) if whole is not None else None
            if before is None:
                return
            made = kv.feed(model, before.caches, prefix.ids[position : position + 1], settings.kv)
            yield kv_compare.likeness(stored, kv_compare.last(made))
            held = Prefix(prefix.ids[: position + 1], made)

    def _from_nothing(self, ids: list[int]) -> list[Any]:
        """Caches after these tokens."""
        job = self._loaded.read(self.settings, Prefix([], self._loaded.fresh_caches(self.settings)), ids, _never)
        for _ in Generation(job).prefill(ids):
            pass
        return job.caches or []

    def done(self, generation: Generation) -> Done:
        """What came of a run that has stopped."""
        stop = generation.stop or {"kind": "read"}  # the prompt, and that was all
        if not generation.is_satisfied:
            stop = {**stop, "incomplete": True}
        settings = generation.job.settings
        return Done(
            text=generation.text,
            thinking=generation.thinking.rstrip("\n") or None,
            finish_reason=_FINISH.get(stop["kind"], "stop"),
            stop=stop,
            profile=settings.profile,
            model=self.info,
            seed=generation.job.seed,
            timing=generation.timing(),
            versions=self.versions,
            device=self.device,
        )

    def bench(self, settings: Settings) -> Bench:
        """What measures this model. Raises UsageError for a draft model, which is not measured."""
        if self._weights.draft is not None:
            raise UsageError("bench measures one model: leave the draft model out (--unset draft_model)")
        return Bench(self._weights.model, self._weights.touched, self.facts.vocab_size, settings)

    def batch_hindrance(self, settings: Settings) -> str | None:
        """Why this model cannot answer several prompts at once under these settings, in words; None where it can."""
        if self._weights.draft is not None:
            return "a draft model drafts for one answer"
        if settings.kv.kv_bits is not None:
            return "mlx-lm quantizes no caches of a batch"
        caches = self._loaded.fresh_caches(settings)
        if settings.kv.max_kv_size is not None and kv.keeps_first(caches):
            return "mlx-lm drops the first tokens of a batch's caches that max_kv_size bounds, and keeps those of one"
        if not kv.can_be_batched(caches):
            return f"caches of {settings.model_id} cannot be put together"
        if not heeds_padding(self._weights.model, caches):
            return f"prompts of different lengths disturb each other in {settings.model_id}"
        return None

    def fresh_caches(self, settings: Settings) -> list[Any]:
        """Empty caches of this model."""
        return self._loaded.fresh_caches(settings)

    def batch(self, settings: Settings, size: int) -> Batch:
        """Answers of many prompts, so many at once. Raises UsageError for settings that the model cannot have."""
        return Batch(self._loaded, self.check(settings, _silent), size)

    def size(self) -> Size:
        """How large the model is, and of which kind."""
        return size(self._weights.model, self._source.config)

    def check(self, settings: Settings, say: Say) -> Settings:
        """Settings for one answer, with the model that is loaded, under the same rules. Raises UsageError."""
        facts = self._weights.facts
        for name, default in msgspec.structs.asdict(Model()).items():
            asked, loaded = getattr(settings.model, name), getattr(self.settings.model, name)
            if name != "num_draft_tokens" and asked not in (default, loaded):
                raise UsageError(f"model.{name}: the model is loaded, settings for one answer cannot change it")
        model = msgspec.structs.replace(self.settings.model, num_draft_tokens=settings.model.num_draft_tokens)
        settings = msgspec.structs.replace(settings, model=model)
        for rule in (rules.for_config, rules.for_caches):
            rules.enforce(rule(settings, facts), settings, say)
        rules.enforce(rules.for_settings(settings), settings, say)
        return settings
