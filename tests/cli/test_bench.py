"""`mlxctl bench`, through the program."""

import csv
import io
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import past
import pytest
from conftest import Program

Tiny = Callable[[str], str]
QUICK = ("-p", "16", "-n", "8", "-r", "2")


@pytest.fixture
def bench(mlxctl: Program, tiny: Tiny) -> Callable[..., Any]:
    return lambda *args, model="llama", **kwargs: mlxctl("bench", "--model", tiny(model), *args, **kwargs)


def rows(done: Any) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def test_figures_hang_together(bench: Any, tiny: Tiny) -> None:
    """Rates are tokens over time, mean and standard deviation are of the samples, and nothing is invented."""
    prompt, generate = rows(bench(*QUICK, "-o", "json", "-r", "3"))
    for row, tokens in ((prompt, 16), (generate, 8)):
        assert len(row["samples_ns"]) == len(row["samples_ts"]) == 3
        for ns, ts in zip(row["samples_ns"], row["samples_ts"], strict=True):
            assert ts == pytest.approx(tokens * 1e9 / ns, rel=1e-3)
        assert row["avg_ts"] == pytest.approx(mean(row["samples_ts"]))
        assert row["stddev_ts"] == pytest.approx(stdev(row["samples_ts"]))
        assert row["model_filename"] == tiny("llama") and row["model_n_params"] * 4 == row["model_size"]
    assert (prompt["test"], prompt["n_prompt"], prompt["n_gen"]) == ("pp16", 16, 0)
    assert (generate["test"], generate["n_prompt"], generate["n_gen"]) == ("tg8", 0, 8)
    assert prompt["ceiling_ts"] is None and prompt["bytes_per_token"] is None
    assert 0 < generate["ceiling_share"] == pytest.approx(generate["avg_ts"] / generate["ceiling_ts"])
    (once,) = rows(bench("-p", "8", "-n", "0", "-r", "1", "-o", "json"))
    assert once["stddev_ts"] is None and once["stddev_ns"] is None


def test_sweep(bench: Any) -> None:
    """Every combination, in an order that processes each depth once."""
    done = bench("-p", "8-32*2", "-n", "4", "-d", "0,16", "-r", "1", "-o", "jsonl")
    found = [json.loads(line) for line in done.out.splitlines()]
    assert [row["test"] for row in found] == [
        "pp8", "pp16", "pp32", "tg4", "pp8 @ d16", "pp16 @ d16", "pp32 @ d16", "tg4 @ d16",
    ]  # fmt: skip
    shallow, deep = found[3]["bytes_per_token"], found[7]["bytes_per_token"]
    # keys and values of 16 tokens, in 2 layers of 2 heads of 32 floats
    assert deep - shallow == 2 * 16 * 2 * 2 * 32 * 4


@pytest.mark.parametrize("model", ["llama", "moe", "mamba", "hybrid", "sliding", "quant"])
def test_batch_and_depth_of_every_kind(bench: Any, model: str) -> None:
    found = rows(bench(*QUICK, "-b", "1,3", "-d", "12", "-o", "json", model=model))
    assert [(row["test"], row["batch_size"]) for row in found] == [
        ("pp16 @ d12", 1), ("tg8 @ d12", 1), ("pp16 @ d12", 3), ("tg8 @ d12", 3),
    ]  # fmt: skip
    assert found[3]["bytes_per_token"] < found[1]["bytes_per_token"]  # a batch shares the weights


def test_quantized_caches(bench: Any) -> None:
    """From the first token on, and a token reads less of them."""
    found = rows(bench("-p", "0", "-n", "8", "-d", "64", "-r", "1", "--kv-bits", "none,8,4", "--kv-group-size", "32",
                       "-o", "json"))  # fmt: skip
    assert [row["kv_bits"] for row in found] == [None, 8, 4]
    sizes = [row["bytes_per_token"] for row in found]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 3


def test_markdown(bench: Any) -> None:
    """A table whose columns line up, with a column for what differs."""
    done = bench(*QUICK, "--kv-bits", "none,8", "--kv-group-size", "32")
    lines = done.out.splitlines()
    assert len(lines) == 6 and len(set(map(len, lines))) == 1, done.out
    heads = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert heads == ["model", "size", "params", "dtype", "device", "kv_bits", "test", "t/s", "ceiling"]
    assert " ± " in lines[2] and "pp16" in lines[2] and done.err == ""


def test_csv(bench: Any) -> None:
    done = bench(*QUICK, "-o", "csv")
    found = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["test"] for row in found] == ["pp16", "tg8"]
    assert float(found[0]["avg_ts"]) > 0 and found[0]["mlx_version"] and "samples_ns" not in found[0]


def test_no_end_token_ends_it(bench: Any) -> None:
    """The model would end its answer after a few tokens."""
    (row,) = rows(bench("-p", "0", "-n", "300", "-r", "1", "-o", "json", model="stopper"))
    assert row["samples_ts"][0] == pytest.approx(300e9 / row["samples_ns"][0], rel=1e-3)


