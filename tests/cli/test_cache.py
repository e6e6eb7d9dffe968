"""`mlxctl cache …`, and runs that start from a cache: through the program, on tiny models."""

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Forked, Program

Tiny = Callable[[str], str]
DOCUMENT = "".join(f"Rule {number}: a reviewer says what is wrong, where, and what to do.\n" for number in range(12))
GREEDY = ("--temp", "0", "-m", "8", "--no-stats")


@pytest.fixture
def document(mlxctl: Program) -> str:
    """A file of the project."""
    (mlxctl.cwd / "rules.txt").write_text(DOCUMENT)
    return "rules.txt"


@pytest.fixture
def saved(mlxctl: Program, tiny: Tiny, document: str) -> Path:
    """The cache `rules` of the tiny llama."""
    done = mlxctl("cache", "save", "rules", "--model", tiny("llama"), "--system-prompt", "Be brief.", "-f", document)
    assert (done.code, done.out) == (0, ""), done.err
    return Path(mlxctl.env["XDG_CACHE_HOME"]) / "mlxctl" / "prompts" / "rules.safetensors"


def timing(out: str) -> dict[str, int]:
    """The figures of a run."""
    found: dict[str, int] = json.loads(out)["timing"]
    return found


def test_save_then_run(mlxctl: Program, tiny: Tiny, saved: Path, document: str) -> None:
    """The same answer as without; what the cache was made with need not be said again."""
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600 and stat.S_IMODE(saved.parent.stat().st_mode) == 0o700
    plain = mlxctl("run", "--model", tiny("llama"), "--system-prompt", "Be brief.", "-f", document, "Why?", *GREEDY)
    cached = mlxctl("run", "--cache", "rules", "Why?", *GREEDY)
    assert (cached.code, cached.out) == (0, plain.out)
    figures = timing(mlxctl("cache", "load", "rules", "Why?", *GREEDY, "--format", "json").out)
    assert figures["cached_tokens"] > 300 and figures["prefill_tokens"] < 20
    assert figures["cached_tokens"] + figures["prefill_tokens"] == figures["prompt_tokens"]


def test_save_says_what_it_did(mlxctl: Program, tiny: Tiny, document: str) -> None:
    """Tokens, rate, size, and how to go on; nothing on stdout."""
    done = mlxctl("cache", "save", "x", "--model", tiny("llama"), "-f", document)
    assert done.out == "" and "tok/s" in done.err and " kB: " in done.err and "mlxctl run --cache x" in done.err


def test_a_system_prompt_alone_can_be_saved(mlxctl: Program, tiny: Tiny) -> None:
    """The question is the first message of the user."""
    assert mlxctl("cache", "save", "s", "--model", tiny("llama"), "--system-prompt", "Be brief.").code == 0
    plain = mlxctl("run", "--model", tiny("llama"), "--system-prompt", "Be brief.", "Why?", *GREEDY)
    assert mlxctl("run", "--cache", "s", "Why?", *GREEDY).out == plain.out


def test_stdin_and_text_can_be_saved(mlxctl: Program, tiny: Tiny, document: str) -> None:
    """In the order in which `run` puts them."""
    done = mlxctl("cache", "save", "s", "--model", tiny("llama"), "-f", document, "and this", input="from stdin\n")
    assert done.code == 0
    shown = mlxctl("cache", "info", "s", "--text").out
    assert shown.endswith("\nfrom stdin\n\nand this\n\n\n")
    question = mlxctl(
        "run", "--model", tiny("llama"), "-f", document, "and this\n\nWhy?", *GREEDY, input="from stdin\n"
    )
    assert mlxctl("run", "--cache", "s", "Why?", *GREEDY).out == question.out


def test_nothing_to_save(mlxctl: Program, tiny: Tiny) -> None:
    """Is no cache."""
    done = mlxctl("cache", "save", "s", "--model", tiny("llama"))
    assert done.code == 2 and "prompt" in done.err


def test_a_profile_can_name_a_cache(mlxctl: Program, saved: Path) -> None:
    """And what is set there counts in `cache save` too."""
    (mlxctl.cwd / ".mlxctl").mkdir()
    (mlxctl.cwd / ".mlxctl" / "p.toml").write_text('[cache]\nname = "rules"\n[generation]\nmax_tokens = 4\n')
    assert timing(mlxctl("run", "-P", "p", "Why?", "--format", "json").out)["cached_tokens"] > 300


