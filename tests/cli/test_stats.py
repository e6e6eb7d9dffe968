"""`mlxctl stats`: what runs leave, and what is made of it."""

import csv
import io
import json
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import past
import pytest
from conftest import REPO, Program

Tiny = Callable[[str], str]
GOLDEN = REPO / "tests" / "golden"
WORDS = "a question about violets"


# What a run leaves


def test_a_run_leaves_its_figures(mlxctl: Program, tiny: Tiny) -> None:
    """The record is the run object without its words, and tells where each setting came from."""
    done = mlxctl("run", "--model", tiny("llama"), WORDS, "-m", "9", "--temp", "0.5", "--format", "json",
                  env={"MLXCTL_TOP_K": "5"})  # fmt: skip
    said = json.loads(done.out)
    (row,) = past.rows(mlxctl.env)
    assert row["command"] == "run" and row["model"] == tiny("llama") and row["profile"] is None
    assert row["run"] == {name: value for name, value in said.items() if name not in ("text", "thinking")}
    settings = row["receipt"]["settings"]
    assert settings["sampler.temp"] == {"origin": "flag --temp", "value": 0.5}
    assert settings["sampler.top_k"] == {"origin": "variable MLXCTL_TOP_K", "value": 5}
    assert settings["sampler.top_p"] == {"origin": "default", "value": 1.0}
    assert row["receipt"]["prompt_hash"].startswith("sha256:")
    assert stat.S_IMODE(past.file(mlxctl.env).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "where", ["words", "-p", "stdin", "file", "system", "prefill", "messages", "stop", "template", "profile", "bias",
              "regex", "schema"]
)  # fmt: skip
def test_no_words_are_kept(mlxctl: Program, tiny: Tiny, where: str) -> None:
    """Neither of the prompt, wherever it came from, nor of the answer."""
    (mlxctl.cwd / "doc.txt").write_text(WORDS)
    (mlxctl.cwd / "m.json").write_text(json.dumps([{"role": "user", "content": WORDS}]))
    args, piped = {
        "words": ([WORDS], None),
        "-p": (["-p", WORDS], None),
        "stdin": (["-"], WORDS),
        "file": (["-f", "doc.txt"], None),
        "system": (["hi", "--system-prompt", WORDS], None),
        "prefill": (["hi", "--prefill-response", WORDS], None),
        "messages": (["--messages", "m.json"], None),
        "stop": (["hi", "--stop", WORDS, "--stop", "there"], None),
        "template": (["hi", "--chat-template-config", json.dumps({"note": WORDS})], None),
        "profile": (["hi", "-P", "./p.toml"], None),
        "bias": (["hi", "--logit-bias", "v=1", "--ban", "q"], None),
        "regex": (["hi", "--regex", f"({WORDS}|Hello there)"], None),
        "schema": (["hi", "--json-schema", json.dumps({"enum": [WORDS, "Hello there"]})], None),
    }[where]
    (mlxctl.cwd / "p.toml").write_text(f'[template]\nnote = "{WORDS}"\nshort = true\n')
    done = mlxctl("run", "--model", tiny("stopper"), *args, input=piped)
    assert done.code == 0, done.err
    data = b"".join(path.read_bytes() for path in past.file(mlxctl.env).parent.iterdir())
    assert WORDS.encode() not in data and b"violets" not in data
    assert b"Hello there" not in data and (b'"string":' not in data or where != "stop")


def test_words_are_kept_where_asked_for(mlxctl: Program, tiny: Tiny) -> None:
    (mlxctl.cwd / "kept.toml").write_text("[output]\nlog_text = true\n")
    args = ("run", "-P", "./kept.toml", "--model", tiny("stopper"), WORDS, "--system-prompt", "Be kind.")
    done = mlxctl(*args)
    (row,) = past.rows(mlxctl.env)
    assert row["run"]["text"] == done.out.rstrip("\n")
    assert row["receipt"]["messages"] == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": WORDS}]
    assert row["receipt"]["settings"]["prompt.system"]["value"] == "Be kind."
    assert len(row["receipt"]["ids"]) == row["run"]["timing"]["generation_tokens"]


