"""Rules that tie settings to each other, to the model and to the prompt. Each finding is refused or warned of.

Nothing here imports mlx: the facts about a model come in as plain data.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mlxctl import grammars, options
from mlxctl.errors import UsageError
from mlxctl.settings import Request, Settings

# What transformers' apply_chat_template takes itself: some of it is for the caller alone.
TEMPLATE_KEYWORDS = frozenset({"chat_template", "tools", "documents"})
RESERVED = frozenset({"conversation", "messages", "tokenize", "add_generation_prompt", "continue_final_message",
                       "return_dict", "return_tensors", "self"})  # fmt: skip
CACHED_BEGINNING = "the system prompt would be ignored: the prompt cache already holds the beginning"


@dataclass(frozen=True)
class Finding:
    """What is wrong, in one line. fatal: the run is refused. keys: the settings it is about, the first foremost.

    always: `generate`, too, refuses it: upstream has no such setting.
    """

    message: str
    fatal: bool = False
    keys: tuple[str, ...] = ()
    always: bool = False


@dataclass(frozen=True)
class ModelFacts:
    """What the rules need to know of a model. cache_types: class names of its caches, a layer each.

    own_caches: the model makes its own caches and ignores max_kv_size. head_dims: sizes of keys and values.
    context: tokens it was made for.
    """

    id: str
    vocab_size: int | None = None
    context: int | None = None
    head_dims: tuple[int, ...] = ()
    own_caches: bool = False
    cache_types: tuple[str, ...] = ()


def enforce(findings: Iterable[Finding], settings: Settings, say: Callable[[str], None]) -> None:
    """Refuse what the rules refuse (UsageError); say the rest. `generate` accepts what upstream accepts."""
    for finding in findings:
        if finding.fatal and (finding.always or not settings.upstream_rules):
            raise UsageError(finding.message)
        say(finding.message)


def for_settings(settings: Settings) -> Iterator[Finding]:
    """Rules that need the settings alone."""
    yield from _ranges(settings)
    yield from _idle_sampler(settings)
    yield from _senseless(settings)
    prompt, request = settings.prompt, settings.request
    if prompt.system is not None and prompt.system_file is not None:
        yield Finding("prompt.system: both the text (--system-prompt) and a file (--system-file) are given", fatal=True,
                      keys=("prompt.system", "prompt.system_file"))  # fmt: skip
    if settings.model.draft_model is not None:
        if settings.kv.max_kv_size is not None:
            yield Finding("max_kv_size does nothing with a draft model", keys=("kv.max_kv_size",))
        if request.prompt_cache_file is not None:
            yield Finding(
                "--prompt-cache-file brings no cache for the draft model (--cache takes one saved with it)",
                fatal=True,
            )
    if settings.cache.name is not None and request.prompt_cache_file is not None:
        yield Finding("cache.name: --cache and --prompt-cache-file both name a cache to start from", fatal=True,
                      keys=("cache.name",))  # fmt: skip
    if settings.cache.name is not None and request.image:
        yield Finding("cache.name: a prompt with images cannot start from a prompt cache", fatal=True,
                      keys=("cache.name",))  # fmt: skip
    yield from _grammar(settings)
    yield from _formats(settings)
    yield from _of_a_batch(settings)
    if request.cache_update and settings.cache.name is None and request.prompt_cache_file is None:
        yield Finding("--cache-update: there is no cache to write back to (--cache names one)", fatal=True)
    if request.prompt_cache_file is not None and (prompt.system is not None or prompt.system_file is not None):
        yield Finding(CACHED_BEGINNING, fatal=True)


def for_config(settings: Settings, facts: ModelFacts) -> Iterator[Finding]:
    """Rules that need the model's config."""
    size = facts.vocab_size
    if settings.kv.kv_bits is not None and (reason := _unpackable(settings, facts)):
        yield Finding(f"kv_bits {settings.kv.kv_bits} cannot be used with {facts.id}: {reason}", fatal=True)
    if size is not None:
        for name in ("top_k", "min_tokens_to_keep"):
            value = getattr(settings.sampler, name)
            if value > size:
                yield Finding(f"{name} {value} is beyond the vocabulary of {facts.id} ({size} tokens)", fatal=True)


