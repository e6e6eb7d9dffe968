"""The tiny models are what the other tests take them for."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import models

CACHES = {
    "sliding": ["RotatingKVCache", "KVCache"],
    "mamba": ["ArraysCache", "ArraysCache"],
    "hybrid": ["ArraysCache", "KVCache"],
    "llama-draft": ["KVCache"],
    "chunked": ["ChunkedKVCache"] * 3 + ["KVCache"],
    "lists": ["CacheList(ArraysCache, KVCache)"] * 2,
    "pairs": ["CacheList(KVCache, KVCache)"] * 2,
}
PROMPTS = ("hello", "What is the name of the town?", "日本語")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def load(kind, root, **more):
    from mlx_lm import load

    return load(str(models.build(kind, root)), **more)


def answer(model, tokenizer, prompt="hello", tokens=30, **more):
    """The reply's token ids and text, greedy; the bare prompt where there is no template."""
    from mlx_lm import stream_generate

    if tokenizer.has_chat_template:
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True)
    steps = list(stream_generate(model, tokenizer, prompt, max_tokens=tokens, **more))
    return [step.token for step in steps], "".join(step.text for step in steps)


def kinds(cache):
    """The class of each layer's cache, and in brackets what it is a list of."""
    inner = [", ".join(kinds(part.caches)) if hasattr(part, "caches") else "" for part in cache]
    return [type(part).__name__ + f"({names})" * bool(names) for part, names in zip(cache, inner, strict=True)]


def digest(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize("kind", models.KINDS)
def test_kind_loads_with_its_caches(kind, root):
    from mlx_lm.models.cache import make_prompt_cache

    model, tokenizer = load(kind, root)
    assert kinds(make_prompt_cache(model)) == CACHES.get(kind, ["KVCache"] * 2)
    bounded = {type(part).__name__ for part in make_prompt_cache(model, max_kv_size=8)}
    assert (bounded == {"RotatingKVCache"}) == (kind == "moe")
    assert tokenizer.has_chat_template == (kind != "mamba")
    detokenizer = "SPMStreamingDetokenizer" if kind == "spm" else "BPEStreamingDetokenizer"
    assert type(tokenizer.detokenizer).__name__ == detokenizer


@pytest.mark.parametrize("kind", [kind for kind in models.KINDS if kind not in ("stopper", "eos-split")])
def test_text_varies_and_does_not_end(kind, root):
    model, tokenizer = load(kind, root)
    replies = [answer(model, tokenizer, prompt) for prompt in PROMPTS]
    assert len({text for _, text in replies}) == len(PROMPTS)
    for ids, text in replies:
        assert len(ids) == 30 and len(set(ids[-20:])) > 8
        assert text.rstrip("\ufffd").replace("\n", "").isprintable()  # an emoji cut by the limit at most


@pytest.mark.parametrize("kind", ["llama", "spm"])
@pytest.mark.parametrize("text", ["a b  c\td\n\n e", "naïve Жук 世界 日本語", "👩‍👩‍👧 🙂\x00"])
def test_tokenizer_keeps_every_character(kind, text, root):
    _, tokenizer = load(kind, root)
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) == text


def test_scripted_replies(root):
    ids, text = answer(*load("stopper", root))
    assert text == models.STOPPER_REPLY and len(ids) == 13
    assert answer(*load("moe", root))[1].startswith(models.THINKING)
    assert answer(*load("eos-split", root))[1] == f"one{models.END_OF_TEXT} two"


def test_stopper_says_nothing_to_a_bare_prompt(root):
    from mlx_lm import stream_generate

    model, tokenizer = load("stopper", root)
    assert [step.text for step in stream_generate(model, tokenizer, "zzz", max_tokens=9)] == [""]


def test_draft_is_often_right(root):
    from mlx_lm import stream_generate

    model, tokenizer = load("llama", root)
    draft, _ = load("llama-draft", root)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "hello"}], add_generation_prompt=True)
    steps = list(stream_generate(model, tokenizer, prompt, draft_model=draft, max_tokens=30))
    assert 8 < sum(step.from_draft for step in steps) < 30
    assert "".join(step.text for step in steps) == answer(model, tokenizer)[1]


def test_adapter_changes_the_text(root):
    plain = answer(*load("llama", root))
    assert plain != answer(*load("llama", root, adapter_path=str(models.adapter(root))))


def test_spm_template_refuses_a_system_role(root):
    from jinja2 import TemplateError

    _, tokenizer = load("spm", root)
    with pytest.raises(TemplateError, match="no system role"):
        tokenizer.apply_chat_template([{"role": "system", "content": "x"}])


def test_racing_processes_build_the_same_bytes(root, tmp_path):
    script = "import sys, models, pathlib; [models.build(kind, pathlib.Path(sys.argv[1])) for kind in models.KINDS]"
    command = [sys.executable, "-c", script, tmp_path]
    racers = [subprocess.Popen(command, cwd=Path(models.__file__).parent) for _ in range(2)]
    assert [racer.wait() for racer in racers] == [0, 0]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(models.KINDS)
    for kind in models.KINDS:
        assert digest(tmp_path / kind) == digest(models.build(kind, root))