def test_exercise(bench: Any) -> None:
    """Two rates side by side, and a sentence with their figures."""
    done = bench("--exercise", "-r", "4", "-o", "json")
    short, long = rows(done)
    assert (short["test"], long["test"]) == ("tg20", "tg200")
    words = " ".join(done.err.split())
    assert "Over 200 tokens the rate, beside that over 20," in words and "tok/s" in words
    growth = 100 * (long["bytes_per_token"] / short["bytes_per_token"] - 1)
    assert f"reads {growth:.1f} % more bytes" in words and growth > 5
    few = bench("--exercise", "-r", "1")
    assert "so few repetitions cannot tell" in few.err and "-r 4 can" in few.err


def test_explain(bench: Any) -> None:
    done = bench(*QUICK, "--explain", "-o", "json")
    generate = json.loads(done.out)[1]
    assert f"a token reads {generate['bytes_per_token'] / 1e6:.1f} MB" in done.err and "GB/s" in done.err


# Beside an earlier one


def base(mlxctl: Program, done: Any, **scale: float) -> str:
    """The bench as a file, some of its tests so many times as fast."""
    found = json.loads(done.out)
    for row in found:
        factor = scale.get(row["test"], 1.0)
        row["samples_ts"] = [value * factor for value in row["samples_ts"]]
    (mlxctl.cwd / "base.json").write_text(json.dumps(found))
    return "base.json"


def test_a_regression(bench: Any, mlxctl: Program) -> None:
    done = bench(*QUICK, "-r", "5", "-o", "json")
    slower = bench(*QUICK, "-r", "5", "--compare", base(mlxctl, done, pp16=50, tg8=50))
    assert slower.code == 11 and slower.err.count(": a regression (p = 0.0079)") == 2, slower.err
    assert slower.out.count("\n") == 4
    faster = bench(*QUICK, "-r", "5", "--compare", base(mlxctl, done, pp16=0.02, tg8=0.02))
    assert faster.code == 0 and faster.err.count("no regression") == 2


def test_an_earlier_bench_of_several_models(bench: Any, mlxctl: Program) -> None:
    """The same model's row is taken; what cannot be told apart is refused."""
    row = {"model_filename": "org/other", "n_prompt": 16, "n_gen": 0, "samples_ts": [1e9] * 5}
    (mlxctl.cwd / "two.jsonl").write_text(
        "\n".join(json.dumps({**row, "model_filename": name}) for name in ("org/other", "x/llama"))
    )
    done = bench("-p", "16", "-n", "0", "-r", "5", "--compare", "two.jsonl")
    assert done.code == 11 and "its model" not in done.err
    others = [json.dumps({**row, "model_filename": name}) for name in ("a", "b")]
    (mlxctl.cwd / "two.jsonl").write_text("\n".join(others))
    done = bench("-p", "16", "-n", "0", "-r", "5", "--compare", "two.jsonl")
    assert done.code == 2 and "pp16 2 times" in done.err


def test_too_few_repetitions(bench: Any, mlxctl: Program) -> None:
    done = bench(*QUICK, "-o", "json")
    again = bench(*QUICK, "--compare", base(mlxctl, done, pp16=50, tg8=50))
    assert again.code == 0 and again.err.count("too few repetitions to tell from noise (4 on each side)") == 2


def test_llama_bench_is_taken_too(bench: Any, mlxctl: Program) -> None:
    """Another program's rows, with fields that we do not have and without some that we have."""
    row = {"build_commit": "abc", "model_filename": "m.gguf", "n_prompt": 16, "n_gen": 0, "n_depth": 0,
           "samples_ns": [1] * 5, "samples_ts": [1e9, 1.1e9, 1.2e9, 1.3e9, 1.4e9]}  # fmt: skip
    (mlxctl.cwd / "their.json").write_text(json.dumps([row]))
    done = bench(*QUICK, "-r", "5", "--compare", "their.json")
    assert done.code == 11 and "its model is m.gguf, here it is llama" in done.err
    assert done.err.count("regression") == 1


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "[{}]", '[{"n_prompt": 16, "n_gen": 0, "samples_ts": []}]',
     '[{"n_prompt": 16, "n_gen": 0, "samples_ts": [0]}]',
     '[{"n_prompt": 16, "n_gen": 0, "samples_ts": ["x"]}]', "\xff"],
)  # fmt: skip
def test_a_base_that_is_none(mlxctl: Program, text: str) -> None:
    """Told before the model is loaded."""
    (mlxctl.cwd / "base.json").write_text(text, encoding="latin-1")
    done = mlxctl("bench", "--model", "./nowhere", *QUICK, "--compare", "base.json")
    assert (done.code, done.out) == (2, "") and "--compare base.json" in done.err
    assert len(done.err.splitlines()) == 1


# What cannot be


