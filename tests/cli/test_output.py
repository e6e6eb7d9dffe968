"""SPEC 4: what is on stdout and what on stderr, in every format."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Program
from models import END_OF_TEXT, IM_END, STOPPER_REPLY, THINK, THINK_END, THINKING

Tiny = Callable[[str], str]
TOP = {
    *("schema", "text", "thinking", "finish_reason", "stop", "profile", "model", "seed", "timing", "versions"),
    "device",
}
MODEL = {"id", "path", "revision", "fingerprint", "dtype", "expanded"}
TIMING = {
    *("load_s", "ttft_s", "total_s", "decode_s", "prompt_tokens", "cached_tokens", "prefill_tokens", "prompt_tps"),
    *("generation_tokens", "generation_tps", "peak_memory_gb", "kv_bytes", "kv_layers", "kv_layers_quantized"),
    *("draft_tokens", "draft_accepted", "bytes_per_token", "ceiling_tps"),
}
PROMPT_TOKENS = 14  # of "hi" in the ChatML template; test_figures_are_the_librarys holds it to the library's count


def library_steps(path: str, tokens: int, text: str = "hi") -> list[Any]:
    """The library's own answer, a response a token."""
    from mlx_lm import load, stream_generate

    model, tokenizer = load(path)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True)
    return list(stream_generate(model, tokenizer, prompt, max_tokens=tokens))


def test_json_has_the_keys_of_the_specification(mlxctl: Program, tiny: Tiny) -> None:
    """No more and no fewer, nested ones too; one line on stdout."""
    done = mlxctl("run", "--model", tiny("stopper"), "--seed", "5", "--format", "json", "hi")
    run = json.loads(done.out)
    assert done.code == 0 and done.out.count("\n") == 1 and done.err == ""
    assert (set(run), set(run["model"]), set(run["timing"])) == (TOP, MODEL, TIMING)
    assert (run["schema"], run["text"], run["thinking"]) == ("mlxctl.run/1", STOPPER_REPLY, None)
    assert (run["finish_reason"], run["profile"], run["seed"]) == ("stop", None, 5)
    assert run["stop"] == {"kind": "eos", "token_id": 2, "token": IM_END}
    model = run["model"]
    assert (model["id"], model["path"], model["revision"], model["dtype"]) == (*[tiny("stopper")] * 2, None, "float32")
    assert {"mlxctl", "mlx", "mlx-lm"} <= set(run["versions"]) and run["device"]


def test_figures_are_the_librarys(mlxctl: Program, tiny: Tiny) -> None:
    """Counts are the same, the end token included; times fit together."""
    last = library_steps(tiny("stopper"), 99)[-1]
    run = json.loads(mlxctl("run", "--model", tiny("stopper"), "--format", "json", "hi").out)
    t = run["timing"]
    assert (t["generation_tokens"], t["prompt_tokens"]) == (last.generation_tokens, last.prompt_tokens)
    assert t["prompt_tokens"] == PROMPT_TOKENS == t["prefill_tokens"] and t["cached_tokens"] == 0
    assert t["generation_tps"] == pytest.approx((t["generation_tokens"] - 1) / t["decode_s"])
    assert 0 < t["decode_s"] < t["total_s"] and 0 < t["ttft_s"] < t["total_s"] and 0 < t["load_s"] < t["total_s"]
    assert t["total_s"] >= t["load_s"] + t["ttft_s"] + t["decode_s"] - 1e-3
    # Keys and values of two layers, 2 heads of 32 floats, in whole steps of 256 tokens.
    assert t["kv_bytes"] == 2 * 2 * 2 * 32 * 4 * 256
    weights = (Path(tiny("stopper")) / "model.safetensors").stat().st_size
    assert 0.5 * weights < t["peak_memory_gb"] * 1e9 < 100 * weights  # GB are 1e9 bytes
    assert (t["draft_tokens"], t["draft_accepted"]) == (None, None)


