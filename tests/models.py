"""Tiny random-weight models that the real mlx_lm loads: built offline, the same bytes every time.

The weights are noise with a little written into them. A few dimensions of the residual stream are reserved: no
layer writes there, so what a token's embedding holds in them reaches the output head untouched. Dimension 0 is
the same for every token, which gives each head row a bias (special tokens and broken bytes never come up). Each
further one links a token to the one that must follow it, which spells out emoji byte by byte and scripted replies.
"""

import contextlib
import importlib
import io
import json
import shutil
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

IM_START, IM_END, END_OF_TEXT = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
THINK, THINK_END = "<think>", "</think>"
THIRD_EOS = "<|eot|>"  # only in "eos-split", where generation_config.json names it
SPM_BOS, SPM_EOS, SPM_UNK = "<s>", "</s>", "<unk>"
INST, INST_END = "[INST]", "[/INST]"  # plain text in the "spm" template, not tokens

EMOJI = "🙂"  # four tokens, one a byte; comes up in the free text of the kinds with an output head of their own
THINKING = f"{THINK} Let me think{THINK_END}\n\n"  # how "moe" answers a chat prompt, then free text
# The whole reply of "stopper" to any chat prompt. A bare prompt that ends in one of its tokens is carried on from
# there ("hello" ends in "o"); any other ("zzz") is answered by the end token alone.
STOPPER_REPLY = "Hello there, wörld 🙂!"
HEADING_REPLY = "# Let me in"  # of "heading", in markdown
EOS_SPLIT_REPLY = f" one{END_OF_TEXT} two{IM_END} three{THIRD_EOS}"  # "eos-split" to any chat prompt, then free
WINDOW = 16  # of "sliding"
CHUNK = 32  # of "chunked": what its attention sees ends at multiples of it
CONTEXT = 2048  # max_position_embeddings

CHATML = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""
# Thoughts of earlier turns are dropped, as thinking models do, so a second turn is no extension of the first.
CHATML_THINKING = """\
{%- for message in messages -%}
{%- set text = message['content'] -%}
{%- if message['role'] == 'assistant' -%}
{%- set text = text.split('</think>')[-1].lstrip('\\n') -%}
{%- endif -%}
{{- '<|im_start|>' + message['role'] + '\\n' + text + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- if enable_thinking is defined and not enable_thinking -%}{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}
{%- endif -%}
"""
INST_TEMPLATE = """\
{{- bos_token -}}
{%- for message in messages -%}
{%- if message['role'] == 'user' -%}{{- '[INST] ' + message['content'] + ' [/INST]' -}}
{%- elif message['role'] == 'assistant' -%}{{- ' ' + message['content'] + eos_token -}}
{%- else -%}{{- raise_exception('This model knows no ' + message['role'] + ' role') -}}
{%- endif -%}
{%- endfor -%}
"""

# What the tokenizers learn their merges from. No emoji: they must stay several tokens.
TEXT = """\
Hello there, wörld! Let me think about the one thing that all three of us can see from the two windows.
The rain in the morning was light, and then the sun came out over the hills and the river.
What is the name of the town? The town has a name that nobody could read on the old stone.
She said that the train would be late, so they went back to the station and had some tea.
A small model is a good test: it is fast, it is the same every time, and it tells no lies.
Write a list of things: one, two, three, four, five. Then count them again and say how many.
user
assistant
system
Im Süden schien die Sonne über den grünen Hügeln, und die Leute gingen früh nach Hause.
Été comme hiver, le café près de la forêt était fermé, même à Noël.
El niño soñó con un pingüino que vivía en la montaña más alta del mundo.
Жили у бабуси два весёлых гуся, один серый, другой белый, оба жили дружно.
世界 世界 世界 日本語 日本語 日本語 中文 中文 中文
def main():
    return [n for n in range(10) if n % 2 == 0]
"""
VOCABULARY = 512

