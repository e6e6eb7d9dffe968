"""SPEC 5: every exit status, its words on stderr, and no traceback for anything a user can cause.

130, 141 and 143 are tested with the signals and pipes.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import Program, Result
from models import STOPPER_REPLY

from mlxctl.errors import CacheError, MlxctlError, ModelError, TemplateError

Tiny = Callable[[str], str]
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")


def failed(result: Result, code: int, *words: str) -> None:
    """This exit status, an empty stdout, and one or two lines of mlxctl's that hold the words."""
    assert (result.code, result.out) == (code, ""), result.err
    lines = result.err.splitlines()
    assert 1 <= len(lines) <= 3 and any(line.startswith("mlxctl: ") for line in lines), lines
    assert "Traceback" not in result.err
    assert [word for word in words if word not in result.err] == [], lines


def load_fails(error: type[MlxctlError], word: str, **values: Any) -> None:
    """Loading raises this error, in one line that holds the word. (Its exit status: FAULTS below.)"""
    from mlxctl import Engine, options

    with pytest.raises(error) as caught:
        Engine.load(options.build({key.replace("__", "."): value for key, value in values.items()}))
    assert word in caught.value.message and "\n" not in caught.value.message


def store_cache(path: Path, model_path: str, text: str, *, model_name: str = "", **kv: int) -> str:
    """What mlx_lm.cache_prompt does, in this process: a file that holds an open user turn."""
    import mlx.core as mx
    from mlx_lm import load
    from mlx_lm.generate import generate_step
    from mlx_lm.models.cache import make_prompt_cache, save_prompt_cache

    model, tokenizer = load(model_path)
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], add_generation_prompt=False, continue_final_message=True
    )
    caches = make_prompt_cache(model)
    assert list(generate_step(mx.array(ids), model, max_tokens=0, prompt_cache=caches, **kv)) == []
    metadata = {"model": model_name or model_path, "tokenizer_config": json.dumps({"trust_remote_code": None})}
    save_prompt_cache(str(path), caches, metadata)
    return str(path)


def test_0_done(mlxctl: Program, tiny: Tiny) -> None:
    """Cut by a limit of the user's own it is still done, and stderr names the flag that raises it."""
    done = mlxctl("run", "--model", tiny("stopper"), "-m", "3", "hi")
    assert (done.code, done.out) == (0, "Hello there\n")
    assert "--max-tokens" in done.err and len(done.err.splitlines()) == 1


def test_10_fail_on_length(mlxctl: Program, tiny: Tiny) -> None:
    """The answer stays printed."""
    done = mlxctl("run", "--model", tiny("stopper"), "-m", "3", "--fail-on-length", "hi")
    assert (done.code, done.out) == (10, "Hello there\n")
    assert "--max-tokens" in done.err


def test_10_is_not_for_an_answer_that_ended(mlxctl: Program, tiny: Tiny) -> None:
    """An end token that comes as the last allowed one is an end (13 tokens: 12 of text and the end token)."""
    done = mlxctl("run", "--model", tiny("stopper"), "-m", "13", "--fail-on-length", "hi")
    assert (done.code, done.out, done.err) == (0, STOPPER_REPLY + "\n", "")


USAGE: dict[str, tuple[tuple[str, ...], str]] = {
    "no command": ((), "Usage"),
    "unknown command": (("runn", "hi"), "run"),
    "unknown flag": (("run", "--temprature", "1", "hi"), "--temp"),
    "no value": (("run", "hi", "--temp"), "--temp"),
    "no such choice": (("run", "--format", "yaml", "hi"), "jsonl"),
    "no prompt": (("run",), "no prompt"),
    "empty prompt": (("run", ""), "empty"),
    "no such file": (("run", "-f", "missing.txt", "hi"), "missing.txt"),
    "a folder as file": (("run", "-f", ".", "hi"), "folder"),
    "no such profile": (("run", "-P", "missing", "hi"), "missing"),
    "no such profile file": (("run", "-P", "./missing.toml", "hi"), "missing.toml"),
    "template arguments not JSON": (("run", "--chat-template-config", "{", "hi"), "--chat-template-config"),
    "template arguments no object": (("run", "--chat-template-config", "[1]", "hi"), "--chat-template-config"),
    "stats file in no folder": (("run", "--stats-file", "no/where.jsonl", "hi"), "no/where.jsonl"),
    "system twice": (("run", "--system-prompt", "a", "--system-file", "b", "hi"), "system"),
}