def test_update_goes_on_with_the_conversation(mlxctl: Program, tiny: Tiny, saved: Path, document: str) -> None:
    """Only when asked for; the next question follows question and answer."""
    before = saved.read_bytes()
    first = mlxctl("run", "--cache", "rules", "Why?", *GREEDY)
    assert saved.read_bytes() == before
    assert mlxctl("run", "--cache", "rules", "Why?", *GREEDY, "--cache-update").out == first.out
    assert saved.read_bytes() != before
    info = json.loads(mlxctl("cache", "info", "rules", "--format", "json").out)
    assert [message["role"] for message in info["messages"]] == ["system", "user", "assistant"]
    assert info["messages"][2]["content"] == first.out.removesuffix("\n")
    conversation = [*info["messages"], {"role": "user", "content": "And then?"}]
    (mlxctl.cwd / "m.json").write_text(json.dumps(conversation))
    plain = mlxctl("run", "--model", tiny("llama"), "--messages", "m.json", *GREEDY)
    assert mlxctl("run", "--cache", "rules", "And then?", *GREEDY).out == plain.out


INTERRUPTED = """
import os, signal, sys
from mlxctl.cli.caching import Caching
finish = Caching.finish
def interrupted(*args):
    os.kill(os.getpid(), signal.SIGINT)
    return finish(*args)
Caching.finish = interrupted
sys.argv[0] = "mlxctl"
from mlxctl.__main__ import main
main()
"""


def test_interrupted_while_writing_back(mlxctl: Program, saved: Path) -> None:
    """The answer is out, the cache as it was, and the status tells."""
    before = saved.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "run", "--cache", "rules", "Why?", *GREEDY, "--cache-update"],
        env=mlxctl.env, cwd=mlxctl.cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 130 and done.stdout == mlxctl("run", "--cache", "rules", "Why?", *GREEDY).out
    assert "the prompt cache was not written: interrupted" in done.stderr
    assert saved.read_bytes() == before


def test_a_failed_write_takes_nothing_from_the_answer(mlxctl: Program, tiny: Tiny, document: str) -> None:
    """The answer is out, the old cache is there; the status tells of what was asked for in vain."""
    assert mlxctl("cache", "save", "./sub/x", "--model", tiny("llama"), "-f", document).code == 0
    path = mlxctl.cwd / "sub" / "x.safetensors"
    before = path.read_bytes()
    locks = Path(mlxctl.env["XDG_CACHE_HOME"]) / "mlxctl" / "locks"
    for lock in locks.iterdir():
        lock.unlink()
    locks.rmdir()
    locks.write_text("in the way")
    done = mlxctl("run", "--cache", "./sub/x", "Why?", *GREEDY, "--cache-update")
    assert done.code == 6 and done.out and "the prompt cache was not written" in done.err
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "args, words",
    [
        (("--model", "{quant}"), "other weights"),
        (("--kv-bits", "8", "--kv-group-size", "32"), "kv_bits None, not 8"),
        (("--max-kv-size", "64"), "max_kv_size None, not 64"),
        (("--dtype", "bfloat16"), "another --dtype"),
        (("--adapter-path", "{adapter}"), "another adapter"),
    ],
)
def test_what_a_cache_does_not_fit(args: tuple[str, ...], words: str, mlxctl: Program, tiny: Tiny, saved: Path) -> None:
    """Is refused in one line, with status 4, and never answered."""
    args = tuple(arg if arg[0] != "{" else tiny(arg[1:-1]) for arg in args)
    done = mlxctl("run", "--cache", "rules", "Why?", *args)
    assert (done.code, done.out) == (4, "") and "mlxctl: cache rules: it was made with " in done.err
    assert words in done.err