def test_a_figure_that_cannot_be_known_is_null(mlxctl: Program, tiny: Tiny) -> None:
    """One token has no decode rate; the library reports an absurd one."""
    run = json.loads(mlxctl("run", "--model", tiny("stopper"), "-m", "1", "--format", "json", "hi").out)
    t = run["timing"]
    assert (t["generation_tokens"], t["generation_tps"], t["decode_s"]) == (1, None, None)
    assert (run["finish_reason"], run["stop"]) == ("length", {"kind": "length", "max_tokens": 1})


def test_json_names_the_profile(mlxctl: Program, tiny: Tiny, work: Path) -> None:
    """And its settings are used; the stop string is told."""
    (work / "profiles").mkdir()
    (work / "profiles" / "short.toml").write_text("[generation]\nstop = ['wör']\n[output]\nformat = 'json'\n")
    run = json.loads(mlxctl("run", "-P", "short", "--model", tiny("stopper"), "hi").out)
    assert (run["profile"], run["text"]) == ("short", STOPPER_REPLY.split("wör")[0])
    assert (run["stop"], run["finish_reason"]) == ({"kind": "string", "string": "wör"}, "stop")


def test_jsonl(mlxctl: Program, tiny: Tiny) -> None:
    """Every line is an event; the raw texts make up the answer, and token figures are the library's."""
    done = mlxctl("run", "--model", tiny("moe"), "-m", "20", "--format", "jsonl", "hi")
    events = [json.loads(line) for line in done.out.splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[0] == "start" and kinds[-1] == "done" and set(kinds) == {"start", "progress", "token", "done"}
    steps = library_steps(tiny("moe"), 20)
    tokens = [event for event in events if event["event"] == "token"]
    assert [token["id"] for token in tokens] == [step.token for step in steps]
    assert "".join(token["raw"] for token in tokens) == "".join(step.text for step in steps)
    theirs = [step.logprobs[step.token].item() for step in steps]
    assert [token["logprob"] for token in tokens] == pytest.approx(theirs, abs=1e-4)
    last = events[-1]
    assert set(last) == TOP | {"event"}
    assert "".join(token["text"] for token in tokens) == last["text"]
    assert "".join(token["thinking"] for token in tokens).strip() == last["thinking"].strip()
    progress = [(event["done"], event["total"]) for event in events if event["event"] == "progress"]
    assert progress[0][0] == 0 and progress[-1] == (PROMPT_TOKENS, PROMPT_TOKENS) and progress == sorted(progress)


@pytest.mark.parametrize("flags", [("--format", "classic"), ("--verbose", "True")])
def test_classic_is_upstreams_layout(flags: tuple[str, ...], mlxctl: Program, tiny: Tiny) -> None:
    """A rule, the answer, a rule, three lines of figures."""
    done = mlxctl("run", "--model", tiny("stopper"), *flags, "hi")
    figures = (
        rf"Prompt: {PROMPT_TOKENS} tokens, \d+\.\d{{3}} tokens-per-sec\n"
        r"Generation: 13 tokens, \d+\.\d{3} tokens-per-sec\nPeak memory: \d+\.\d{3} GB\n"
    )
    assert re.fullmatch(f"={{10}}\n{re.escape(STOPPER_REPLY)}\n={{10}}\n{figures}", done.out), done.out
    assert (done.code, done.err) == (0, "")


def test_nothing_to_show(mlxctl: Program, tiny: Tiny) -> None:
    """An answer of the end token alone: upstream says so on stdout, where an answer is expected."""
    flags = ("run", "--model", tiny("stopper"), "--ignore-chat-template", "zzz")
    done = mlxctl(*flags, "--stats")
    assert (done.code, done.out.strip()) == (0, "") and "1 token" in done.err
    assert "No text generated" in mlxctl(*flags, "--format", "classic").out


def test_stats_line(mlxctl: Program, tiny: Tiny) -> None:
    """One line on stderr; the question after the bare flag stays a question."""
    done = mlxctl("run", "--model", tiny("stopper"), "--stats", "hi")
    assert (done.code, done.out) == (0, STOPPER_REPLY + "\n")
    (line,) = done.err.splitlines()
    for part in (f"{PROMPT_TOKENS} prompt tokens", "13 tokens", "tok/s", "GB", f"ended by {IM_END}"):
        assert part in line
    assert "\x1b" not in done.err


def test_stats_as_json(mlxctl: Program, tiny: Tiny) -> None:
    """The run object without the words."""
    done = mlxctl("run", "--model", tiny("stopper"), "--stats", "json", "hi")
    assert done.out == STOPPER_REPLY + "\n"
    assert set(json.loads(done.err)) == TOP - {"text", "thinking"}


def test_no_stats_beside_an_environment_that_asks_for_them(mlxctl: Program, tiny: Tiny) -> None:
    """The flag is stronger than the variable."""
    done = mlxctl("run", "--model", tiny("stopper"), "--no-stats", "hi", env={"MLXCTL_STATS": "always"})
    assert (done.out, done.err) == (STOPPER_REPLY + "\n", "")


def test_stats_file_is_appended_to(mlxctl: Program, tiny: Tiny, work: Path) -> None:
    """A line a run, without a word of the prompt or the answer."""
    for seed in ("1", "2"):
        done = mlxctl(
            "run", "--model", tiny("stopper"), "--seed", seed, "--stats-file", "s.jsonl", "--system-prompt", "zebras",
            "giraffes",
        )  # fmt: skip
        assert (done.code, done.err) == (0, "")
    text = (work / "s.jsonl").read_text()
    runs = [json.loads(line) for line in text.splitlines()]
    assert [run["seed"] for run in runs] == [1, 2] and all(run["timing"]["generation_tokens"] == 13 for run in runs)
    assert [word for word in ("zebra", "giraffe", "Hello", "wörld", "w\\u00f6rld") if word in text] == []
    assert [set(run) for run in runs] == [TOP - {"text", "thinking"}] * 2


@pytest.mark.parametrize("where", ["show", "hide", "stderr"])
def test_thinking(where: str, mlxctl: Program, tiny: Tiny) -> None:
    """Shown as the model wrote it, hidden, or on stderr; the answer is what follows."""
    full = "".join(step.text for step in library_steps(tiny("moe"), 20))
    answer = full.removeprefix(THINKING)
    thought = THINKING.removeprefix(THINK).partition(THINK_END)[0]
    assert full.startswith(THINKING) and answer
    done = mlxctl("run", "--model", tiny("moe"), "-m", "20", "--thinking", where, "hi")
    assert (done.code, done.out) == (0, (full if where == "show" else answer) + "\n")
    assert (thought in done.err) == (where == "stderr")


def test_thinking_in_json(mlxctl: Program, tiny: Tiny) -> None:
    """Apart from the text, without the markers."""
    full = "".join(step.text for step in library_steps(tiny("moe"), 20))
    run = json.loads(mlxctl("run", "--model", tiny("moe"), "-m", "20", "--format", "json", "hi").out)
    assert run["text"] == full.removeprefix(THINKING)
    assert run["thinking"] == THINKING.removeprefix(THINK).partition(THINK_END)[0]


def test_dry_run_shows_what_would_be_used(mlxctl: Program, tiny: Tiny, work: Path) -> None:
    """Each setting with its origin, and the prompt; there are no weights to load."""
    (work / "p.toml").write_text("[sampler]\ntop_k = 5\n")
    flags = ("run", "-P", "./p.toml", "--model", tiny("llama"), "--temp", "0.5", "--dry-run", "hi")
    done = mlxctl(*flags, env={"MLXCTL_SEED": "7"})
    lines = done.out.splitlines()
    assert "sampler.temp = 0.5  # flag --temp" in lines
    assert "sampler.seed = 7  # variable MLXCTL_SEED" in lines
    assert f"sampler.top_k = 5  # {work}/p.toml:2" in lines
    assert done.code == 0 and done.out.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n\n")
    assert END_OF_TEXT not in done.out
