"""Finding and loading a model, its tokenizer, adapter and draft model."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxctl.engine import blas, demo, device, kv, roofline, sampling
from mlxctl.engine.dense import make_dense
from mlxctl.errors import MlxctlError, ModelError, ResourceError, UsageError, first_line, is_out_of_memory
from mlxctl.paths import expand
from mlxctl.rules import ModelFacts
from mlxctl.settings import Settings

_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_seq_length", "seq_length")
_READ = ("*.json", "*.jinja", "*.model", "*.safetensors", "*.tiktoken", "merges.txt", "vocab.txt")  # of a model's files
EOS_FILES = ("config.json", "generation_config.json")  # which name the tokens that end an answer

Say = Callable[[str], None]


@dataclass(frozen=True)
class Source:
    """A model's folder with what can be read without weights. `id` is what the person called it."""

    id: str
    path: Path
    revision: str | None
    config: dict[str, Any]
    tokenizer: Any
    facts: ModelFacts


@dataclass(frozen=True)
class Weights:
    """A model in memory. dtype: the type it computes in. expanded: whether quantized weights were made dense.

    touched: bytes that one token reads of the weights, None where nobody knows. folder and the like: where each part
    came from.
    """

    model: Any
    draft: Any | None
    dtype: str
    expanded: bool
    touched: int | None
    facts: ModelFacts
    folder: Path
    adapter_folder: Path | None
    draft_folder: Path | None


def locate(name: str, *, revision: str | None = None, offline: bool = False, weights: bool = True, say: Say) -> Path:
    """The local folder of a model: a path, a repository of the hub (fetched on first use) or builtin:NAME.

    weights: False fetches what is needed to make prompts alone.
    """
    if name.startswith("builtin:"):
        return demo.ensure(name.removeprefix("builtin:"), say, offline=offline)
    path = expand(name)
    if path.is_dir():
        return path
    if path.exists() or name.startswith(("/", ".", "~")) or name.count("/") > 1:
        raise ModelError(f"model {name}: no such folder", hint="give a folder, a repository ORG/NAME or builtin:NAME")
    return _fetch(name, revision, offline, weights)


def in_reach(settings: Settings) -> Path | None:
    """The folder of the model, if a run would find it without the network. Raises ModelError for a folder's name."""
    try:
        return locate(settings.model_id, revision=settings.model.revision, offline=True, say=lambda text: None)
    except ModelError:
        if settings.model_id.startswith(("/", ".", "~")) or settings.model_id.count("/") > 1:
            raise
        return None


def open_source(
    settings: Settings, say: Say, tokenizer_config: dict[str, Any] | None = None, *, weights: bool = True
) -> Source:
    """Find the model and read its config and tokenizer. Raises ModelError, or UsageError for an unknown token.

    weights: False where nobody will load them, so that none are fetched.
    """
    if settings.request.offline:
        go_offline()
    device.require_backend()
    model = settings.model
    path = locate(
        settings.model_id, revision=model.revision, offline=settings.request.offline, weights=weights, say=say
    )
    config = _read_config(path)
    extra = {**(tokenizer_config or {}), "trust_remote_code": model.trust_remote_code}
    with _as_model_error(f"the tokenizer of {settings.model_id}"):
        from mlx_lm.utils import load_tokenizer
        from transformers.utils import logging

        logging.set_verbosity_error()  # what it warns of (a long prompt) is ours to tell
        tokenizer = load_tokenizer(path, extra, eos_token_ids=config.get("eos_token_id"))
    _add_eos(tokenizer, path, settings)
    revision = path.name if path.parent.name == "snapshots" else None
    if model.revision is not None and revision is None:
        say(f"the revision {model.revision} does nothing: {settings.model_id} is a folder here")
    with _as_model_error(f"the config of {settings.model_id}"):
        facts = _facts(settings.model_id, config)
    return Source(settings.model_id, path, revision, config, tokenizer, facts)


