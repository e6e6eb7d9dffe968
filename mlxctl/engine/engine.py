"""A loaded model that answers: messages in, events out."""

import copy
import json
import secrets
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from mlxctl import rules
from mlxctl.engine import device, images, kv, prompt, sampling
from mlxctl.engine.fingerprint import fingerprint
from mlxctl.engine.loader import Say, Source, Weights, go_offline, load_weights, open_source
from mlxctl.engine.stream import Cancel, Generation, Job
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
        self._fingerprint = fingerprint(weights.folders)

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
        if stored and len(stored.caches) != len(weights.facts.cache_types):
            raise CacheError(f"the prompt cache has {len(stored.caches)} layers, {source.id} has "
                             f"{len(weights.facts.cache_types)}")  # fmt: skip
        engine = cls(settings, source, weights, stored)
        engine._load_s = time.perf_counter() - started
        return engine

    def stream(
        self,
        messages: Sequence[Message],
        *,
        settings: Settings | None = None,
        cancel: Cancel = _never,
        logprobs: bool = False,
    ) -> Generator[Event, None, None]:
        """Answer the last message: yields Notice, Progress and Token events, then one Done.

        messages: [{"role": "user", "content": "…"}, …]. settings: for this answer alone; of [model] only
        num_draft_tokens may differ.
        cancel: asked between tokens for the name of a signal that shall end the run. logprobs: fill Token.logprob.
        Raises TemplateError, UsageError, ResourceError.
        """
        notices: list[str] = []
        settings = self.settings if settings is None else self._checked(settings, notices.append)
        job = self._job(messages, settings, cancel, logprobs, notices.append)
        yield from (Notice(text) for text in notices)
        self.running = generation = Generation(job)
        yield from generation.events()
        self._load_s = None  # the model is loaded once; later answers do not pay for it
        yield self.done(generation)

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

    def _job(self, messages: Sequence[Message], settings: Settings, cancel: Cancel, logprobs: bool, say: Say) -> Job:
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
        cached = self._stored.tokens if self._stored else 0
        rules.enforce(rules.for_prompt(settings, facts, cached + len(ids)), settings, say)
        caches = copy.deepcopy(self._stored.caches) if self._stored else None
        if caches is None:
            caches = kv.make_caches(weights.model, weights.draft, settings.kv)
        return Job(
            model=weights.model,
            draft=weights.draft,
            tokenizer=self.tokenizer,
            settings=settings,
            ids=ids,
            cached_tokens=cached,
            seed=seed,
            limit=rules.token_limit(settings, facts, cached + len(ids)),
            sampler=sampling.make_sampler(settings, self.tokenizer, facts.vocab_size),
            processors=sampling.make_logits_processors(
                settings, self.tokenizer, [] if embeddings is not None else ids[:-1]
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
    caches, metadata = kv.read_prompt_cache(path, settings.model.path, settings.kv)
    try:
        eos = json.loads(metadata["tokenizer_config"]).get("eos_token")
    except (KeyError, ValueError, AttributeError, RecursionError) as error:
        raise CacheError(f"{path}: its metadata holds no tokenizer_config") from error
    # Of what the file says of the tokenizer only what cache_prompt can be told is taken, and only as text.
    stored = StoredCache(caches, {"eos_token": eos} if isinstance(eos, str) else {}, kv.length(caches))
    model = msgspec.structs.replace(settings.model, path=metadata["model"])
    return msgspec.structs.replace(settings, model=model), stored