def test_every_command_leaves_one(mlxctl: Program, tiny: Tiny) -> None:
    """A turn of a chat each, a prompt that is kept, a bench; generate, a dry run and a replay leave none."""
    model = ("--model", tiny("stopper"))
    assert mlxctl("run", *model, "hi").code == 0
    assert mlxctl("chat", *model, input="one\ntwo\n").code == 0
    assert mlxctl("cache", "save", "kept", *model, "Hello").code == 0
    assert mlxctl("bench", *model, "-p", "8", "-n", "4", "-r", "1").code == 0
    for silent in (("generate", *model), ("run", *model, "--dry-run", "hi"), ("stats", "replay", "1", "hi")):
        assert mlxctl(*silent).code == 0
    found = past.rows(mlxctl.env)
    assert [row["command"] for row in found] == ["run", "chat", "chat", "cache save", "bench"]
    saved, bench = found[3]["run"], found[4]["run"]
    assert saved["finish_reason"] is None and saved["timing"]["generation_tokens"] == 0
    assert saved["timing"]["prompt_tps"] > 0 and saved["timing"]["ttft_s"] is None and saved["timing"]["kv_bytes"] > 0
    assert bench["timing"]["prompt_tps"] is None
    assert [row["test"] for row in found[4]["receipt"]["tests"]] == ["pp8", "tg4"]


@pytest.mark.parametrize(
    ("flags", "env"), [(["--no-log"], {}), ([], {"MLXCTL_NO_LOG": "1"}), ([], {"MLXCTL_NO_LOG": "true"})]
)
def test_no_log(mlxctl: Program, tiny: Tiny, flags: list[str], env: dict[str, str]) -> None:
    model = ("--model", tiny("stopper"))
    assert mlxctl("run", *model, "hi", *flags, env=env).code == 0
    assert mlxctl("chat", *model, *flags, input="hi\n", env=env).code == 0
    assert mlxctl("cache", "save", "x", *model, "Hello", *flags, env=env).code == 0
    assert mlxctl("bench", *model, "-p", "8", "-n", "0", "-r", "1", *flags, env=env).code == 0
    assert not past.file(mlxctl.env).exists()
    assert mlxctl("run", *model, "hi", "--log", env={"MLXCTL_NO_LOG": "1"}).code == 0
    assert len(past.rows(mlxctl.env)) == 1


# Tables


@pytest.fixture
def history(mlxctl: Program) -> Program:
    """Three runs of one model with a profile, at 10, 20 and 30 tokens a second, and others beside them."""
    for number, rate in enumerate((10.0, 20.0, 30.0)):
        past.add(mlxctl.env, profile="review", generation_tps=rate, at=past.NOON + 60 * number, ceiling_tps=40.0,
                 reason="length" if number == 2 else "stop", cached_tokens=30 * number)  # fmt: skip
    past.add(mlxctl.env, model="org/two", generation_tps=None, generation_tokens=1, decode_s=None, at=past.NOON + 3600)
    past.add(mlxctl.env, command="cache save", model="org/two", reason=None, generation_tps=None, generation_tokens=0,
             ttft_s=None, decode_s=None, ceiling_tps=None, bytes_per_token=None, at=past.NOON + 7200)  # fmt: skip
    return mlxctl


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv", "markdown"])
@pytest.mark.parametrize("kind", ["groups", "runs"])
def test_golden(history: Program, kind: str, form: str) -> None:
    """Every format, as it was looked at: the middle of 10, 20, 30 is 20, 5 % of the way from 10 to 30 is 11."""
    flags = ["--runs"] if kind == "runs" else []
    done = history("stats", *flags, "--format", form, env={"TZ": "UTC"})
    assert (done.code, done.err) == (0, "")
    assert done.out == (GOLDEN / f"stats-{kind}.{form}").read_text(encoding="utf-8")


def test_sums_by_hand(history: Program) -> None:
    groups = json.loads(history("stats", "--format", "json").out)["groups"]
    one, two = groups
    assert (one["model"], one["profile"], one["runs"]) == ("org/one", "review", 3)
    assert [one[f"generation_tps_{part}"] for part in ("median", "p5", "p95")] == [20.0, 11.0, 29.0]
    assert one["finish_reasons"] == {"length": 1, "stop": 2}
    assert one["cached_share"] == 0.3 and one["ceiling_share"] == 0.5
    assert (two["runs"], two["generation_tps_median"], two["ceiling_share"]) == (2, None, None)
    assert (two["ttft_s_median"], two["ttft_s_p5"]) == (0.5, None)