def for_caches(settings: Settings, facts: ModelFacts) -> Iterator[Finding]:
    """Rules that need to know which caches the model makes."""
    kv, kinds = settings.kv, set(facts.cache_types)
    if kv.max_kv_size is not None and facts.own_caches and settings.model.draft_model is None:
        yield Finding(f"max_kv_size does nothing: {facts.id} makes its own caches ({_list(kinds)})")
    rotating = (kv.max_kv_size is not None and not facts.own_caches) or "RotatingKVCache" in kinds
    if kv.kv_bits is not None and rotating:
        yield Finding(f"kv_bits {kv.kv_bits} cannot be used with {facts.id}: its cache is a rotating one, which cannot "
                      "be quantized", fatal=True)  # fmt: skip
    if settings.model.draft_model is not None:
        fixed = kinds - {"KVCache", "QuantizedKVCache", "ConcatenateKVCache"}
        if fixed:
            yield Finding(f"{facts.id} cannot be used with a draft model: its caches ({_list(fixed)}) cannot step back",
                          fatal=True)  # fmt: skip


def for_long_text(settings: Settings, facts: ModelFacts, least_tokens: int) -> Iterator[Finding]:
    """A text that is far too long, before it is encoded."""
    context = facts.context
    if context is not None and not _is_bounded(settings, facts) and least_tokens > 4 * context:
        yield Finding(
            f"the prompt has more than {least_tokens} tokens, the context of {facts.id} {context}", fatal=True
        )


def for_prompt(settings: Settings, facts: ModelFacts, prompt_tokens: int) -> Iterator[Finding]:
    """Rules that need the length of the prompt."""
    limit, start = settings.generation.max_tokens, settings.kv.quantized_kv_start
    if facts.context is not None and prompt_tokens >= facts.context and not _is_bounded(settings, facts):
        yield Finding(f"the prompt has {prompt_tokens} tokens, the context of {facts.id} {facts.context} (--truncate "
                      "shortens documents, --max-kv-size drops what is oldest)", fatal=True)  # fmt: skip
    if settings.kv.kv_bits is not None and limit is not None and 0 < limit <= start - prompt_tokens:
        yield Finding(f"kv_bits: nothing will be quantized, the run ends before quantized_kv_start ({start} tokens)")


