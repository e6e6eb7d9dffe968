"""Turning a llama GGUF into an ordinary mlx-lm folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlxctl.errors import ModelError

if TYPE_CHECKING:
    import mlx.core as mx

Metadata = dict[str, Any]

FILES = (
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


def convert(gguf: Path, folder: Path) -> None:
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
