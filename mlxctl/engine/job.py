"""What one run is made of, from messages and settings: everything that is known before the first token is computed."""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl import grammars, rules
from mlxctl.engine import images, kv, prompt, sampling
from mlxctl.engine.constraint import Constraint
from mlxctl.engine.kv import Prefix
from mlxctl.engine.loader import Say, Source, Weights
from mlxctl.engine.prompt import Rendered
from mlxctl.engine.upstream_cache import StoredCache
from mlxctl.errors import CacheError, UsageError
from mlxctl.events import Message
from mlxctl.rules import Finding
from mlxctl.settings import Settings

Cancel = Callable[[], str | None]  # the name of the signal that asked the run to end, if one did


@dataclass(frozen=True)
class Job:
    """One run, ready to go. ids: the prompt's tokens that are not in the caches yet, at least one.

    seen: those that are; empty for a file of mlx_lm.cache_prompt, which does not tell, so that only their number,
    cached_tokens, is known. snapshot_at: after so many tokens of the prompt a copy of the caches is kept.
    limit: most tokens to generate, -1 for none. keep_space: the answer continues a text, so that a space at its start
    belongs to it. embeddings: of images, in place of the ids. caches: None leaves them to the library. messages: what
    the prompt was made of. touched: as in Weights. constraint: one of the processors, where a grammar is asked for.
    """

    model: Any
    draft: Any | None
    tokenizer: Any
    settings: Settings
    ids: list[int]
    started: float
    cancel: Cancel
    load_s: float | None
    caches: list[Any] | None
    seen: list[int]
    cached_tokens: int
    snapshot_at: int | None = None
    seed: int = 0
    limit: int = -1
    sampler: Any = None
    processors: Sequence[Any] = ()
    opened_thinking: bool = False
    keep_space: bool = False
    embeddings: Any | None = None
    logprobs: bool = False
    top_logprobs: int = 0
    messages: Sequence[Message] = ()
    touched: int | None = None
    constraint: Constraint | None = None

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the whole prompt."""
        return self.cached_tokens + len(self.ids)


@dataclass(frozen=True)
class Loaded:
    """What a job works with: a model in memory. load_s: how long loading took, None once it was paid for."""

    source: Source
    weights: Weights
    stored: StoredCache | None
    load_s: float | None

    def read(self, settings: Settings, start: Prefix, ids: list[int], cancel: Cancel,
             messages: Sequence[Message] = ()) -> Job:  # fmt: skip
        """A job that only processes its prompt, of which `start` is there."""
        return Job(self.weights.model, self.weights.draft, self.source.tokenizer, settings, ids[len(start.ids) :],
                   started=time.perf_counter(), cancel=cancel, load_s=self.load_s, caches=start.caches,
                   seen=[*start.ids], cached_tokens=len(start.ids), messages=messages)  # fmt: skip

    def answer(self, messages: Sequence[Message], settings: Settings, say: Say, *, prefixes: Sequence[Prefix],
               shared: str | None, any_split: bool, cancel: Cancel, logprobs: bool,
               top_logprobs: int, seed: int | None = None) -> Job:  # fmt: skip
        """A job that answers, as `Engine.stream` describes it.

        seed: that of the batch this is one of many in: its numbers are seeded already, and it hands the whole prompt to
        the library.
        """
        started, batched = time.perf_counter(), seed is not None
        if seed is None:
            seed = settings.sampler.seed if settings.sampler.seed is not None else secrets.randbelow(2**32)
            if not settings.upstream_rules or settings.sampler.seed is None:
                seed_numbers(seed)
        weights, tokenizer, facts = self.weights, self.source.tokenizer, self.weights.facts
        if self.stored is not None and messages[0]["role"] == "system":
            rules.enforce([Finding(rules.CACHED_BEGINNING, fatal=True)], settings, say)
        rules.enforce(rules.for_long_text(settings, facts, prompt.least_tokens(tokenizer, messages)), settings, say)
        rendered = prompt.render(tokenizer, messages, settings, suffix=self.stored is not None)
        for notice in prompt.notices(tokenizer, rendered, settings):
            say(notice)
        ids, embeddings = rendered.ids, None
        if settings.request.image:
            ids, embeddings = images.embed(weights.model, self.source.config, tokenizer, rendered, settings)
        total = len(ids) + (self.stored.tokens if self.stored else 0)
        rules.enforce(rules.for_prompt(settings, facts, total), settings, say)
        sampler = sampling.make_sampler(settings, tokenizer, facts.vocab_size)
        known = [] if embeddings is not None or batched else ids[:-1]
        processors = sampling.make_logits_processors(settings, tokenizer, known)
        constraint = self._constraint(settings, messages, rendered)
        if constraint is not None:
            processors.append(constraint)  # the last, so that nothing brings back what it forbids
        # Only now, for it uses a prefix up, and nobody shall lose it to settings that are refused.
        start = self._start(prefixes if embeddings is None else (), ids, settings, any_split)
        split = shared is not None and embeddings is None and wants_snapshot(start.caches, ids)
        return Job(
            model=weights.model,
            draft=weights.draft,
            tokenizer=tokenizer,
            settings=settings,
            ids=ids[len(start.seen) :],
            started=started,
            cancel=cancel,
            load_s=self.load_s,
            caches=start.caches,
            seen=start.seen,
            cached_tokens=start.tokens,
            snapshot_at=prompt.stable_length(tokenizer, messages, settings, ids, shared or "") if split else None,
            seed=seed,
            limit=rules.token_limit(settings, facts, total),
            sampler=sampler,
            processors=processors,
            opened_thinking=rendered.opened_thinking,
            keep_space=rendered.continues and not settings.upstream_rules,
            embeddings=embeddings,
            logprobs=logprobs,
            top_logprobs=top_logprobs,
            messages=messages,
            touched=None if batched else weights.touched,
            constraint=constraint,
        )

    def _constraint(self, settings: Settings, messages: Sequence[Message], rendered: Rendered) -> Constraint | None:
        """The grammar that the settings ask for, for one answer."""
        grammar = grammars.compiled(settings.generation)
        if grammar is None:
            return None
        begun = settings.prompt.prefill_response or ""
        if not begun and messages[-1]["role"] == "assistant":
            begun = messages[-1]["content"]
        if self.source.tokenizer.think_end:
            begun = begun.rpartition(self.source.tokenizer.think_end)[2]
        inside = rendered.opened_thinking
        thinks = not begun and settings.template_arguments.get("enable_thinking") is not False
        size = self.weights.facts.vocab_size or 0
        return Constraint(grammar, self.source.tokenizer, size, begun="" if inside else begun, thinks=thinks,
                          inside=inside)  # fmt: skip

    def _start(self, prefixes: Sequence[Prefix], ids: list[int], settings: Settings, any_split: bool) -> "_Start":
        """What of the prompt is processed already."""
        if self.stored is not None:
            return _Start(kv.copy(self.stored.caches), [], self.stored.tokens)
        if (found := best(prefixes, ids, len(ids) - 1, settings, any_split=any_split)) is not None:
            return _Start(found.caches, found.ids, len(found.ids))
        return _Start(kv.make_caches(self.weights.model, self.weights.draft, settings.kv), [], 0)

    def fresh_caches(self, settings: Settings) -> list[Any]:
        """Empty caches. Raises CacheError for two models whose caches the library makes itself."""
        caches = kv.make_caches(self.weights.model, self.weights.draft, settings.kv)
        if caches is None:
            raise CacheError(f"{settings.model_id} with a draft model makes caches that cannot be told apart")
        return caches


@dataclass(frozen=True)
class _Start:
    caches: list[Any] | None
    seen: list[int]
    tokens: int


def wants_snapshot(caches: list[Any] | None, ids: list[int]) -> bool:
    """Whether caches may come to a point from which they cannot step back, and can be kept on the way."""
    return caches is not None and not kv.always_steps_back(caches) and kv.may_be_split(caches, len(ids))


def best(
    prefixes: Sequence[Prefix], ids: list[int], most: int, settings: Settings, *, any_split: bool = False
) -> Prefix | None:
    """What saves most of the work on these tokens, `most` of them at the most; it is used up (`kv.take`)."""
    fitting = [prefix for prefix in prefixes if prefix.made_under in (None, kv.shaping(settings.kv))
               and (any_split or kv.may_be_split(prefix.caches, len(ids)))]  # fmt: skip
    sized = [(min(prompt.common([prefix.ids, ids]), most), prefix) for prefix in fitting]
    for tokens, prefix in sorted(sized, key=lambda pair: -pair[0]):
        fits = tokens > 0 and kv.may_be_cut(prefix.caches, tokens, settings.kv)
        if fits and (found := kv.take(prefix, tokens)) is not None:
            return found
    return None


def seed_numbers(seed: int) -> None:
    """Begin the library's random numbers. Raises UsageError."""
    import mlx.core as mx

    try:
        mx.random.seed(seed)
    except TypeError:
        raise UsageError(f"--seed: expected a whole number from 0 to 2**64 - 1, got {seed}") from None