def test_the_same_command_with_a_cache_means_the_same(mlxctl: Program, tiny: Tiny, saved: Path, document: str) -> None:
    """A prompt that brings the beginning itself is compared with the cache, not put behind it; an edited document is
    used up to the edit, another system prompt not at all, and stderr says so."""
    (mlxctl.cwd / "p.toml").write_text(
        f'[prompt]\nsystem = "Be brief."\nfiles = ["{document}"]\n[cache]\nname = "rules"'
    )
    plain = mlxctl("run", "--model", tiny("llama"), "--system-prompt", "Be brief.", "-f", document, "Why?", *GREEDY)
    whole = ("--system-prompt", "Be brief.", "-f", document, "Why?", *GREEDY)
    for args in (("--cache", "rules", *whole), ("-P", "p.toml", "Why?", *GREEDY)):
        assert mlxctl("run", *args).out == plain.out
        assert timing(mlxctl("run", *args, "--format", "json").out)["cached_tokens"] > 300
    (mlxctl.cwd / document).write_text(DOCUMENT.replace("Rule 6: a reviewer", "Rule 6: nobody"))
    edited = mlxctl("run", "--model", tiny("llama"), *whole)
    cached = mlxctl("run", "--cache", "rules", *whole)
    assert cached.out == edited.out and "tokens are used, the prompt differs" in cached.err
    other = mlxctl("run", "--cache", "rules", "--system-prompt", "x", "Why?", *GREEDY)
    assert other.out == mlxctl("run", "--model", tiny("llama"), "--system-prompt", "x", "Why?", *GREEDY).out


def test_another_file_goes_behind_the_cache(mlxctl: Program, tiny: Tiny, saved: Path, document: str) -> None:
    """It is what comes next."""
    (mlxctl.cwd / "more.txt").write_text("One more thing.\n")
    plain = ("--model", tiny("llama"), "--system-prompt", "Be brief.", "-f", document, "-f", "more.txt", "Why?")
    assert (
        mlxctl("run", "--cache", "rules", "-f", "more.txt", "Why?", *GREEDY).out == mlxctl("run", *plain, *GREEDY).out
    )


def test_names(mlxctl: Program, saved: Path) -> None:
    """One that is not there says where it looked, and what is near."""
    done = mlxctl("run", "--cache", "ruls", "Why?")
    assert done.code == 4 and "did you mean rules?" in done.err and str(saved.parent) in done.err
    for name in (".x", "a b", "x" * 200, ""):
        assert mlxctl("cache", "save", name, "text").code == 2


def test_flags_that_contradict(mlxctl: Program, saved: Path) -> None:
    """Two caches to start from, or none to write to."""
    both = mlxctl("run", "--cache", "rules", "--prompt-cache-file", str(saved), "Why?")
    assert both.code == 2 and "both name a cache" in both.err
    none = mlxctl("run", "--cache-update", "Why?")
    assert none.code == 2 and "no cache to write back to" in none.err


def test_upstreams_flag_takes_our_file(mlxctl: Program, saved: Path) -> None:
    """As --cache does."""
    one = mlxctl("run", "--cache", "rules", "Why?", *GREEDY)
    assert mlxctl("run", "--prompt-cache-file", str(saved), "Why?", *GREEDY).out == one.out


def test_dry_run_shows_the_whole_prompt(mlxctl: Program, saved: Path) -> None:
    """With what the cache holds."""
    done = mlxctl("run", "--cache", "rules", "Why?", "--dry-run")
    assert done.code == 0 and "Be brief." in done.out and "Rule 11" in done.out and "Why?" in done.out


def test_auto_cache(mlxctl: Program, tiny: Tiny, document: str) -> None:
    """The second question on a document skips it; an edited document is used up to the edit; short prompts leave
    nothing."""

    def ask(*args: str) -> dict[str, int]:
        return timing(mlxctl("run", "--model", tiny("llama"), "--auto-cache", *args, *GREEDY, "--format", "json").out)

    store = Path(mlxctl.env["XDG_CACHE_HOME"]) / "mlxctl" / "auto"
    ask("hi")
    assert list(store.glob("*.safetensors")) == []
    assert ask("-f", document, "Why?")["cached_tokens"] == 0
    second = ask("-f", document, "What else?")
    assert second["cached_tokens"] > 300 and second["prefill_tokens"] < 30
    assert len(list(store.glob("*.safetensors"))) == 1
    (mlxctl.cwd / document).write_text(DOCUMENT.replace("Rule 6: a reviewer", "Rule 6: nobody"))
    assert 100 < ask("-f", document, "Why?")["cached_tokens"] < 250
    assert ask("-f", document, "Why?", "--no-auto-cache")["cached_tokens"] == 0
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in store.iterdir())


