"""A loaded model that answers: messages in, events out."""

import json
import secrets
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from mlxctl import rules
from mlxctl.engine import device, images, kv, prompt, sampling
from mlxctl.engine.fingerprint import fingerprint, identity
from mlxctl.engine.kv import Prefix
from mlxctl.engine.loader import Say, Source, Weights, go_offline, load_weights, open_source
from mlxctl.engine.stream import Cancel, Generation, Job, as_run_error
from mlxctl.errors import CacheError, UsageError
from mlxctl.events import Done, Event, Message, ModelInfo, Notice
from mlxctl.rules import Finding, ModelFacts
from mlxctl.settings import Model, Settings

# By the kind of the stop; else "stop".
_FINISH: dict[str, Literal["length", "interrupted"]] = {"length": "length", "signal": "interrupted"}


def _silent(message: str) -> None:
    pass


def _never() -> None:
    return None


@dataclass(frozen=True)
class StoredCache:
    """The beginning of a conversation, already processed, read from a file."""

    caches: list[Any]
    tokenizer_config: dict[str, Any]
    tokens: int


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
        self._identity: dict[str, Any] = {}
        folders = (weights.folder, weights.adapter_folder, weights.draft_folder)
        self._fingerprint = fingerprint(folder for folder in folders if folder is not None)

    @classmethod
    def load(cls, settings: Settings, say: Say = _silent) -> "Engine":
        """Load the model that the settings name.

        say: is told what a person should know (a download, a rule that was bent).
        Raises UsageError (a rule of the settings), ModelError, CacheError, ResourceError.
        """
        started = time.perf_counter()
        rules.enforce(rules.for_settings(settings), settings, say)
        if settings.request.offline:
            go_offline()
        device.require_backend()
        device.ask_for_compiler()
        if settings.sampler.seed is not None:
            _seed(settings.sampler.seed)  # before the weights, which draw numbers too: as mlx_lm.generate does
        settings, stored = with_stored(settings)
        if settings.model.path is None:
            say(f"no model is named: using {settings.model_id}")
        source = open_source(settings, say, stored.tokenizer_config if stored else None)
        rules.enforce(rules.for_config(settings, source.facts), settings, say)

        def check(facts: ModelFacts) -> None:
            rules.enforce(rules.for_caches(settings, facts), settings, say)

        weights = load_weights(source, settings, check, say)
        if stored and kv.count(stored.caches) != len(weights.facts.cache_types):
            raise CacheError(f"the prompt cache has {kv.count(stored.caches)} layers, {source.id} has "
                             f"{len(weights.facts.cache_types)}")  # fmt: skip
        engine = cls(settings, source, weights, stored)
        engine._load_s = time.perf_counter() - started
        return engine

    def stream(
        self,
        messages: Sequence[Message],
        *,
        settings: Settings | None = None,
        prefixes: Sequence[Prefix] = (),
        shared: str | None = None,
        cancel: Cancel = _never,
        logprobs: bool = False,
    ) -> Generator[Event, None, None]:
        """Answer the last message: yields Notice, Progress and Token events, then one Done.

        messages: [{"role": "user", "content": "…"}, …]. settings: for this answer alone; of [model] only
        num_draft_tokens may differ. prefixes: what may be processed already; a copy of the one that saves most is used,
        as far as its tokens are the prompt's. shared: the beginning of the last message's text that the next prompt may
        have too; "" for none of it. Where caches cannot step back, a snapshot is kept there (`running.snapshot`).
        cancel: asked between tokens for the name of a signal that shall end the run. logprobs: fill Token.logprob.
        Raises TemplateError, UsageError, ResourceError.
        """
        notices: list[str] = []
        settings = self.settings if settings is None else self._checked(settings, notices.append)
        job = self._job(messages, settings, prefixes, shared, cancel, logprobs, notices.append)
        yield from (Notice(text) for text in notices)
        self.running = generation = Generation(job)
        yield from generation.events()
        self._load_s = None  # the model is loaded once; later answers do not pay for it
        yield self.done(generation)

    def prefill(
        self, messages: Sequence[Message], *, prefixes: Sequence[Prefix] = (), cancel: Cancel = _never
    ) -> Generator[Event, None, Prefix | None]:
        """Process messages up to where the user goes on speaking: yields Progress, returns what is processed.

        Returns None when it was cancelled. Raises TemplateError, UsageError, ResourceError.
        """
        settings = self.settings
        opened = prompt.open_turn(self.tokenizer, messages, settings)
        caches = self._fresh_caches(settings)
        ids = opened.ids if kv.always_steps_back(caches) else opened.ids[: opened.stable]
        context = self._weights.facts.context
        if context is not None and len(ids) >= context:
            raise UsageError(f"this has {len(ids)} tokens, the context of {settings.model_id} {context}")
        start = _best(prefixes, ids, len(ids), settings) or Prefix([], caches)
        job = self._bare_job(settings, start, ids, cancel)
        self.running = generation = Generation(job)
        with as_run_error(settings.model_id), device.wired():
            yield from generation.prefill(job.ids)
        return None if generation.stop else Prefix(ids, job.caches or [])

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """The token ids of a prompt. Raises TemplateError, UsageError."""
        return prompt.render(self.tokenizer, messages, self.settings).ids

    def open_turn(self, messages: Sequence[Message]) -> prompt.OpenTurn:
        """The prompt up to where the user goes on speaking: what `prefill` processes."""
        return prompt.open_turn(self.tokenizer, messages, self.settings)

    def _stable(self, messages: Sequence[Message], settings: Settings, ids: list[int], shared: str) -> int:
        return prompt.stable_length(self.tokenizer, messages, settings, ids, shared)

    def template_hash(self) -> str | None:
        """Tells two chat templates apart."""
        return prompt.template_hash(self.tokenizer)

    @property
    def model_path(self) -> str:
        """The model's folder."""
        return str(self._source.path)

    def fits(self, prefix: Prefix) -> bool:
        """Whether caches from a file are of the kinds and shapes that this model makes."""
        known = self._weights.facts.vocab_size
        if known is not None and max(prefix.ids, default=0) >= known:
            return False
        fresh = self._bare_job(self.settings, Prefix([], self._fresh_caches(self.settings)), [0], _never)
        for _ in Generation(fresh).prefill([0]):
            pass
        return kv.fit(prefix.caches, fresh.caches or [], self.settings.kv)

    def identity(self) -> dict[str, Any]:
        """What the state of a prompt depends on, beside its tokens: caches of another identity mean nothing here."""
        weights = self._weights
        self._identity = self._identity or {
            **identity(weights.folder, weights.adapter_folder, weights.draft_folder),
            "dtype": weights.dtype,
            "quantize_activations": self.settings.model.quantize_activations,
            "layers": list(weights.facts.cache_types),
        }
        return self._identity

    def recompute(self, prefix: Prefix, samples: int) -> Generator[float, None, None]:
        """Compute parts of a prefix anew: yields for each how alike it is to what is held (a cosine, 1 for the same).

        Where caches can be cut, single positions in the context that is held; else the whole, from nothing.
        """
        weights, settings = self._weights, self.settings
        model = weights.model
        if not kv.can_step_back(prefix.caches) or weights.draft is not None:
            fresh = self._bare_job(settings, Prefix([], self._fresh_caches(settings)), prefix.ids, _never)
            for _ in Generation(fresh).prefill(prefix.ids):
                pass
            yield kv.likeness(prefix.caches, fresh.caches or [])
            return
        last = len(prefix.ids) - 1
        for position in sorted({last * i // max(samples - 1, 1) for i in range(samples)}):
            before = kv.cut(prefix, position)
            held = kv.cut(prefix, position + 1)
            if before is not None and held is not None:
                made = kv.feed(model, before.caches, prefix.ids[position : position + 1], settings.kv)
                yield kv.likeness(kv.last(held.caches), kv.last(made))

    def done(self, generation: Generation) -> Done:
        """What came of a run that has stopped."""
        stop = generation.stop or {}
        settings, weights = generation.job.settings, self._weights
        source = self._source
        return Done(
            text=generation.text,
            thinking=generation.thinking.rstrip("\n") or None,
            finish_reason=_FINISH.get(stop["kind"], "stop"),
            stop=stop,
            profile=settings.profile,
            model=ModelInfo(source.id, str(source.path), source.revision, self._fingerprint, weights.dtype),
            seed=generation.job.seed,
            timing=generation.timing(),
            versions=device.versions(),
            device=device.describe(),
        )

    def _checked(self, settings: Settings, say: Say) -> Settings:
        """Settings for one answer, with the model that is loaded, under the same rules."""
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

    def _fresh_caches(self, settings: Settings) -> list[Any]:
        caches = kv.make_caches(self._weights.model, self._weights.draft, settings.kv)
        if caches is None:
            raise CacheError(f"{settings.model_id} with a draft model makes caches that cannot be told apart")
        return caches

    def _bare_job(self, settings: Settings, start: Prefix, ids: list[int], cancel: Cancel) -> Job:
        """A job that only processes its prompt."""
        return Job(
            model=self._weights.model,
            draft=self._weights.draft,
            tokenizer=self.tokenizer,
            settings=settings,
            ids=ids[len(start.ids) :],
            seen=start.ids,
            cached_tokens=len(start.ids),
            snapshot_at=None,
            seed=0,
            limit=-1,
            sampler=None,
            processors=[],
            caches=start.caches,
            opened_thinking=False,
            keep_space=False,
            embeddings=None,
            logprobs=False,
            cancel=cancel,
            started=time.perf_counter(),
            load_s=self._load_s,
        )

    def _job(self, messages: Sequence[Message], settings: Settings, prefixes: Sequence[Prefix], shared: str | None,
             cancel: Cancel, logprobs: bool, say: Say) -> Job:  # fmt: skip
        started = time.perf_counter()
        seed = settings.sampler.seed if settings.sampler.seed is not None else secrets.randbelow(2**32)
        if not settings.upstream_rules or settings.sampler.seed is None:
            _seed(seed)
        weights, facts = self._weights, self._weights.facts
        if self._stored is not None and messages[0]["role"] == "system":
            rules.enforce([Finding(rules.CACHED_BEGINNING, fatal=True)], settings, say)
        rendered = prompt.render(self.tokenizer, messages, settings, suffix=self._stored is not None)
        for notice in prompt.notices(self.tokenizer, rendered, settings):
            say(notice)
        ids, embeddings = rendered.ids, None
        if settings.request.image:
            ids, embeddings = images.embed(weights.model, self._source.config, self.tokenizer, rendered, settings)
        apart = embeddings is not None or self._stored is not None
        start = None if apart else _best(prefixes, ids, len(ids) - 1, settings)
        seen = start.ids if start is not None else []
        ids = ids[len(seen) :]
        cached = self._stored.tokens if self._stored else len(seen)
        rules.enforce(rules.for_prompt(settings, facts, cached + len(ids)), settings, say)
        caches = start.caches if start else kv.copy(self._stored.caches) if self._stored else None
        if caches is None:
            caches = kv.make_caches(weights.model, weights.draft, settings.kv)
        split = (
            shared is not None and embeddings is None and caches is not None and _wants_snapshot(caches, rendered.ids)
        )
        return Job(
            model=weights.model,
            draft=weights.draft,
            tokenizer=self.tokenizer,
            settings=settings,
            ids=ids,
            seen=seen,
            cached_tokens=cached,
            snapshot_at=self._stable(messages, settings, rendered.ids, shared or "") if split else None,
            seed=seed,
            limit=rules.token_limit(settings, facts, cached + len(ids)),
            sampler=sampling.make_sampler(settings, self.tokenizer, facts.vocab_size),
            processors=sampling.make_logits_processors(
                settings, self.tokenizer, [] if embeddings is not None else [*seen, *ids[:-1]]
            ),
            caches=caches,
            opened_thinking=rendered.opened_thinking,
            keep_space=rendered.continues and not settings.upstream_rules,
            embeddings=embeddings,
            logprobs=logprobs,
            cancel=cancel,
            started=started,
            load_s=self._load_s,
        )


def _wants_snapshot(caches: list[Any], ids: list[int]) -> bool:
    """Whether caches may come to a point from which they cannot step back, and can be kept on the way."""
    return not kv.always_steps_back(caches) and kv.may_be_split(caches, len(ids))


def _best(prefixes: Sequence[Prefix], ids: list[int], most: int, settings: Settings) -> Prefix | None:
    """A copy of what saves most of the work on these tokens, `most` of them at the most."""
    sized = [(min(prompt.common([prefix.ids, ids]), most), prefix) for prefix in prefixes
             if kv.may_be_split(prefix.caches, len(ids))]  # fmt: skip
    for tokens, prefix in sorted(sized, key=lambda pair: -pair[0]):
        fits = tokens > 0 and kv.may_be_cut(prefix.caches, tokens, settings.kv)
        if fits and (found := kv.cut(prefix, tokens)) is not None:
            return found
    return None


def _seed(seed: int) -> None:
    import mlx.core as mx

    try:
        mx.random.seed(seed)
    except TypeError:
        raise UsageError(f"--seed: expected a whole number from 0 to 2**64 - 1, got {seed}") from None


def with_stored(settings: Settings) -> tuple[Settings, StoredCache | None]:
    """Read the prompt cache file, if one is named; it also names the model, where the settings do not."""
    path = settings.request.prompt_cache_file
    if path is None:
        return settings, None
    caches, metadata = kv.read_upstream(path, settings.model.path, settings.kv)
    try:
        eos = json.loads(metadata["tokenizer_config"]).get("eos_token")
    except (KeyError, ValueError, AttributeError, RecursionError) as error:
        raise CacheError(f"{path}: its metadata holds no tokenizer_config") from error
    # Of what the file says of the tokenizer only what cache_prompt can be told is taken, and only as text.
    stored = StoredCache(caches, {"eos_token": eos} if isinstance(eos, str) else {}, kv.length(caches))
    model = msgspec.structs.replace(settings.model, path=metadata["model"])
    return msgspec.structs.replace(settings, model=model), stored