SEED = 20240
HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 64, 4, 2, 32
WRITERS = ("o_proj", "out_proj", "down_proj", "w2")  # the layers whose output is added to the residual stream
BIAS, LINK = 2.0, 4.0  # what an embedding holds in dimension 0, and in the dimension of its link
BAN, PULL = 20.0, 40.0  # what the head makes of them: PULL * LINK must beat BAN * BIAS twice, and the noise
SHY = 0.2  # of its own embedding is taken from each head row, or greedy text ends in one token over and over
EMOJI_GAIN = 1.3  # louder than other rows, so that greedy text holds the emoji now and then


def _training_lines() -> list[str]:
    """The text as the trainer gets it; "\\n\\n" must be learnt as one token, and only ends of a line give it."""
    return [line + "\n\n" for line in TEXT.splitlines()] * 3


def _byte_level(*extra: str, special: bool = True) -> Any:
    """A byte-level BPE tokenizer with the ChatML markers, and `extra` added tokens after all others."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT, IM_START, IM_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_training_lines(), trainer)
    tokenizer.add_tokens([AddedToken(token, special=special, normalized=False) for token in extra])
    return tokenizer


def _spm() -> Any:
    """A BPE tokenizer as converted from SentencePiece: ▁ for spaces, bytes for the unknown, a BOS in front."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

    special = [SPM_UNK, SPM_BOS, SPM_EOS]
    learnt = _spm_learnt()
    pieces = special + [f"<0x{byte:02X}>" for byte in range(256)] + sorted(learnt["vocab"], key=learnt["vocab"].get)
    vocab = {piece: index for index, piece in enumerate(pieces)}
    merges = [tuple(merge) for merge in learnt["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token=SPM_UNK, fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{SPM_BOS} $A", pair=f"{SPM_BOS} $A {SPM_BOS} $B", special_tokens=[(SPM_BOS, vocab[SPM_BOS])]
    )
    return tokenizer


def _spm_learnt() -> dict[str, Any]:
    """Vocabulary and merges over ▁-marked words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - 259, show_progress=False)
    tokenizer.train_from_iterator(TEXT.splitlines() * 3, trainer)
    return json.loads(tokenizer.to_str())["model"]


@dataclass(frozen=True)
class Recipe:
    """What tells one kind from another."""

    config: dict[str, Any]
    template: str | None = CHATML
    tokenizer: Callable[[], Any] = _byte_level
    eos: str = IM_END
    settings: dict[str, Any] = field(default_factory=dict)  # more of tokenizer_config.json
    reply: str = ""  # what must follow a lone "\n", which is how a ChatML prompt ends
    ends: bool = False  # whatever else has no fixed successor is followed by the end of the turn
    embed: float = 1.0  # spread of the embeddings
    depth: tuple[float, ...] = (1.0, 0.25)  # how loud each layer writes; a quiet second one lets the draft guess well
    eos_ids: tuple[str, str] | None = None  # config.json's and generation_config.json's end token, where they differ
    quantized: bool = False


def _config(model_type: str, **more: Any) -> dict[str, Any]:
    """The fields nearly every architecture asks for."""
    return {
        "model_type": model_type,
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    } | more


_LLAMA = _config("llama")
_RECIPES = {
    "llama": Recipe(_LLAMA),
    "llama-draft": Recipe(_LLAMA | {"num_hidden_layers": 1}),
    "stopper": Recipe(_LLAMA, reply=STOPPER_REPLY + IM_END, ends=True),
    "heading": Recipe(_LLAMA, reply=HEADING_REPLY + IM_END, ends=True),
    "eos-split": Recipe(
        _LLAMA,
        tokenizer=lambda: _byte_level(THIRD_EOS),
        reply=EOS_SPLIT_REPLY,
        eos_ids=(END_OF_TEXT, THIRD_EOS),
    ),
    "quant": Recipe(_LLAMA | {"torch_dtype": "float16"}, quantized=True),
    "spm": Recipe(
        _LLAMA,
        template=INST_TEMPLATE,
        tokenizer=_spm,
        eos=SPM_EOS,
        settings={"bos_token": SPM_BOS, "unk_token": SPM_UNK},
    ),
    "sliding": Recipe(
        _config(
            "gemma3_text",
            sliding_window=WINDOW,
            sliding_window_pattern=2,
            query_pre_attn_scalar=HEAD_DIM,
            rope_global_base_freq=10000.0,
            rope_local_base_freq=10000.0,
        ),
        embed=1 / 8,  # this architecture multiplies them by the root of the hidden size
    ),
    "moe": Recipe(
        _config(
            "qwen3_moe",
            num_experts=4,
            num_experts_per_tok=2,
            decoder_sparse_step=1,
            mlp_only_layers=[],
            moe_intermediate_size=32,
            norm_topk_prob=True,
        ),
        template=CHATML_THINKING,
        tokenizer=lambda: _byte_level(THINK, THINK_END, special=False),
        reply=THINKING,
    ),
    "mamba": Recipe(
        {
            "model_type": "mamba",
            "hidden_size": HIDDEN,
            "intermediate_size": 2 * HIDDEN,
            "state_size": 8,
            "num_hidden_layers": 2,
            "conv_kernel": 4,
            "use_bias": False,
            "use_conv_bias": True,
            "time_step_rank": 4,
            "tie_word_embeddings": False,
            "torch_dtype": "float32",
        },
        template=None,
        eos=END_OF_TEXT,
    ),
    "hybrid": Recipe(
        {
            "model_type": "lfm2",
            "hidden_size": HIDDEN,
            "num_hidden_layers": 2,
            "num_attention_heads": HIDDEN // HEAD_DIM,
            "num_key_value_heads": HIDDEN // HEAD_DIM,
            "max_position_embeddings": CONTEXT,
            "norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "conv_bias": False,
            "conv_L_cache": 3,
            "block_dim": HIDDEN,
            "block_ff_dim": 2 * HIDDEN,
            "block_multiple_of": 32,
            "block_ffn_dim_multiplier": 1.0,
            "block_auto_adjust_ff_dim": False,
            "layer_types": ["conv", "full_attention"],
            "torch_dtype": "float32",
        },
        embed=0.35,
        depth=(2.5, 2.5),
    ),
    "chunked": Recipe(  # the text is a part of a multimodal architecture
        {
            "model_type": "llama4",
            "text_config": _config(
                "llama4_text",
                num_hidden_layers=4,  # every fourth layer sees all the text
                attention_bias=False,
                attention_chunk_size=CHUNK,
                intermediate_size_mlp=2 * HIDDEN,
                interleave_moe_layer_step=5,  # beyond the last layer: no experts
                num_local_experts=1,
                num_experts_per_tok=1,
                rope_scaling=None,
                use_qk_norm=True,
            ),
            "torch_dtype": "float32",
        },
        depth=(1.0, 0.5, 0.5, 1.0),
    ),
    "lists": Recipe(
        _config(
            "falcon_h1",
            mamba_d_conv=4,
            mamba_d_head=HEAD_DIM,
            mamba_d_ssm=2 * HIDDEN,
            mamba_d_state=32,  # the least that the Metal kernel takes
            mamba_n_groups=1,
            mamba_n_heads=2 * HIDDEN // HEAD_DIM,
        ),
    ),
    "pairs": Recipe(
        {
            "model_type": "longcat_flash",
            "attention_method": "MLA",
            "attention_bias": False,
            "hidden_size": HIDDEN,
            "ffn_hidden_size": 2 * HIDDEN,
            "expert_ffn_hidden_size": HIDDEN,
            "num_layers": 2,
            "num_attention_heads": HEADS,
            "q_lora_rank": 32,
            "kv_lora_rank": 32,
            "qk_nope_head_dim": HEAD_DIM,
            "qk_rope_head_dim": HEAD_DIM,
            "v_head_dim": HEAD_DIM,
            "mla_scale_q_lora": True,  # the code fails where they are false
            "mla_scale_kv_lora": True,
            "n_routed_experts": 2,
            "moe_topk": 1,
            "routed_scaling_factor": 1.0,
            "zero_expert_num": 0,  # one would write into the reserved dimensions
            "zero_expert_type": "identity",
            "max_position_embeddings": CONTEXT,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "torch_dtype": "float32",
        },
    ),
}
# What tests go through; "heading" is of no kind that the others are not, and asked for by name.
KINDS: tuple[str, ...] = tuple(kind for kind in _RECIPES if kind != "heading")


def build(kind: str, root: Path) -> Path:
    """The model directory root/kind, made if it is not there yet."""
    return _once(root / kind, lambda folder: _write_model(_RECIPES[kind], folder))


def adapter(root: Path) -> Path:
    """A LoRA adapter for "llama" in root/adapter, as mlx_lm.lora writes one, strong enough to change the text."""
    return _once(root / "adapter", _write_adapter)


def _once(target: Path, write: Callable[[Path], None]) -> Path:
    """Fill a temporary folder and rename it to `target`; of several processes that race, one wins."""
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        write(folder)
        folder.chmod(0o755)  # mkdtemp's 0700 is not what a model directory looks like
        folder.rename(target)
    except OSError:
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return target


def _write_model(recipe: Recipe, folder: Path) -> None:
    """Tokenizer, weights and configuration of one kind."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    tokenizer = recipe.tokenizer()
    config_eos, generation_eos = (tokenizer.token_to_id(token) for token in recipe.eos_ids or (recipe.eos,) * 2)
    config = recipe.config | {"vocab_size": tokenizer.get_vocab_size(), "eos_token_id": config_eos}
    if "text_config" in config:
        config["text_config"] = config["text_config"] | {"vocab_size": config["vocab_size"]}
    model = _model(config)
    model.load_weights(list(_weights(recipe, model, tokenizer).items()))
    if recipe.quantized:
        model, config = _quantize(model, config)
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    _write_json(folder / "config.json", config)
    if recipe.eos_ids:
        _write_json(folder / "generation_config.json", {"eos_token_id": generation_eos})
    _write_tokenizer(recipe, tokenizer, folder)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _write_tokenizer(recipe: Recipe, tokenizer: Any, folder: Path) -> None:
    """tokenizer.json, its configuration, and the chat template in a file of its own."""
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": recipe.eos,
        "pad_token": recipe.eos if recipe.tokenizer is _spm else END_OF_TEXT,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
    }
    _write_json(folder / "tokenizer_config.json", config | recipe.settings)
    if recipe.template is not None:
        (folder / "chat_template.jinja").write_text(recipe.template, encoding="utf-8")