def load_weights(source: Source, settings: Settings, check: Callable[[ModelFacts], None], say: Say) -> Weights:
    """Read the weights. `check` is asked with what the model's caches are, before any weight is read."""
    options = settings.model
    model = _lazy_model(source.id, source.path, options.trust_remote_code, options.quantize_activations)
    facts = _with_caches(source.facts, model)
    check(facts)
    adapter_folder = None if options.adapter_path is None else _adapt(model, options.adapter_path)
    draft, draft_folder = (None, None) if options.draft_model is None else _load_draft(source, settings, say)
    parts = [model] if draft is None else [model, draft]
    with _as_model_error(source.id):
        for part in parts:
            expanded = _settle(part, options.dtype, say)
    touched = roofline.weight_bytes(model, source.config) if draft is None else None
    return Weights(
        model, draft, device.stored_dtype(model), expanded, touched, facts, source.path, adapter_folder, draft_folder
    )


def _settle(model: Any, wanted: str, say: Say) -> bool:
    """Give a lazy model the type it shall compute in, and read its weights; whether quantized ones were expanded."""
    import mlx.core as mx

    stored = device.stored_dtype(model)
    dtype = device.plan_dtype(wanted, stored)
    if dtype == stored and device.plan_dtype("auto", stored) != stored:
        say(f"{stored} is slow on a CPU: `mlxctl run`, or --dtype float32 there, is some thirty times faster")
    if dtype != stored:
        model.set_dtype(getattr(mx, dtype))
    fast = wanted == "auto" and device.is_cpu() and blas.fast() is not None
    expanded = fast and make_dense(model, getattr(mx, dtype).size)
    model.eval()
    mx.eval(model.parameters())
    return expanded


def go_offline() -> None:
    """Keep huggingface_hub and transformers off the network, whether they are imported yet or not."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    if "huggingface_hub" in sys.modules:
        sys.modules["huggingface_hub"].constants.HF_HUB_OFFLINE = True


def is_set(switch: str | None) -> bool:
    """Whether a variable of huggingface_hub is on, as it reads them."""
    return (switch or "").upper() in {"1", "ON", "YES", "TRUE"}


def hub_is_offline(environ: Mapping[str, str]) -> bool:
    """Whether huggingface_hub would fetch nothing."""
    return is_set(environ.get("HF_HUB_OFFLINE") or environ.get("TRANSFORMERS_OFFLINE"))


def _fetch(repository: str, revision: str | None, offline: bool, weights: bool) -> Path:
    from mlx_lm.utils import DEFAULT_ALLOW_PATTERNS, snapshot_download

    offline = offline or hub_is_offline(os.environ)
    if not sys.stderr.isatty():
        from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

        disable_progress_bars()
    patterns = [pattern for pattern in DEFAULT_ALLOW_PATTERNS if weights or not pattern.endswith(".safetensors")]
    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=patterns, local_files_only=offline))
    except Exception as error:
        # huggingface_hub's own errors, those of its HTTP client, and OSError: all mean that there is no model.
        where = "it is not in the hub cache (offline)" if offline else f"it cannot be fetched: {_reason(error)}"
        raise ModelError(
            f"model {repository}: no such folder here, and as a repository {where}",
            hint="check the name and the network; a private or gated repository needs a login",
        ) from error


def _reason(error: Exception) -> str:
    """Why the hub did not answer. Its client wraps what the network said."""
    line = first_line(error).removeprefix("Got: ")
    return "the hub cannot be reached" if line.startswith(("ConnectError", "ConnectTimeout")) else line


def _read_config(path: Path) -> dict[str, Any]:
    if not (path / "config.json").is_file():
        raise ModelError(f"{path}: not a model folder, it has no config.json")
    for file in (file for pattern in _READ for file in path.glob(pattern)):
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise ModelError(f"{file}: this is no plain file, and reading it may never end")
    with _as_model_error(str(path)):
        from mlx_lm.utils import load_config

        config: dict[str, Any] = load_config(path)
        return config


def _add_eos(tokenizer: Any, path: Path, settings: Settings) -> None:
    """End an answer at what config, generation_config, tokenizer and settings name; upstream's rule: not config."""
    if settings.upstream_rules:
        for token in settings.model.extra_eos_token:
            try:
                tokenizer.add_eos_token(token)
            except ValueError as error:
                raise UsageError(f"extra_eos_token: {error}") from None
        return
    for name in EOS_FILES:
        tokenizer.eos_token_ids |= eos_in(path / name)
    tokenizer.eos_token_ids |= {
        sampling.token_id(tokenizer, token, "extra_eos_token") for token in settings.model.extra_eos_token
    }