def test_formats_agree(history: Program) -> None:
    """What reads CSV or JSONL finds the same figures as what reads JSON."""
    whole = json.loads(history("stats", "--format", "json").out)["groups"]
    lines = [json.loads(line) for line in history("stats", "--format", "jsonl").out.splitlines()]
    table = list(csv.DictReader(io.StringIO(history("stats", "--format", "csv").out)))
    assert lines == whole
    for row, group in zip(table, whole, strict=True):
        for name, value in group.items():
            if name != "finish_reasons":
                assert row[name] == ("" if value is None else str(value)), name
        assert row["finish_stop"] == str(group["finish_reasons"].get("stop", 0))


@pytest.mark.parametrize(
    ("flags", "ids"),
    [
        (["--model", "TWO"], [4, 5]),
        (["--profile", "review"], [1, 2, 3]),
        (["--last", "2"], [4, 5]),
        (["--model", "one", "--last", "1"], [3]),
        (["--since", "2026-06-01T13:00:00+00:00"], [4, 5]),
        (["--since", "1s"], []),
        (["--model", "100%"], []),
    ],
)
def test_filters(history: Program, flags: list[str], ids: list[int]) -> None:
    found = json.loads(history("stats", "--runs", "--format", "json", *flags).out)["runs"]
    assert [run["id"] for run in found] == ids


def test_nothing_yet(mlxctl: Program) -> None:
    """No history is no error, and looking makes none."""
    done = mlxctl("stats")
    assert done.code == 0 and "no runs yet" in done.err
    assert json.loads(mlxctl("stats", "--format", "json").out) == {"schema": "mlxctl.stats/1", "groups": []}
    assert mlxctl("stats", "--format", "csv").out.startswith("model,profile,runs,")
    assert mlxctl("stats", "--format", "jsonl").out == ""
    assert mlxctl("stats", "show").code == 2
    assert not past.file(mlxctl.env).parent.exists()


@pytest.mark.parametrize(
    "args",
    [
        ("--format", "xml"), ("--last", "0"), ("--since", "yesterday"), ("--since", "2026-13-01"), ("shw",),
        ("show", "x"), ("show", "99"), ("show", "1", "2"), ("--last", "3", "show"), ("compare", "1"),
        ("compare", "1", "nobody"), ("compare", "1-3", "2"), ("prune",), ("prune", "--older-than", "soon"),
        ("replay",), ("replay", "99"), ("--last", "9" * 20),
        ("show", "9" * 20), ("prune", "--keep", "9" * 20),
        ("plot", "-o", "a.pdf"), ("plot", "-o", "no/folder/a.png"), ("plot", "-o", "/"),
    ],
)  # fmt: skip
def test_usage(history: Program, args: tuple[str, ...]) -> None:
    done = history("stats", *args)
    assert (done.code, done.out) == (2, ""), done
    assert len(done.err.splitlines()) <= 2 and "Traceback" not in done.err


# One run


def test_show(history: Program) -> None:
    """A receipt: figures, settings with their origins, and not the words that were not kept."""
    text = history("stats", "show", "1").out
    rows = {line[:24].rstrip(): line[24:] for line in text.splitlines()}
    assert rows["run"].startswith("1, run, ") and rows["seed"] == "7"
    assert rows["model.path"] == '"org/one"  [flag --model]'
    assert rows["prompt.system"] == "(its words were not kept)  [/p/review.toml:4]"
    assert "sampler.temp" not in rows and rows["share of the ceiling"] == "25 %"
    assert "sampler.temp" in history("stats", "show", "1", "--all").out
    whole = json.loads(history("stats", "show", "1", "--format", "json").out)
    assert whole["receipt"]["prompt_hash"] == "sha256:aa" and whole["timing"]["generation_tps"] == 10.0
    assert json.loads(history("stats", "show", "--format", "json").out)["id"] == 5


def test_show_a_bench(mlxctl: Program, tiny: Tiny) -> None:
    """Its tests stand there, with a spread where there is one."""
    for repetitions in ("1", "2"):
        assert mlxctl("bench", "--model", tiny("llama"), "-p", "8", "-n", "0", "-r", repetitions).code == 0
        done = mlxctl("stats", "show")
        (line,) = [line for line in done.out.splitlines() if line.startswith("test ")]
        assert done.code == 0 and "pp8: " in line and ("±" in line) == (repetitions == "2")