def _model(config: dict[str, Any]) -> Any:
    """mlx_lm's own model for a configuration: it knows the names and shapes of the weights."""
    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    return module.Model(module.ModelArgs.from_dict(config))


def _quantize(model: Any, config: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Four bits in groups of 32 with half-precision scales, as mlx_lm.convert does it."""
    import mlx.core as mx
    from mlx_lm.utils import quantize_model

    model.set_dtype(mx.float16)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints the bits per weight
        return quantize_model(model, config, group_size=32, bits=4)


def _weights(recipe: Recipe, model: Any, tokenizer: Any) -> dict[str, Any]:
    """Noise for every parameter, then the written parts on top."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    initial = dict(tree_flatten(model.parameters()))
    kept = {name: value for name, value in initial.items() if _is_kept(name)}
    arrays = {name: _noise(name, value.shape, recipe) for name, value in initial.items() if name not in kept}
    embed = next(array for name, array in arrays.items() if _is_embedding(name))
    head = next((array for name, array in arrays.items() if name.endswith("lm_head.weight")), None)
    if head is not None:
        _script(recipe, tokenizer, arrays, embed, head)
    else:
        embed[_unwanted(tokenizer)] *= 0.1  # tied: no room for a bias, small rows must do
    return kept | {name: mx.array(array) for name, array in arrays.items()}


def _is_kept(name: str) -> bool:
    """Norms, the state-space constants and a router's bias are good as the architecture initialises them."""
    return "norm" in name or name.endswith(("A_log", ".D", ".e_score_correction_bias"))


def _is_embedding(name: str) -> bool:
    """Of tokens: latent attention has an "embed_q" in its layers."""
    return name.endswith(("embed_tokens.weight", "embeddings.weight"))


def _noise(name: str, shape: tuple[int, ...], recipe: Recipe) -> Any:
    """Normal noise seeded by the parameter's name, so that kinds of one architecture share their weights."""
    import numpy as np

    random = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    array = random.standard_normal(shape, dtype=np.float32)
    return array * np.float32(_spread(name, shape, recipe))


def _spread(name: str, shape: tuple[int, ...], recipe: Recipe) -> float:
    """Standard deviations that keep attention sharp and the text varied."""
    if name.endswith(".bias"):
        return 0.1
    if _is_embedding(name):
        return recipe.embed
    if "lm_head" in name:
        return 0.35
    gain = 2.0 if "q_proj" in name or "gate" in name else 1.0
    if any(writer in name for writer in WRITERS):
        gain = 2.0 * recipe.depth[int(name.split("layers.")[1].split(".")[0])]
    return gain / shape[1 if "conv" in name and len(shape) == 3 else -1] ** 0.5


def _script(recipe: Recipe, tokenizer: Any, arrays: dict[str, Any], embed: Any, head: Any) -> None:
    """Reserve dimensions of the residual stream; write the head's biases and the fixed successions there."""
    emoji, reply = _spelling(recipe, tokenizer)
    links = dict(pairwise(emoji)) | dict(pairwise(reply))
    reserved = 1 + len(links)
    for name, array in arrays.items():
        if any(writer in name for writer in WRITERS):
            array[..., :reserved, :] = 0.0
    head -= SHY * embed / recipe.embed
    head[emoji[0]] *= EMOJI_GAIN
    embed[:, :reserved] = 0.0
    head[:, :reserved] = 0.0
    embed[:, 0] = BIAS * recipe.embed
    head[_unwanted(tokenizer) + emoji + reply, 0] = -BAN  # what belongs to a succession comes up only in it
    head[emoji[0], 0] = 0.0
    for dimension, (token, successor) in enumerate(links.items(), start=1):
        embed[token, dimension] = LINK * recipe.embed
        head[successor, dimension] = PULL
    if recipe.ends:
        head[tokenizer.token_to_id(recipe.eos), 0] = BAN


def _spelling(recipe: Recipe, tokenizer: Any) -> tuple[list[int], list[int]]:
    """The tokens of the emoji, and of the scripted reply after its "\\n"; none may have two successors."""
    emoji = tokenizer.encode(EMOJI).ids[-len(EMOJI.encode()) :]
    if not recipe.reply:
        return emoji, []
    reply = tokenizer.encode("\n" + recipe.reply, add_special_tokens=False).ids
    assert len(set(reply)) == len(reply), tokenizer.encode(recipe.reply).tokens
    return emoji, reply


def _unwanted(tokenizer: Any) -> list[int]:
    """Tokens free text must not hold: special ones, pieces of characters, what cannot be printed."""
    added = set(tokenizer.get_added_tokens_decoder())
    texts = {token: tokenizer.decode([token]) for token in range(tokenizer.get_vocab_size())}
    return [token for token, text in texts.items() if token in added or not _is_printable(text)]


def _is_printable(text: str) -> bool:
    return "\ufffd" not in text and text.replace("\n", "").isprintable()


def _write_adapter(folder: Path) -> None:
    """Both layers' query and value projections, with a lora_b that is not zero."""
    import mlx.core as mx
    import numpy as np

    random = np.random.default_rng(SEED)
    rank, weights = 4, {}
    for layer in range(2):
        for name, width in (("q_proj", HEADS * HEAD_DIM), ("v_proj", KV_HEADS * HEAD_DIM)):
            prefix = f"model.layers.{layer}.self_attn.{name}"
            for part, shape in (("lora_a", (HIDDEN, rank)), ("lora_b", (rank, width))):
                noise = random.standard_normal(shape, dtype=np.float32)
                weights[f"{prefix}.{part}"] = mx.array(noise * np.float32(shape[0] ** -0.5))
    mx.save_safetensors(str(folder / "adapters.safetensors"), weights)
    _write_json(folder / "adapter_config.json", _adapter_config(rank))


def _adapter_config(rank: int) -> dict[str, Any]:
    """The settings of a training run that loading an adapter reads, and a few that it does not."""
    return {
        "model": "llama",
        "train": True,
        "fine_tune_type": "lora",
        "num_layers": 2,
        "lora_parameters": {
            "rank": rank,
            "scale": 2.0,
            "dropout": 0.0,
            "keys": ["self_attn.q_proj", "self_attn.v_proj"],
        },
    }