@pytest.mark.parametrize("name", USAGE)
def test_2_usage(name: str, mlxctl: Program) -> None:
    """Nothing on stdout."""
    args, word = USAGE[name]
    done = mlxctl(*args)
    assert (done.code, done.out) == (2, ""), done.err
    assert word in done.err and "Traceback" not in done.err


def broken(kind: str, tiny: Tiny, folder: Path, **files: str | bytes | None) -> str:
    """A copy of a model with files replaced (None: removed); config_json=… stands for config.json."""
    shutil.copytree(tiny(kind), folder)
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.unlink()
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(folder)


BROKEN_MODELS: dict[str, dict[str, str | bytes | None]] = {
    "no config": {"config__json": None},
    "config is no JSON": {"config__json": "{"},
    "config is no object": {"config__json": "[]"},
    "unknown type": {"config__json": '{"model_type": "nonesuch", "vocab_size": 512}'},
    "no type": {"config__json": "{}"},
    "another architecture": {"config__json": '{"model_type": "mamba"}'},
    "no tokenizer": {"tokenizer__json": None},
    "tokenizer is no JSON": {"tokenizer__json": "{"},
    "no weights": {"model__safetensors": None},
    "weights are no safetensors": {"model__safetensors": b"\0" * 100},
    "weights are empty": {"model__safetensors": b""},
}


@pytest.mark.parametrize("name", BROKEN_MODELS)
def test_3_model_is_broken(name: str, tiny: Tiny, tmp_path: Path) -> None:
    """The folder is named."""
    path = broken("stopper", tiny, tmp_path / "copy", **BROKEN_MODELS[name])
    load_fails(ModelError, path, model__path=path)


