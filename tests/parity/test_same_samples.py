"""From Python: the engine draws the same numbers as mlx_lm, so a seed gives the same text."""

from collections.abc import Callable
from typing import Any

import pytest

KINDS = ("llama", "spm", "sliding", "moe", "mamba", "hybrid", "quant")
PROMPT = "What is the name of the town?"
SAMPLERS: tuple[dict[str, Any], ...] = (
    {"temp": 0.9},
    {"temp": 1.2, "top_p": 0.8},
    {"temp": 1.0, "min_p": 0.1, "min_tokens_to_keep": 3},
    {"temp": 1.0, "top_k": 4},
    {"temp": 1.0, "xtc_probability": 0.8, "xtc_threshold": 0.02},
)
TOKENS = 16


def theirs(path: str, sampler: dict[str, Any], seed: int, draft: str | None = None) -> str:
    """The text of mlx_lm.generate as a Python user calls it: load, seed, generate."""
    import mlx.core as mx
    from mlx_lm import generate, load
    from mlx_lm.sample_utils import make_sampler

    model, tokenizer = load(path)
    more = {"draft_model": load(draft)[0], "num_draft_tokens": 3} if draft else {}
    special = tokenizer.encode("\n") + list(tokenizer.eos_token_ids)
    mx.random.seed(seed)
    return generate(
        model,
        tokenizer,
        prompt_ids(tokenizer),
        max_tokens=TOKENS,
        sampler=make_sampler(**sampler, xtc_special_tokens=special),
        **more,
    )


def prompt_ids(tokenizer: Any) -> list[int]:
    """The prompt's ids by upstream's own means."""
    if not tokenizer.has_chat_template:
        return tokenizer.encode(PROMPT)
    return tokenizer.apply_chat_template([{"role": "user", "content": PROMPT}], add_generation_prompt=True)


def ours(path: str, sampler: dict[str, Any], seed: int, draft: str | None = None) -> str:
    """The text of the engine with the settings of `run`."""
    from mlxctl import options
    from mlxctl.engine.engine import Engine
    from mlxctl.events import Token

    values = {f"sampler.{name}": value for name, value in sampler.items()}
    values |= {"model.path": path, "model.dtype": "native", "model.draft_model": draft}
    values |= {"sampler.seed": seed, "generation.max_tokens": TOKENS}
    events = Engine.load(options.build(values)).stream([{"role": "user", "content": PROMPT}])
    return "".join(event.raw for event in events if isinstance(event, Token))


@pytest.mark.parametrize("kind", KINDS)
def test_same_text_for_a_seed(kind: str, tiny: Callable[[str], str]) -> None:
    assert ours(tiny(kind), {"temp": 0.9}, 5) == theirs(tiny(kind), {"temp": 0.9}, 5)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: "-".join(sampler))
def test_same_text_for_a_sampler(sampler: dict[str, Any], tiny: Callable[[str], str]) -> None:
    path = tiny("llama")
    first, second = (theirs(path, sampler, seed) for seed in (1, 2))
    assert first != second, "seeds that give one text prove nothing"
    assert [ours(path, sampler, seed) for seed in (1, 2)] == [first, second]


def test_same_text_with_a_draft_model(tiny: Callable[[str], str]) -> None:
    path, draft = tiny("llama"), tiny("llama-draft")
    assert ours(path, {"temp": 0.9}, 7, draft) == theirs(path, {"temp": 0.9}, 7, draft)


def test_one_engine_answers_twice_alike(tiny: Callable[[str], str]) -> None:
    """A second answer of a loaded engine starts from the seed again, as seeding before each upstream call does."""
    from mlxctl import options
    from mlxctl.engine.engine import Engine

    values = {"model.path": tiny("llama"), "sampler.temp": 0.9, "sampler.seed": 3, "generation.max_tokens": TOKENS}
    engine = Engine.load(options.build(values))
    texts = [[*engine.stream([{"role": "user", "content": PROMPT}])][-1].text for _ in range(2)]
    assert texts == [theirs(tiny("llama"), {"temp": 0.9}, 3)] * 2