# Again


@pytest.fixture
def sampled(mlxctl: Program, tiny: Tiny) -> Program:
    """A run with a temperature, a seed that nobody chose, and a system prompt."""
    done = mlxctl("run", "--model", tiny("llama"), WORDS, "--system-prompt", "Be kind.", "--temp", "0.9", "-m", "12")
    assert done.code == 0, done.err
    return mlxctl


def test_replay(sampled: Program) -> None:
    done = sampled("stats", "replay", "1", WORDS, "--system-prompt", "Be kind.")
    assert (done.code, done.out) == (0, "run 1: the same 12 tokens\n"), done.err


def test_replay_of_kept_words(mlxctl: Program, tiny: Tiny) -> None:
    """Nothing needs to be given again; a chat's turns, too."""
    model = ("--model", tiny("llama"), "--log-text", "-m", "6", "--temp", "0.8")
    assert mlxctl("run", *model, WORDS, "-", input="a document").code == 0
    assert mlxctl("chat", *model, input="one\ntwo\n").code == 0
    for number in range(1, len(past.rows(mlxctl.env)) + 1):
        done = mlxctl("stats", "replay", str(number), "--format", "json")
        assert done.code == 0, done.err
        assert json.loads(done.out) == {"schema": "mlxctl.replay/1", "id": number, "same": True, "tokens": 6,
                                        "tokens_then": 6, "first_difference": None}  # fmt: skip


def test_replay_from_another_folder(mlxctl: Program, tiny: Tiny) -> None:
    """Names that were meant from where the run was are found from anywhere."""
    (mlxctl.cwd / "model").symlink_to(tiny("llama"))
    (mlxctl.cwd / "doc.txt").write_text("a document")
    assert mlxctl("run", "--model", "./model", "-f", "doc.txt", "hi", "-m", "5").code == 0
    (mlxctl.cwd / "elsewhere").mkdir()
    mlxctl.cwd = mlxctl.cwd / "elsewhere"
    done = mlxctl("stats", "replay", "1", "hi")
    assert (done.code, done.out) == (0, "run 1: the same 5 tokens\n"), done.err


def test_replay_asks_for_all_that_was_not_kept(mlxctl: Program, tiny: Tiny) -> None:
    config = json.dumps({"note": WORDS})
    flags = ("--stop", "zzz", "--chat-template-config", config)
    assert mlxctl("run", "--model", tiny("stopper"), "hi", *flags).code == 0
    done = mlxctl("stats", "replay", "1", "hi")
    assert done.code == 2 and "--stop" in done.err and "--chat-template-config" in done.err
    assert mlxctl("stats", "replay", "1", "hi", *flags).code == 0


def test_replay_of_another_prompt(sampled: Program) -> None:
    for args in ([WORDS], ["another question", "--system-prompt", "Be kind."], []):
        done = sampled("stats", "replay", "1", *args)
        assert (done.code, done.out) == (2, ""), done
    assert "not the prompt of run 1" in sampled("stats", "replay", "1", "x", "--system-prompt", "Be kind.").err