def test_auto_cache_keeps_to_its_limit(mlxctl: Program, tiny: Tiny, document: str) -> None:
    """And one that is larger by itself is not kept."""
    store = Path(mlxctl.env["XDG_CACHE_HOME"]) / "mlxctl" / "auto"
    run = ("run", "--model", tiny("llama"), "--auto-cache", "-f", document, *GREEDY)
    for size in ("1000", "1.5kB", "2K"):
        done = mlxctl(*run, "Why?", "--cache-max-bytes", size)
        assert done.code == 0 and "more than its limit" in done.err
    assert list(store.glob("*.safetensors")) == []
    assert mlxctl(*run, "Why?", env={"MLXCTL_CACHE_MAX_BYTES": "1GB"}).code == 0
    assert len(list(store.glob("*.safetensors"))) == 1
    for size in ("many", "-1", "1.5.1GB", "2XB"):
        assert mlxctl(*run, "Why?", "--cache-max-bytes", size).code == 2


def test_a_damaged_entry_of_the_store_is_a_miss(mlxctl: Program, tiny: Tiny, document: str) -> None:
    """It is removed, the prompt is processed, the answer is the same."""
    run = ("run", "--model", tiny("llama"), "--auto-cache", "-f", document, *GREEDY, "Why?")
    first = mlxctl(*run)
    (entry,) = (Path(mlxctl.env["XDG_CACHE_HOME"]) / "mlxctl" / "auto").glob("*.safetensors")
    data = bytearray(entry.read_bytes())
    data[-100] ^= 1
    entry.write_bytes(data)
    again = mlxctl(*run)
    assert (again.code, again.out) == (0, first.out)


def test_list(mlxctl: Program, tiny: Tiny, saved: Path) -> None:
    """Size, tokens, model, age, and whether the profile can use it."""
    done = mlxctl("cache", "list")
    heading, line = done.out.splitlines()
    assert heading.split() == ["NAME", "TOKENS", "SIZE", "MODEL", "AGE", "USABLE"]
    assert line.startswith("rules ") and tiny("llama") in line and line.endswith(" yes")
    (row,) = json.loads(mlxctl("cache", "list", "--format", "json").out)
    assert row["name"] == "rules" and row["size"] == saved.stat().st_size and row["unusable"] is None
    assert row["tokens"] > 300 and 0 <= row["age_s"] < 600
    (mlxctl.cwd / "p.toml").write_text(f"[model]\npath = {tiny('quant')!r}")
    assert (
        mlxctl("cache", "list", "-P", "./p.toml")
        .out.splitlines()[1]
        .endswith(f"other weights, those of {tiny('llama')}")
    )
    assert "no such folder" in mlxctl("cache", "list", env={"MLXCTL_MODEL": "/nowhere"}).out
    saved.write_bytes(saved.read_bytes()[:50])
    assert "not a prompt cache, or cut short" in mlxctl("cache", "list").out


def test_info(mlxctl: Program, tiny: Tiny, saved: Path) -> None:
    """In lines, and all of it as JSON."""
    out = mlxctl("cache", "info", "rules").out
    assert f"file:            {saved}" in out and tiny("llama") in out and "system (9 characters)" in out
    data = json.loads(mlxctl("cache", "info", "rules", "--format", "json").out)
    assert data["messages"][0] == {"role": "system", "content": "Be brief."}
    assert data["messages"][1]["content"] == DOCUMENT + "\n"
    assert len(data["ids"]) > 300 and data["size"] == saved.stat().st_size
    path = str(mlxctl.cwd / "rules.txt")
    assert data["parts"] == [{"name": "rules.txt", "characters": len(DOCUMENT) + 1, "path": path}]


@pytest.mark.parametrize("kind", ["llama", "quant", "sliding", "mamba", "hybrid", "lists", "pairs", "chunked"])
def test_verify(kind: str, mlxctl: Program, tiny: Tiny, document: str) -> None:
    """As it was written, and as it would be computed; a changed bit and a changed model are found."""
    assert mlxctl("cache", "save", "c", "--model", tiny(kind), "-f", document).code == 0
    assert "as it was written" in mlxctl("cache", "verify", "c").out
    done = mlxctl("cache", "verify", "--deep", "c")
    assert (done.code, "as computed anew" in done.out) == (0, True), done.err