@pytest.mark.parametrize("name", ["no config", "unknown type", "weights are no safetensors"])
def test_3_model_is_broken_in_a_run(name: str, mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """One line of ours, no traceback."""
    path = broken("stopper", tiny, tmp_path / "copy", **BROKEN_MODELS[name])
    failed(mlxctl("run", "--model", path, "hi"), 3, path)


def test_3_weights_are_cut_short(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """A download that broke off."""
    data = (Path(tiny("stopper")) / "model.safetensors").read_bytes()
    path = broken("stopper", tiny, tmp_path / "copy", model__safetensors=data[: len(data) // 2])
    failed(mlxctl("run", "--model", path, "hi"), 3, path)


@pytest.mark.parametrize("name", ["/nonexistent/model", "no-org/no-model"])
def test_3_no_such_model(name: str, mlxctl: Program) -> None:
    """A folder, or a repository that is not in the hub cache while there is no network."""
    failed(mlxctl("run", "--model", name, "hi"), 3, name)


@pytest.mark.parametrize("name", ["./nonexistent", "nonexistent", "../a/b/c", "~/nonexistent"])
def test_3_what_is_no_repository_either(name: str) -> None:
    """Nobody asks the hub for a path."""
    load_fails(ModelError, name, model__path=name)


def test_3_model_is_a_file(tiny: Tiny) -> None:
    """A file inside a model's folder is no model."""
    load_fails(ModelError, "config.json", model__path=tiny("stopper") + "/config.json")


@pytest.mark.parametrize("name", ["missing", "empty", "no weights"])
def test_3_adapter(name: str, tiny: Tiny, tmp_path: Path) -> None:
    """Missing, an empty folder, or one without weights."""
    folder = tmp_path / "adapter"
    if name == "empty":
        folder.mkdir()
    if name == "no weights":
        shutil.copytree(tiny("adapter"), folder)
        (folder / "adapters.safetensors").unlink()
    load_fails(ModelError, str(folder), model__path=tiny("llama"), model__adapter_path=str(folder))


def test_3_adapter_is_missing_in_a_run(mlxctl: Program, tiny: Tiny) -> None:
    """One line of ours, no traceback."""
    failed(mlxctl("run", "--model", tiny("llama"), "--adapter-path", "no/adapter", "hi"), 3, "no/adapter")


def test_adapter_changes_the_answer(mlxctl: Program, tiny: Tiny) -> None:
    """As the library's own load with an adapter does."""
    from mlx_lm import generate, load

    model, tokenizer = load(tiny("llama"), adapter_path=tiny("adapter"))
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], add_generation_prompt=True)
    done = mlxctl("run", "--model", tiny("llama"), "--adapter-path", tiny("adapter"), "-m", "8", "hi")
    assert (done.code, done.out) == (0, generate(model, tokenizer, ids, max_tokens=8) + "\n")


def test_3_draft_model_is_missing(tiny: Tiny) -> None:
    """Named by its own path, not the main model's."""
    load_fails(ModelError, "/no/draft", model__path=tiny("stopper"), model__draft_model="/no/draft")


def test_3_draft_with_a_smaller_vocabulary(tiny: Tiny, tmp_path: Path) -> None:
    """The last learnt token is taken out of the draft's tokenizer."""
    data = json.loads((Path(tiny("llama-draft")) / "tokenizer.json").read_text())
    vocab = data["model"]["vocab"]
    last = max(vocab, key=vocab.get)
    del vocab[last]
    data["model"]["merges"] = [merge for merge in data["model"]["merges"] if "".join(merge) != last]
    draft = broken("llama-draft", tiny, tmp_path / "draft", tokenizer__json=json.dumps(data))
    load_fails(ModelError, draft, model__path=tiny("llama"), model__draft_model=draft)


def test_3_draft_with_another_vocabulary_of_the_same_size(mlxctl: Program, tiny: Tiny) -> None:
    """ "spm" has as many tokens as "llama", and other ones: its guesses mean nothing."""
    done = mlxctl("run", "--model", tiny("llama"), "--draft-model", tiny("spm"), "-m", "4", "hi")
    failed(done, 3, "tokenizer", tiny("spm"))


def test_4_cache_file_is_missing(mlxctl: Program, tiny: Tiny) -> None:
    """Said as such."""
    done = mlxctl("run", "--model", tiny("stopper"), "--prompt-cache-file", "gone.safetensors", "hi")
    failed(done, 4, "gone.safetensors", "no such")


@pytest.mark.parametrize("name", ["text", "empty", "truncated", "weights", "no tokenizer_config", "npz"])
def test_4_cache_file_is_foreign(name: str, tiny: Tiny, tmp_path: Path) -> None:
    """Other bytes under the right name."""
    import mlx.core as mx

    path = tmp_path / "cache.safetensors"
    if name == "truncated":
        data = Path(store_cache(path, tiny("stopper"), "some text")).read_bytes()
        path.write_bytes(data[: len(data) // 2])
    elif name == "no tokenizer_config":
        arrays, metadata = mx.load(store_cache(path, tiny("stopper"), "some text"), return_metadata=True)
        mx.eval(arrays)
        kept = {key: value for key, value in metadata.items() if "tokenizer_config" not in str(value) + key}
        mx.save_safetensors(str(path), arrays, {k: v for k, v in kept.items() if not v.startswith("{")})
    elif name == "weights":
        shutil.copy(Path(tiny("stopper")) / "model.safetensors", path)
    elif name == "npz":
        mx.savez(str(tmp_path / "x.npz"), a=mx.zeros(3))
        (tmp_path / "x.npz").rename(path)
    else:
        path.write_bytes(b"these are words" if name == "text" else b"")
    load_fails(CacheError, str(path), model__path=tiny("stopper"), request__prompt_cache_file=str(path))


def test_4_cache_file_is_foreign_in_a_run(mlxctl: Program, tiny: Tiny, work: Path) -> None:
    """One line of ours, no traceback."""
    (work / "c.safetensors").write_text("these are words")
    done = mlxctl("run", "--model", tiny("stopper"), "--prompt-cache-file", "c.safetensors", "hi")
    failed(done, 4, "c.safetensors")


def test_4_cache_of_another_model(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """Both models are named."""
    path = store_cache(tmp_path / "c.safetensors", tiny("llama"), "some text")
    done = mlxctl("run", "--model", tiny("stopper"), "--prompt-cache-file", path, "hi")
    failed(done, 4, tiny("llama"), tiny("stopper"))


def test_4_cache_with_another_number_of_layers(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """The library answers garbage. The file says it was made by the two-layer model."""
    path = store_cache(tmp_path / "c.safetensors", tiny("llama-draft"), "some text", model_name=tiny("llama"))
    done = mlxctl("run", "--model", tiny("llama"), "--prompt-cache-file", path, "-m", "4", "hi")
    failed(done, 4, "layers", "1", "2")


@pytest.mark.parametrize("kv", [{"kv__kv_bits": 4}, {"kv__kv_bits": 8, "kv__kv_group_size": 64}])
def test_4_cache_with_other_quantization(kv: dict[str, int], tiny: Tiny, tmp_path: Path) -> None:
    """Other bits or another group size than asked for."""
    made = {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 0}
    path = store_cache(tmp_path / "c.safetensors", tiny("llama"), "some text", **made)
    load_fails(CacheError, path, request__prompt_cache_file=path, **{"kv__kv_group_size": 32, **kv})


def test_5_template_refuses_a_system_prompt(mlxctl: Program, tiny: Tiny) -> None:
    """With the template's own words, and a hint."""
    done = mlxctl("run", "--model", tiny("spm"), "--system-prompt", "Be kind.", "-m", "3", "hi")
    failed(done, 5, "knows no system role", "--system-prompt")


TEMPLATES = {
    "raises": "{{ raise_exception('only on Sundays') }}",
    "syntax": "{% if %}",
    "no end": "{% for message in messages %}{{ message }}",
    "type error": "{{ messages + 1 }}",
    "division": "{{ 1 / 0 }}",
    "undefined": "{{ nothing.at.all }}",
    "unsafe": "{{ ''.__class__.__mro__[1].__subclasses__()[0].mro() }}{{ 1/0 }}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_5_template_fails(name: str, tiny: Tiny, tmp_path: Path) -> None:
    """However it fails."""
    from mlxctl import options
    from mlxctl.engine.loader import open_source
    from mlxctl.engine.prompt import render

    path = broken("stopper", tiny, tmp_path / "copy", chat_template__jinja=TEMPLATES[name])
    settings = options.build({"model.path": path})
    tokenizer = open_source(settings, lambda message: None).tokenizer
    with pytest.raises(TemplateError) as caught:
        render(tokenizer, [{"role": "user", "content": "hi"}], settings)
    assert path in caught.value.message and "\n" not in caught.value.message


def to_full(program: Program, *args: str) -> tuple[int, str]:
    """Exit status and stderr of a run whose stdout is a full disk."""
    with FULL.open("wb") as full:
        process = program.popen(*args, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=120)
    return process.returncode, err.decode()


@needs_full
@pytest.mark.parametrize("args", [(), ("--format", "json"), ("--format", "jsonl"), ("--dry-run",)])
def test_6_stdout_is_full(args: tuple[str, ...], mlxctl: Program, tiny: Tiny) -> None:
    """One line says so."""
    code, err = to_full(mlxctl, "run", "--model", tiny("stopper"), *args, "hi")
    assert code == 6 and "no space left" in err.lower() and len(err.splitlines()) == 1, err


@needs_full
@pytest.mark.parametrize("args", [("--help",), ("run", "--help"), ("--version",), ("generate", "--help")])
def test_6_help_on_a_full_disk(args: tuple[str, ...], mlxctl: Program) -> None:
    """No fault of ours, and no second complaint of the interpreter's when it exits."""
    code, err = to_full(mlxctl, *args)
    assert code == 6 and "no space left" in err.lower() and "Exception" not in err, err


@needs_full
def test_6_stats_file_is_full(mlxctl: Program, tiny: Tiny) -> None:
    """The answer is out by then; the status tells that the figures are lost."""
    done = mlxctl("run", "--model", tiny("stopper"), "--stats-file", str(FULL), "hi")
    assert (done.code, done.out) == (6, STOPPER_REPLY + "\n"), done.err
    assert "no space left" in done.err.lower() and "Traceback" not in done.err


FAULTS = {
    "RuntimeError('boom')": (1, "boom"),
    "KeyError('boom')": (1, "boom"),
    "RecursionError()": (1, "RecursionError"),
    "MlxctlError('boom')": (1, "boom"),
    "UsageError('boom', hint='try this')": (2, "try this"),
    "ModelError('boom')": (3, "boom"),
    "CacheError('boom')": (4, "boom"),
    "TemplateError('boom')": (5, "boom"),
    "ResourceError('boom')": (6, "boom"),
    "MemoryError()": (6, "memory"),
    "ReaderGone('boom')": (141, ""),
    "KeyboardInterrupt()": (130, "interrupted"),
}
SCRIPT = """
import sys
import mlxctl.cli.answer
from mlxctl.errors import *
def fail(*args, **kwargs):
    raise {error}
mlxctl.cli.answer.answer = fail
sys.argv = ["mlxctl", "run", "hi"]
from mlxctl.cli.main import main
main()
"""


def run_with(error: str, sealed: Mapping[str, str], work: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    """The real program, with a `run` whose answer raises."""
    command = [sys.executable, "-c", SCRIPT.format(error=error)]
    return subprocess.run(command, env={**sealed, **env}, cwd=work, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("error", FAULTS)
def test_errors_are_mapped_in_one_place(error: str, sealed: dict[str, str], work: Path) -> None:
    """Every exception that can come out of a command has its status and its line."""
    code, word = FAULTS[error]
    done = run_with(error, sealed, work)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert word.lower() in done.stderr.lower() and "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    if not word:
        assert done.stderr == ""


@pytest.mark.parametrize("error", ["RuntimeError('boom')", "ModelError('boom')"])
def test_debug_shows_the_traceback(error: str, sealed: dict[str, str], work: Path) -> None:
    """MLXCTL_DEBUG=1 changes no status."""
    done = run_with(error, sealed, work, MLXCTL_DEBUG="1")
    assert done.returncode == FAULTS[error][0] and "Traceback" in done.stderr and "boom" in done.stderr


def test_json_readers_hear_of_an_error(mlxctl: Program, tiny: Tiny) -> None:
    """One object with the status, on stdout, beside the line on stderr."""
    done = mlxctl("run", "--model", tiny("spm"), "--system-prompt", "x", "--format", "json", "hi")
    told: dict[str, Any] = json.loads(done.out)
    assert done.code == told["exit_status"] == 5 and "system role" in told["error"]
    assert "system role" in done.err


@pytest.mark.parametrize("missing", ["mlx", "mlx.core", "mlx_lm"])
def test_3_no_backend(missing: str, mlxctl: Program, tmp_path: Path) -> None:
    """mlx-lm brings no backend on Linux: one line says which extra does, before a demo model is fetched."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(f"import sys; sys.modules[{missing!r}] = None\n")
    done = mlxctl("run", "-P", "demo", "hi", env={"PYTHONPATH": str(tmp_path / "site")})
    assert (done.code, done.out) == (3, "")
    assert "no MLX backend" in done.err and 'pip install "mlxctl[cpu]"' in done.err
    assert len(done.err.splitlines()) == 2 and "Traceback" not in done.err