def test_replay_that_differs(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """The model's files were changed since: it says so, says from which token on, and exits with 11."""
    import shutil

    folder = tmp_path / "model"
    shutil.copytree(tiny("llama"), folder)
    mlxctl("run", "--model", str(folder), WORDS, "-m", "12", "--log-text", "--temp", "0")
    shutil.copytree(tiny("llama-draft"), folder, dirs_exist_ok=True)
    done = mlxctl("stats", "replay", "1")
    assert done.code == 11 and "run 1: other tokens, from token " in done.out
    assert "the model's files are others" in done.err


def test_replay_of_what_has_no_answer(history: Program) -> None:
    done = history("stats", "replay", "5", "hi")
    assert (done.code, done.out) == (2, "") and "cache save" in done.err


# Side by side


def test_compare(mlxctl: Program) -> None:
    """Ten against eleven is a difference, the same figures are none, and three runs are too few."""
    for rate in (10.0, 10.1, 9.9, 10.2, 11.0, 11.1, 10.9, 11.2):
        past.add(mlxctl.env, generation_tps=rate, profile="slow" if rate < 10.5 else "fast")
    report = json.loads(mlxctl("stats", "compare", "slow", "fast", "--format", "json").out)
    rate = report["measures"]["generation_tps"]
    assert (rate["a"], rate["b"], rate["more_than_noise"]) == (10.05, 11.05, True)
    assert rate["p"] == pytest.approx(2 / 70) and rate["change"] == pytest.approx(11.05 / 10.05 - 1)
    assert report["measures"]["prompt_tps"]["more_than_noise"] is False and report["measures"]["prompt_tps"]["p"] == 1
    few = json.loads(mlxctl("stats", "compare", "1-3", "5,6,8", "--format", "json").out)
    assert few["a"] == {"of": "1-3", "runs": 3} and few["measures"]["generation_tps"]["more_than_noise"] is None
    text = mlxctl("stats", "compare", "slow", "fast").out
    assert "more than noise (p = 0.029)" in text and "+10.0 %" in text
    assert "too few runs to tell: 4 on each side" in mlxctl("stats", "compare", "1", "5").out
    assert mlxctl("stats", "compare", "slow", "fast", "--format", "markdown").out.count("|") == 6 * 7


# Charts


def test_plot_in_text(history: Program) -> None:
    done = history("stats", "plot", env={"TZ": "UTC"})
    assert (done.code, done.err) == (0, "") and "\x1b" not in done.out
    for words in ("Rate against context length", "context at the end, tokens", "generation, tokens/s", "Rate over time",
                  "org/one (review)", "12:00:00", "12:02:00"):  # fmt: skip
        assert words in done.out, words
    assert max(map(len, done.out.splitlines())) <= 100
    inside = [line for line in done.out.splitlines() if "│" in line and "org/one" not in line]
    assert "".join(inside).count("o") == 6  # three runs on two charts


def test_plot_as_svg(history: Program) -> None:
    """Axes, units and a legend, as text that can be read."""
    done = history("stats", "plot", "-o", "rates.svg")
    assert done.code == 0, done.err
    text = (history.cwd / "rates.svg").read_text(encoding="utf-8")
    for words in ("Rate against context length", "context at the end, tokens", "generation, tokens/s", "Rate over time",
                  "org/one (review)", "when"):  # fmt: skip
        assert f">{words}</text>" in text, words


def test_plot_as_png(history: Program) -> None:
    (history.cwd / "rates.png").write_bytes(b"an older one")
    assert history("stats", "plot", "-o", "rates.png").code == 0
    data = (history.cwd / "rates.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n") and len(data) > 10_000
    assert [path.name for path in history.cwd.glob("*rates*")] == ["rates.png"]


def test_plot_of_nothing(mlxctl: Program) -> None:
    done = mlxctl("stats", "plot", "-o", "x.png")
    assert (done.code, done.out) == (2, "") and not (mlxctl.cwd / "x.png").exists()


# Removing


@pytest.mark.parametrize(
    ("flags", "left"),
    [(["--keep", "2"], [4, 5]), (["--keep", "0"], []), (["--older-than", "1s"], []), (["--older-than", "9999w"], None)],
)
def test_prune(history: Program, flags: list[str], left: list[int] | None) -> None:
    done = history("stats", "prune", *flags)
    left = [1, 2, 3, 4, 5] if left is None else left
    assert done.code == 0 and f"removed {5 - len(left)} run" in done.err
    assert [row["id"] for row in past.rows(history.env)] == left
    assert history("stats", "show", "1").code == (0 if 1 in left else 2)
    after = past.add(history.env)
    assert after == 6  # a number is never given twice


def test_pruned_words_are_gone(mlxctl: Program, tiny: Tiny) -> None:
    assert mlxctl("run", "--model", tiny("stopper"), "--log-text", WORDS).code == 0
    assert mlxctl("stats", "prune", "--keep", "0").code == 0
    assert not any(b"violets" in path.read_bytes() for path in past.file(mlxctl.env).parent.iterdir())


def test_pruning_while_somebody_reads_is_told(mlxctl: Program, tiny: Tiny) -> None:
    """What was removed may still be in the file then; once more, and it is gone."""
    assert mlxctl("run", "--model", tiny("stopper"), "--log-text", WORDS).code == 0
    reader = sqlite3.connect(past.file(mlxctl.env), isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM runs").fetchone()
    done = mlxctl("stats", "prune", "--keep", "0")
    assert done.code == 6 and "removed 1 run" in done.err and "still" in done.err, done
    reader.execute("ROLLBACK")
    reader.close()
    assert mlxctl("stats", "prune", "--keep", "0").code == 0
    assert not any(b"violets" in path.read_bytes() for path in past.file(mlxctl.env).parent.iterdir())


def test_a_history_that_others_could_read_is_closed_to_them(mlxctl: Program, tiny: Tiny) -> None:
    past.add(mlxctl.env)
    past.file(mlxctl.env).chmod(0o644)
    assert mlxctl("run", "--model", tiny("stopper"), "hi").code == 0
    assert stat.S_IMODE(past.file(mlxctl.env).stat().st_mode) == 0o600


def test_many_numbers(history: Program) -> None:
    """Ranges are not counted out."""
    done = history("stats", "compare", "2-999999999", "1", "--format", "json")
    assert done.code == 0 and json.loads(done.out)["a"]["runs"] == 4
    assert history("stats", "compare", ",".join(["9"] * 101), "1").code == 2


# The ceiling


def test_ceiling_comes_with_bench(mlxctl: Program, tiny: Tiny) -> None:
    """Nothing is invented: before the bandwidth is measured there is none, after that it is in every run."""
    args = ("run", "--model", tiny("llama"), "hi", "-m", "9", "--format", "json", "--stats")
    before = mlxctl(*args)
    timing = json.loads(before.out)["timing"]
    assert timing["ceiling_tps"] is None and timing["bytes_per_token"] > 500_000 and "ceiling" not in before.err
    assert "not measured here yet" in mlxctl("stats", "--explain").out
    assert mlxctl("bench", "--model", tiny("llama"), "-p", "0", "-n", "4", "-r", "1").code == 0
    kept = json.loads((Path(mlxctl.env["XDG_CACHE_HOME"]) / "mlxctl" / "bandwidth.json").read_text())
    (measured,) = kept.values()
    after = mlxctl(*args)
    timing = json.loads(after.out)["timing"]
    assert timing["ceiling_tps"] == pytest.approx(measured["bytes_per_s"] / timing["bytes_per_token"])
    assert " % of the ceiling)" in after.err
    assert f"{measured['bytes_per_s'] / 1e9:.1f} GB/s" in " ".join(mlxctl("stats", "--explain").out.split())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 1}', '{"x": {"bytes_per_s": -1, "at": 0}}', "\xff"])
def test_a_damaged_bandwidth(mlxctl: Program, tiny: Tiny, text: str) -> None:
    """It is as if it had not been measured, and is measured anew."""
    file = Path(mlxctl.env["XDG_CACHE_HOME"]) / "mlxctl" / "bandwidth.json"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="latin-1")
    done = mlxctl("run", "--model", tiny("stopper"), "hi", "--format", "json")
    assert done.code == 0 and json.loads(done.out)["timing"]["ceiling_tps"] is None
    assert mlxctl("bench", "--model", tiny("stopper"), "-p", "0", "-n", "4", "-r", "1").code == 0
    assert json.loads(file.read_text())