def test_verify_finds_a_changed_bit(mlxctl: Program, saved: Path) -> None:
    """Wherever it is, and goes on with the next cache."""
    data = bytearray(saved.read_bytes())
    data[len(data) // 2] ^= 4
    (saved.parent / "bad.safetensors").write_bytes(data)
    done = mlxctl("cache", "verify", "bad", "rules")
    assert done.code == 4 and "checksum" in done.err and done.out.startswith("rules: ")


def test_verify_deep_finds_what_a_right_checksum_hides(mlxctl: Program, tiny: Tiny, document: str) -> None:
    """A file that was made by other numbers than the model's."""
    model = mlxctl.cwd / "model"
    shutil.copytree(tiny("llama"), model)
    assert mlxctl("cache", "save", "c", "--model", "./model", "-f", document).code == 0
    shutil.copy(Path(tiny("llama-draft")) / "tokenizer.json", model / "tokenizer.json")
    (model / "config.json").write_text((model / "config.json").read_text() + " ")
    assert mlxctl("cache", "verify", "--deep", "c").code == 4


@pytest.mark.parametrize(
    "args, words",
    [
        (("--system-prompt", "Be brief.", "-f", "edited", "Why?"), ["message 2 (user), rules.txt", "nobody"]),
        (("--system-prompt", "Be long.", "-f", "rules.txt", "Why?"), ["message 1 (system), character 3", "'Be long.'"]),
        (("-f", "rules.txt", "Why?"), ["message 1 (system) is one of the user here"]),
        (("Why?",), ["begins with 486 of the 486"]),
    ],
)
def test_explain(args: tuple[str, ...], words: list[str], mlxctl: Program, tiny: Tiny, saved: Path) -> None:
    """The first token that differs, what stands there, and which file or message is the cause."""
    if "edited" in args:
        (mlxctl.cwd / "rules.txt").write_text(DOCUMENT.replace("Rule 6: a reviewer", "Rule 6: nobody"))
    done = mlxctl("cache", "explain", "rules", *(arg.replace("edited", "rules.txt") for arg in args))
    assert done.code == 0, done.err
    assert "of the 486 of rules" in done.out
    assert [word for word in words if word not in done.out] == [], done.out


def test_explain_names_a_template_argument(mlxctl: Program, tiny: Tiny, document: str) -> None:
    """Only one that the template reads."""
    model = mlxctl.cwd / "styled"
    shutil.copytree(tiny("llama"), model)
    template = (model / "chat_template.jinja").read_text()
    (model / "chat_template.jinja").write_text("{{- style | default('plain') -}}" + template)
    assert mlxctl("cache", "save", "m", "--model", "./styled", "-f", document).code == 0
    arguments = ("--chat-template-config", '{"style": "loud", "other": 1}')
    done = mlxctl("cache", "explain", "m", "Why?", *arguments)
    assert "template argument style: not set in the cache, loud here" in done.out and "other" not in done.out
    plain = mlxctl("run", "--model", "./styled", "-f", document, "Why?", *arguments, *GREEDY)
    assert mlxctl("run", "--cache", "m", "Why?", *arguments, *GREEDY).out == plain.out


def test_rm(mlxctl: Program, saved: Path) -> None:
    """All that are named, or none."""
    assert mlxctl("cache", "rm", "rules", "nope").code == 4 and saved.exists()
    assert mlxctl("cache", "rm", "rules").code == 0 and not saved.exists()
    assert mlxctl("cache", "list").out.splitlines()[1:] == []


def test_prune(mlxctl: Program, tiny: Tiny, saved: Path, document: str) -> None:
    """The least recently used go first, with a name or without."""
    mlxctl("run", "--model", tiny("llama"), "--auto-cache", "-f", document, "Why?", *GREEDY)
    old = saved.parent / "old.safetensors"
    old.write_bytes(saved.read_bytes())
    os.utime(old, (time.time() - 40 * 86400,) * 2)
    assert mlxctl("cache", "prune").code == 2
    assert mlxctl("cache", "prune", "--older-than", "30d").out == f"{old}\n"
    assert mlxctl("cache", "prune", "--max-bytes", "1GB").out == ""
    gone = mlxctl("cache", "prune", "--max-bytes", "0").out.splitlines()
    assert str(saved) in gone and len(gone) == 2 and not saved.exists()
    for args in (("--older-than", "soon"), ("--max-bytes", "many")):
        assert mlxctl("cache", "prune", *args).code == 2


def test_slow_prompts_are_told_of_the_cache(mlxctl: Program, tiny: Tiny) -> None:
    """Not fast ones."""
    assert "--auto-cache" not in mlxctl("run", "--model", tiny("stopper"), "hi").err


# What reviewing and breaking it found


def test_rm_and_save_leave_other_files_alone(mlxctl: Program, tiny: Tiny) -> None:
    """The weights of a model are a safetensors file too."""
    shutil.copytree(tiny("llama"), mlxctl.cwd / "m")
    weights = mlxctl.cwd / "m" / "model.safetensors"
    before = weights.read_bytes()
    for command in (("rm", "./m/model.safetensors"), ("save", "./m/model", "--model", tiny("llama"), "text")):
        done = mlxctl("cache", *command)
        assert done.code == 4 and "is no prompt cache" in done.err
    assert weights.read_bytes() == before


@pytest.mark.parametrize("name", ["./", ".", "/dev/null.safetensors/", "./folder/"])
def test_places_that_are_none(name: str, mlxctl: Program, tiny: Tiny) -> None:
    """A folder is not silently given another name."""
    (mlxctl.cwd / "folder").mkdir()
    assert mlxctl("cache", "save", name, "--model", tiny("llama"), "text").code == 2


def test_auto_cache_beside_a_file_of_upstream(mlxctl: Program, tiny: Tiny, upstream: Forked, document: str) -> None:
    """The question is encoded by itself there: what the store holds of prompts says nothing about it."""
    prompt_cache = Forked("mlx_lm.cache_prompt", upstream.server, mlxctl.cwd)
    args = ("--model", tiny("llama"), "--prompt", DOCUMENT, "--prompt-cache-file", "up.safetensors")
    assert prompt_cache(*args).code == 0
    run = ("run", "--model", tiny("llama"), "--prompt-cache-file", "up.safetensors", DOCUMENT, *GREEDY)
    plain = mlxctl(*run)
    assert [mlxctl(*run, "--auto-cache").out for _ in range(2)] == [plain.out] * 2


def test_a_cut_below_the_start_of_quantizing(mlxctl: Program, tiny: Tiny, document: str) -> None:
    """The uncached run quantizes nothing there, and neither does one with the store."""
    (mlxctl.cwd / "short.txt").write_text(DOCUMENT[:90])
    quantized = ("--kv-bits", "2", "--kv-group-size", "32", "--quantized-kv-start", "300", *GREEDY)
    run = ("run", "--model", tiny("llama"), *quantized)
    plain = mlxctl(*run, "-f", "short.txt", "Why?")
    assert mlxctl(*run, "--auto-cache", "-f", document, "Why?").code == 0
    assert mlxctl(*run, "--auto-cache", "-f", "short.txt", "Why?").out == plain.out


def test_an_entry_of_another_model_in_the_store(mlxctl: Program, tiny: Tiny, document: str) -> None:
    """Whatever the index says, the file is held against the model."""
    store = Path(mlxctl.env["XDG_CACHE_HOME"]) / "mlxctl" / "auto"
    runs = {kind: ("run", "--model", tiny(kind), "--auto-cache", "-f", document, "Why?", *GREEDY)
            for kind in ("llama", "llama-draft")}  # fmt: skip
    first = mlxctl(*runs["llama"])
    (entry,) = store.glob("*.safetensors")
    assert mlxctl(*runs["llama-draft"]).code == 0
    (other,) = (path for path in store.glob("*.safetensors") if path != entry)
    entry.write_bytes(other.read_bytes())
    assert mlxctl(*runs["llama"]).out == first.out


def test_update_of_an_answer_that_was_begun(mlxctl: Program, saved: Path) -> None:
    """Stays one message."""
    args = ("--prefill-response", "Well, ", "--cache-update", *GREEDY)
    answer = mlxctl("run", "--cache", "rules", "Why?", *args).out.removesuffix("\n")
    messages = json.loads(mlxctl("cache", "info", "rules", "--format", "json").out)["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant"]
    assert messages[2]["content"] == "Well, " + answer


def test_update_of_what_cannot_be(mlxctl: Program, tiny: Tiny) -> None:
    """Is told before the answer."""
    done = mlxctl("run", "--model", tiny("llama"), "--prompt-cache-file", "gone.safetensors", "--cache-update", "Why?")
    assert (done.code, done.out) == (2, "") and "--cache-update" in done.err


def test_a_file_that_changed_since(mlxctl: Program, saved: Path, document: str) -> None:
    """The cache holds it as it was, and says so."""
    assert "was changed since" not in mlxctl("run", "--cache", "rules", "Why?", *GREEDY).err
    (mlxctl.cwd / document).write_text(DOCUMENT + "One more.\n")
    assert "rules.txt was changed since" in mlxctl("run", "--cache", "rules", "Why?", *GREEDY).err


def test_to_look_at_a_cache_is_not_to_use_it(mlxctl: Program, saved: Path) -> None:
    """`prune` goes by the last run."""
    old = time.time() - 40 * 86400
    os.utime(saved, (old, old))
    mlxctl("cache", "list")
    assert mlxctl("cache", "prune", "--older-than", "30d").out == f"{saved}\n"


def roles(mlxctl: Program, name: str) -> list[str]:
    """Who speaks in a cache."""
    info = json.loads(mlxctl("cache", "info", name, "--format", "json").out)
    return [message["role"] for message in info["messages"]]


def contents(mlxctl: Program, name: str) -> list[str]:
    info = json.loads(mlxctl("cache", "info", name, "--format", "json").out)
    return [message["content"] for message in info["messages"]]


def test_update_under_a_profile_with_a_system_prompt(mlxctl: Program, tiny: Tiny) -> None:
    """The same beginning is not told twice, and nothing of the conversation is lost."""
    (mlxctl.cwd / "p.toml").write_text(f"[model]\npath = {tiny('llama')!r}\n[prompt]\nsystem = 'Be kind.'\n")
    assert mlxctl("cache", "save", "talk", "-P", "./p.toml").code == 0
    for question in ("My name is Ann", "What is my name?", "And now?"):
        done = mlxctl("run", "-P", "./p.toml", "--cache", "talk", "--cache-update", question, *GREEDY)
        assert done.code == 0 and "tokens now" in done.err, done.err
    assert roles(mlxctl, "talk") == ["system", *["user", "assistant"] * 3]
    before = contents(mlxctl, "talk")
    other = ("run", "--cache", "talk", "--system-prompt", "Be brief.", "Hello", *GREEDY)
    assert mlxctl(*other).code == 0  # by itself, it only makes no use of the cache
    done = mlxctl(*other, "--cache-update")
    assert done.code == 2 and "does not go on with" in done.err
    assert contents(mlxctl, "talk") == before


def test_files_of_one_name_in_two_folders(mlxctl: Program, tiny: Tiny) -> None:
    """The other one follows what is held."""
    for folder, text in (("one", "A document about ships."), ("two", "A text about cars.")):
        (mlxctl.cwd / folder).mkdir()
        (mlxctl.cwd / folder / "README.md").write_text(text)
    assert mlxctl("cache", "save", "f", "--model", tiny("llama"), "-f", "one/README.md").code == 0
    done = mlxctl("run", "--cache", "f", "--cache-update", "-f", "two/README.md", "Compare", *GREEDY)
    assert done.code == 0
    assert contents(mlxctl, "f")[0] == "A document about ships.\n\nA text about cars.\n\nCompare"


def test_the_same_file_again_in_a_conversation(mlxctl: Program, tiny: Tiny, document: str) -> None:
    """It is not told twice, and the cache still knows that it holds it."""
    assert mlxctl("cache", "save", "d", "--model", tiny("llama"), "-f", document).code == 0
    for question in ("First?", "Second?", "Third?"):
        assert mlxctl("run", "--cache", "d", "--cache-update", "-f", document, question, *GREEDY).code == 0
    said = contents(mlxctl, "d")
    assert said[0] == f"{DOCUMENT}\nFirst?" and said[2::2] == ["Second?", "Third?"]
    (mlxctl.cwd / document).write_text("changed")
    assert "was changed since" in mlxctl("run", "--cache", "d", "Fourth?", *GREEDY).err


def test_explain_tells_what_a_run_would_refuse(mlxctl: Program, tiny: Tiny, saved: Path) -> None:
    for args, words in ((("--model", tiny("quant")), "other weights"), (("--kv-bits", "8"), "kv_bits None, not 8")):
        done = mlxctl("cache", "explain", "rules", *args, "Why?")
        assert "a run would refuse the cache" in done.out and words in done.out, done.out


def test_list_knows_what_a_type_comes_to(mlxctl: Program, saved: Path) -> None:
    (mlxctl.cwd / "n.toml").write_text("[model]\ndtype = 'native'\n")
    assert mlxctl("cache", "list", "-P", "./n.toml").out.splitlines()[1].endswith("yes")
    (mlxctl.cwd / "b.toml").write_text("[model]\ndtype = 'bfloat16'\n")
    assert "another --dtype" in mlxctl("cache", "list", "-P", "./b.toml").out


def test_a_relative_model_is_found_from_anywhere(mlxctl: Program, tiny: Tiny) -> None:
    (mlxctl.cwd / "lm").symlink_to(tiny("llama"))
    (mlxctl.cwd / "sub").mkdir()
    assert mlxctl("cache", "save", "rel", "--model", "./lm", "Hello there").code == 0
    there = Program("mlxctl", mlxctl.env, mlxctl.cwd / "sub")
    assert there("run", "--cache", "rel", "x", *GREEDY).code == 0


def test_a_link_stays_a_link(mlxctl: Program, tiny: Tiny) -> None:
    assert mlxctl("cache", "save", "./real", "--model", tiny("llama"), "Hello").code == 0
    link, real = mlxctl.cwd / "link.safetensors", mlxctl.cwd / "real.safetensors"
    link.symlink_to("real.safetensors")
    before = real.read_bytes()
    assert mlxctl("run", "--cache", "./link", "--cache-update", "more", *GREEDY).code == 0
    assert link.is_symlink() and real.read_bytes() != before
    (mlxctl.cwd / "loop.safetensors").symlink_to("loop.safetensors")
    done = mlxctl("cache", "save", "./loop", "--model", tiny("llama"), "Hello")
    assert done.code in (2, 6) and "fault of mlxctl" not in done.err


def test_update_and_the_automatic_store_together(mlxctl: Program, tiny: Tiny, saved: Path) -> None:
    """Each keeps what is its own."""
    long = " ".join(f"word{number}" for number in range(100))
    done = mlxctl("run", "--cache", "rules", "--cache-update", "--auto-cache", long, *GREEDY)
    assert done.code == 0, done.err
    assert len(list((Path(mlxctl.env["XDG_CACHE_HOME"]) / "mlxctl" / "auto").glob("*.safetensors"))) == 1
    assert roles(mlxctl, "rules")[-1] == "assistant"


def test_what_is_used_is_told_beside_other_notices(mlxctl: Program, saved: Path) -> None:
    args = (
        "run",
        "--cache",
        "rules",
        "--system-prompt",
        "Other",
        "--chat-template-config",
        '{"zzz": 1}',
        "Hi",
        *GREEDY,
    )
    done = mlxctl(*args)
    assert "zzz" in done.err and "of its 486 tokens are used" in done.err, done.err


def test_verify_of_what_was_written_back(mlxctl: Program, tiny: Tiny) -> None:
    """A chunked cache drops its beginning elsewhere when a prompt came in two pieces."""
    (mlxctl.cwd / "long.txt").write_text("A pirate speaks of the sea, in short sentences. " * 8)
    assert mlxctl("cache", "save", "c", "--model", tiny("chunked"), "-f", "long.txt").code == 0
    assert mlxctl("run", "--cache", "c", "--cache-update", "Hello there", *GREEDY).code == 0
    done = mlxctl("cache", "verify", "--deep", "c")
    assert done.code == 0, done.err


def test_weights_that_change_after_they_were_loaded(mlxctl: Program, tiny: Tiny) -> None:
    """No cache is given out for those of another model."""
    from mlxctl import options
    from mlxctl.caches import identity
    from mlxctl.engine.engine import Engine
    from mlxctl.errors import CacheError

    model = mlxctl.cwd / "model"
    shutil.copytree(tiny("llama"), model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", mlxctl.env["XDG_CACHE_HOME"])
        engine = Engine.load(options.build({"model.path": str(model)}))
        assert identity.of_engine(engine)["model"]
        weights = model / "model.safetensors"
        data = bytearray(weights.read_bytes())
        data[-1] ^= 1
        weights.write_bytes(data)
        with pytest.raises(CacheError, match="were changed since it was loaded"):
            identity.of_engine(engine)


def test_looking_is_not_using(mlxctl: Program, saved: Path) -> None:
    long_ago = time.time() - 40 * 86400
    os.utime(saved, (long_ago, long_ago))
    for args in (("info", "rules"), ("verify", "rules"), ("explain", "rules", "Why?"), ("list",)):
        assert mlxctl("cache", *args).code == 0
        assert abs(saved.stat().st_atime - long_ago) < 1, args