@pytest.mark.parametrize(
    "args",
    [
        ("-p", "x"), ("-p", "5-1"), ("-p", "0-8*2"), ("-p", "1-8*1"), ("-p", "1-8+0"), ("-p", "1-9999999"), ("-p", ""),
        ("-p", "-1"), ("-p", "0", "-n", "0"), ("-r", "0"), ("-b", "0"), ("--delay", "-1"), ("--kv-bits", "7"),
        ("--kv-bits", "none,x"), ("-b", "2", "--kv-bits", "8"), ("-o", "xml"), ("--compare", "nowhere.json"),
        ("a question",), ("--kv-bits", "8", "--kv-group-size", "128"),
    ],
)  # fmt: skip
def test_usage(bench: Any, args: tuple[str, ...]) -> None:
    done = bench(*QUICK, *args)
    assert (done.code, done.out) == (2, ""), done
    assert len(done.err.splitlines()) <= 2 and "Traceback" not in done.err


def test_no_model(mlxctl: Program) -> None:
    done = mlxctl("bench", "--model", "./nowhere", *QUICK, "-o", "json")
    assert (done.code, done.out) == (3, "") and "no such folder" in done.err


def test_a_draft_model_is_not_measured(bench: Any, mlxctl: Program, tiny: Tiny) -> None:
    (mlxctl.cwd / "drafting.toml").write_text(f'[model]\ndraft_model = "{tiny("llama-draft")}"\n')
    done = bench(*QUICK, "-P", "./drafting.toml")
    assert done.code == 2 and "--unset draft_model" in done.err
    assert bench(*QUICK, "-P", "./drafting.toml", "--unset", "draft_model").code == 0


def test_beyond_the_context(bench: Any) -> None:
    done = bench("-p", "8", "-n", "0", "-d", "2100", "-r", "1")
    assert done.code == 0 and "longer than the context of the model (2048 tokens)" in done.err


@pytest.mark.parametrize("form", ["json", "jsonl", "md"])
def test_interrupted(mlxctl: Program, tiny: Tiny, form: str) -> None:
    """What is done by then is written whole and kept; the status is that of the signal."""
    process = mlxctl.popen("bench", "--model", tiny("llama"), "-p", "16", "-n", "100000", "-r", "1", "-o", form,
                           "--no-warmup", stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    # The bandwidth is measured last before the tests, of which the first takes some milliseconds.
    measured = Path(mlxctl.env["XDG_CACHE_HOME"]) / "mlxctl" / "bandwidth.json"
    deadline = time.monotonic() + 60
    while not measured.exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    if form == "json":
        assert [row["test"] for row in json.loads(out)] == ["pp16"]
    (row,) = past.rows(mlxctl.env)
    assert [test["test"] for test in row["receipt"]["tests"]] == ["pp16"]


@pytest.mark.parametrize("where", ["/dev/full", "gone"])
def test_what_could_not_be_written_is_in_the_history(mlxctl: Program, tiny: Tiny, where: str) -> None:
    """An hour's measurements are not lost with their output."""
    args = ("bench", "--model", tiny("llama"), "-p", "8", "-n", "0", "-r", "1", "-o", "json")
    if where == "gone":
        process = mlxctl.popen(*args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 141
    else:
        with Path("/dev/full").open("w") as full:
            assert mlxctl.popen(*args, stdout=full, stderr=subprocess.DEVNULL).wait(60) == 6
    (row,) = past.rows(mlxctl.env)
    assert [test["test"] for test in row["receipt"]["tests"]] == ["pp8"]


def test_what_is_known_before_is_told_before(mlxctl: Program) -> None:
    """No model is loaded, nothing is measured for nothing."""
    row = {"n_prompt": 16, "n_gen": 0, "samples_ts": [1.0] * 5}
    (mlxctl.cwd / "twice.json").write_text(json.dumps([row, row]))
    (mlxctl.cwd / "other.json").write_text(json.dumps([{**row, "n_prompt": 99}]))
    (mlxctl.cwd / "wild.json").write_text(json.dumps([{**row, "samples_ts": [1e308] * 5}]))
    faults = {"twice.json": "several times", "other.json": "none of these tests", "wild.json": "json writes",
              "": "empty name"}  # fmt: skip
    for name, words in faults.items():
        done = mlxctl("bench", "--model", "./nowhere", "-p", "16", "-n", "0", "--compare", name)
        assert done.code == 2 and words in done.err, done
    assert mlxctl("bench", "--model", "./nowhere", "--delay", "nan").code == 2


def test_a_model_that_takes_no_batch(bench: Any) -> None:
    done = bench(*QUICK, "-b", "1,2", model="chunked")
    assert (done.code, done.out) == (2, "") and "--batch-size" in done.err and "put together" in done.err


def test_a_cache_that_is_never_quantized(bench: Any) -> None:
    quantized = ("--kv-bits", "8", "--kv-group-size", "32", "--quantized-kv-start", "500")
    done = bench("-p", "0", "-n", "8", "-r", "1", *quantized, "-o", "json")
    (row,) = rows(done)
    assert "tg8: nothing is quantized" in done.err
    assert (row["quantized_kv_start"], row["kv_group_size"]) == (500, 32)