def token_limit(settings: Settings, facts: ModelFacts, prompt_tokens: int) -> int:
    """The most tokens to generate, -1 for no limit: what was asked for, else what is left of the context."""
    if settings.generation.max_tokens is not None:
        return max(settings.generation.max_tokens, -1)
    if facts.context is None:
        return -1
    # A cache of a bounded size never has more than the context, and the answer may go on; but not for ever.
    return max(facts.context - prompt_tokens, facts.context // 4 if _is_bounded(settings, facts) else 0)


@dataclass(frozen=True)
class Room:
    """What the context has room for, in tokens. size: of all. most: of a prompt that is left as it is. wanted: of one
    that is shortened, so that an answer has its room."""

    size: int
    most: int
    wanted: int


def room(settings: Settings, facts: ModelFacts) -> Room | None:
    """What a prompt may take of the context; None where nothing tells how much that is."""
    size = settings.kv.max_kv_size if _is_bounded(settings, facts) else facts.context
    if size is None:
        return None
    limit = settings.generation.max_tokens
    asked = min(limit, size // 2) if limit is not None and limit > 0 else None
    return Room(size, size - (asked or 1), size - (asked or size // 4))


def _is_bounded(settings: Settings, facts: ModelFacts) -> bool:
    """Whether the caches drop their oldest tokens before the context is full."""
    size = settings.kv.max_kv_size
    own = facts.own_caches or settings.model.draft_model is not None
    return size is not None and facts.context is not None and size <= facts.context and not own


def _ranges(settings: Settings) -> Iterator[Finding]:
    """Values out of range. They reach this far from Python, or from `generate`, which accepts what upstream does."""
    for option in options.options():
        try:
            options.check(option, getattr(getattr(settings, option.section), option.name))
        except ValueError as error:
            fatal = not (settings.upstream_rules and option.upstream)
            yield Finding(f"{option.flag_name}: {error}", fatal, (option.key,))


def _senseless(settings: Settings) -> Iterator[Finding]:
    """Values of the right type and range that nobody can mean."""
    for name in sorted(RESERVED & set(settings.template_arguments)):
        yield Finding(f"template.{name}: this argument of the chat template is not yours to set", fatal=True,
                      keys=(f"template.{name}",))  # fmt: skip
    for key, value in (("sampler.temp", settings.sampler.temp), ("sampler.top_p", settings.sampler.top_p)):
        if 0 < value < 1e-6:
            yield Finding(f"{key}: {value} is too small to compute with; temp 0 takes the likeliest token", fatal=True,
                          keys=(key,))  # fmt: skip
    if "" in settings.generation.stop:
        yield Finding("generation.stop: an empty text ends nothing", fatal=True, keys=("generation.stop",))
    for name in ("path", "draft_model", "adapter_path"):
        if getattr(settings.model, name) == "":
            yield Finding(f"model.{name}: an empty name names nothing", fatal=True, keys=(f"model.{name}",))


def _idle_sampler(settings: Settings) -> Iterator[Finding]:
    sampler = settings.sampler
    asked = {"top_p": 0 < sampler.top_p < 1, "min_p": sampler.min_p != 0, "top_k": sampler.top_k > 0,
             "xtc_probability": sampler.xtc_probability > 0}  # fmt: skip
    idle = [name for name, set_ in asked.items() if set_]
    if sampler.temp == 0 and idle:
        verb = "does" if len(idle) == 1 else "do"
        yield Finding(f"{_list(idle)} {verb} nothing at temperature 0: the likeliest token is always taken",
                      keys=tuple(f"sampler.{name}" for name in idle))  # fmt: skip


def _of_a_batch(settings: Settings) -> Iterator[Finding]:
    """What only a batch has."""
    request = settings.request
    if request.truncate is not None and (settings.cache.name is not None or request.prompt_cache_file is not None):
        yield Finding("--truncate: a cache holds documents as they are, and nothing of them is left out", fatal=True)
    given = {"--resume": request.resume is not None, "--as-completed": request.as_completed}
    given["--batch-size"] = request.batch_size != Request().batch_size
    for flag in (flag for flag, is_given in given.items() if is_given and request.batch is None):
        yield Finding(f"{flag}: there is no --batch", fatal=True)


def _formats(settings: Settings) -> Iterator[Finding]:
    """What only one format has."""
    request, form = settings.request, settings.output.format
    if (request.extract or request.extract_last) and form != "text":
        yield Finding(f"--extract takes a block out of --format text, not {form}", fatal=True)
    if request.recursive and not settings.prompt.files:
        yield Finding("--recursive: there is no -f to find files for", fatal=True)
    if request.extract and request.extract_last:
        yield Finding("--extract and --extract-last: the first block, or the last", fatal=True)
    if request.top_logprobs and form != "jsonl":
        yield Finding("--top-logprobs: the tokens' logprobs are in --format jsonl alone", fatal=True)


def _grammar(settings: Settings) -> Iterator[Finding]:
    """A grammar that is none, before an hour's answer is given without it."""
    keys = tuple(f"generation.{key}" for key in grammars.KEYS)
    if grammars.asked_for(settings.generation) and settings.prompt.prefill_response is not None:
        yield Finding("prefill_response: a grammar is that of the whole answer, which cannot be begun beside it",
                      fatal=True, keys=("prompt.prefill_response",))  # fmt: skip
    try:
        grammars.compiled(settings.generation)
        yield from (Finding(notice, keys=keys) for notice in grammars.notices(settings.generation))
    except UsageError as error:
        hint = f" ({error.hint})" if error.hint else ""
        yield Finding(error.message + hint, fatal=True, keys=keys, always=True)


def _unpackable(settings: Settings, facts: ModelFacts) -> str | None:
    """Why heads of the model's size cannot be quantized in groups."""
    bits, group = settings.kv.kv_bits or 0, settings.kv.kv_group_size
    for size in facts.head_dims:
        if group <= 0 or size % group:
            return f"its head size {size} is no multiple of kv_group_size {group}"
        if not 0 < bits <= 32 or size // (32 // bits) != size * bits // 32:
            return f"its head size {size} cannot be packed in {bits} bits"
    return None


def _list(names: object) -> str:
    return ", ".join(sorted(names))  # type: ignore[call-overload]