# Damage


def damaged(mlxctl: Program, how: str) -> None:
    file = past.file(mlxctl.env)
    if how == "folder":
        file.mkdir(parents=True)
        return
    past.add(mlxctl.env)
    if how == "not a database":
        file.write_bytes(b"hello, this is no database at all" * 100)
    elif how == "cut":
        file.write_bytes(file.read_bytes()[:5000])
    elif how == "later":
        with sqlite3.connect(file) as db:
            db.execute("PRAGMA user_version = 99")
    elif how == "another's table":
        with sqlite3.connect(file) as db:
            db.execute("ALTER TABLE runs DROP COLUMN receipt")
    db.close() if how in ("later", "another's table") else None


@pytest.mark.parametrize("how", ["not a database", "cut", "later", "folder"])
def test_nothing_is_pruned_of_a_damaged_history(mlxctl: Program, how: str) -> None:
    damaged(mlxctl, how)
    file = past.file(mlxctl.env)
    before = file.read_bytes() if file.is_file() else b""
    done = mlxctl("stats", "prune", "--keep", "0")
    assert (done.code, done.out) == (6, "") and "history.db" in done.err
    assert not file.is_file() or file.read_bytes() == before


HOW = ["not a database", "cut", "later", "another's table", "folder"]


@pytest.mark.parametrize("how", HOW)
def test_a_damaged_history_fails_no_run(mlxctl: Program, tiny: Tiny, how: str) -> None:
    damaged(mlxctl, how)
    done = mlxctl("run", "--model", tiny("stopper"), "hi")
    assert (done.code, done.out) == (0, "Hello there, wörld 🙂!\n")
    lines = [line for line in done.err.splitlines() if "the history does not have this run" in line]
    assert len(lines) == 1 and "Traceback" not in done.err, done.err


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("args", [(), ("--runs",), ("show",), ("plot",)])
def test_a_damaged_history_is_told(mlxctl: Program, how: str, args: tuple[str, ...]) -> None:
    damaged(mlxctl, how)
    done = mlxctl("stats", *args)
    assert (done.code, done.out) == (6, ""), done
    assert 1 <= len(done.err.splitlines()) <= 2 and "history.db" in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    ("column", "value"),
    [("run", "{"), ("run", "{}"), ("run", "[]"), ("receipt", "null"), ("receipt", b"\xff"), ("model", b"\xff\x00"),
     ("at", "noon"), ("at", 9e999), ("at", 1e18), ("at", -1e12)],
)  # fmt: skip
def test_a_damaged_record(mlxctl: Program, column: str, value: Any) -> None:
    past.add(mlxctl.env)
    with sqlite3.connect(past.file(mlxctl.env)) as db:
        db.execute(f"UPDATE runs SET {column} = ?", (value,))  # noqa: S608
    db.close()
    done = mlxctl("stats", "--runs")
    assert (done.code, done.out) == (6, "") and "run 1 is damaged" in done.err, done
    doctor = mlxctl("doctor", "--format", "json")
    (row,) = [row for row in json.loads(doctor.out)["rows"] if row["check"] == "history"]
    assert row["state"] == "fail" and row["mend"]