def eos_in(path: Path) -> set[int]:
    """The tokens that a file of the model says end an answer."""
    try:
        ids = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
    except (OSError, ValueError, AttributeError):
        return set()  # no such file, or one that the library does not read either
    found = ids if isinstance(ids, list) else [ids]
    return {id for id in found if isinstance(id, int) and not isinstance(id, bool) and id >= 0}


def _facts(id: str, config: dict[str, Any]) -> ModelFacts:
    text = config.get("text_config") or config
    heads, hidden = text.get("num_attention_heads"), text.get("hidden_size")
    size = text.get("head_dim") or (hidden // heads if heads and hidden else None)
    if "kv_lora_rank" in text:
        size = None  # multi-head latent attention caches something else
    return ModelFacts(
        id,
        vocab_size=_positive(text, "vocab_size"),
        context=next(filter(None, (_positive(text, key) for key in _CONTEXT_KEYS)), None),
        head_dims=(size,) if size else (),
    )


def _positive(config: dict[str, Any], key: str) -> int | None:
    value = config.get(key)
    return value if isinstance(value, int) and value > 0 else None


def _with_caches(facts: ModelFacts, model: Any) -> ModelFacts:
    from dataclasses import replace

    return replace(facts, own_caches=hasattr(model, "make_cache"), cache_types=kv.cache_types(model))


def _lazy_model(id: str, path: Path, trust_remote_code: bool, quantize_activations: bool = False) -> Any:
    """Build the model; its weights are read when they are first used."""
    with _as_model_error(id):
        from mlx_lm.utils import load_model

        model, _ = load_model(
            path,
            lazy=True,
            model_config={"quantize_activations": quantize_activations},
            trust_remote_code=trust_remote_code,
        )
    return model


def _adapt(model: Any, adapter_path: str) -> Path:
    path = expand(adapter_path)
    with _as_model_error(f"the adapter {adapter_path}"):
        from mlx_lm.utils import load_adapters

        load_adapters(model, str(path))
    return path


def _load_draft(source: Source, settings: Settings, say: Say) -> tuple[Any, Path]:
    from mlx_lm.utils import load_tokenizer

    name = settings.model.draft_model or ""
    path = locate(name, offline=settings.request.offline, say=say)
    draft = _lazy_model(name, path, trust_remote_code=False)
    with _as_model_error(f"the tokenizer of {name}"):
        tokenizer = load_tokenizer(path)
    same = tokenizer.vocab_size == source.tokenizer.vocab_size
    if not settings.upstream_rules:  # upstream counts the tokens and does not look at them
        same = tokenizer.get_vocab() == source.tokenizer.get_vocab()
    if not same:
        raise ModelError(f"the draft model {name} has another tokenizer than {source.id}")
    return draft, path


@contextmanager
def _as_model_error(what: str) -> Iterator[None]:
    """Turn whatever the library raises while it loads `what` into one line."""
    try:
        yield
    except MlxctlError:
        raise
    except Exception as error:
        # Broken files reach us as RuntimeError, KeyError, TypeError, json errors, OSError, ValueError and more.
        if is_out_of_memory(error):
            raise ResourceError(f"out of memory while loading {what}") from error
        raise ModelError(f"cannot load {what}: {first_line(error)}", hint=_hint(str(error))) from error


def _hint(reason: str) -> str | None:
    if "trust_remote_code" in reason:
        return "--trust-remote-code lets the model's folder run its own Python code: only for models you trust"
    return None