@pytest.mark.parametrize(
    ("path", "value"),
    [("$.timing.generation_tps", 1e308), ("$.timing.prompt_tps", -5), ("$.timing.load_s", "soon"), ("$.model", None)],
)
def test_figures_that_no_run_had(mlxctl: Program, path: str, value: Any) -> None:
    past.add(mlxctl.env)
    with sqlite3.connect(past.file(mlxctl.env)) as db:
        db.execute("UPDATE runs SET run = json_set(run, ?, ?)", (path, value))
    db.close()
    for args in ((), ("plot",), ("show",)):
        done = mlxctl("stats", *args)
        assert (done.code, done.out) == (6, "") and "run 1 is damaged" in done.err, done


def test_names_that_are_cut_alike_stay_apart(mlxctl: Program) -> None:
    """Two models are two series, and two rows that differ, however long their names."""
    for end in ("aaa", "bbb"):
        past.add(mlxctl.env, model=f"long/{'d' * 150}/{end}")
    assert mlxctl("stats", "plot", "-o", "x.svg").code == 0
    text = (mlxctl.cwd / "x.svg").read_text(encoding="utf-8")
    assert text.count("/aaa</text>") == 2 == text.count("/bbb</text>")
    rows = mlxctl("stats").out.splitlines()[1:]
    assert "/aaa" in rows[0] and "/bbb" in rows[1]


def test_replay_of_a_run_from_a_cache_says_what_is_missing(mlxctl: Program, tiny: Tiny) -> None:
    assert mlxctl("cache", "save", "k1", "--model", tiny("llama"), "hello there").code == 0
    assert mlxctl("run", "--model", tiny("llama"), "--cache", "k1", "my friend", "-m", "4").code == 0
    done = mlxctl("stats", "replay", "2", "my friend")
    assert done.code == 2 and "cache k1" in done.err and "--messages" in done.err


def test_replay_with_other_words_than_then(mlxctl: Program, tiny: Tiny) -> None:
    """A stop text is not part of the prompt: that it may be another is said beside the verdict."""
    assert mlxctl("run", "--model", tiny("stopper"), "hi", "--stop", "there").code == 0
    done = mlxctl("stats", "replay", "1", "hi", "--stop", "wör")
    assert done.code == 11 and "nothing tells whether --stop was the same" in done.err
