"""`mlxctl run --batch`: many prompts, answered together as each would be alone."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import past
import pytest
from conftest import Program

from mlxctl import Engine, Settings
from mlxctl.events import Done
from mlxctl.settings import Generation, Logits, Model

Tiny = Callable[[str], str]
LINE = "the rain in the morning was light and then the sun came out over the hills and the river"
GREEDY = ("--temp", "0", "-m", "12")


def records(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def batch(mlxctl: Program, tiny: Tiny) -> Callable[..., Any]:
    """Runs lines through a model; returns what came out."""

    def one(lines: str, *args: str, model: str = "llama", **kwargs: Any) -> Any:
        (mlxctl.cwd / "in.jsonl").write_text(lines)
        return mlxctl("run", "--model", tiny(model), "--batch", "in.jsonl", *args, **kwargs)

    return one


def prompts(count: int) -> list[str]:
    """Of all lengths, and with nothing in common."""
    words, lengths = LINE.split(), [1 + number % 13 for number in range(count)]
    starts = [number * 7 for number in range(count)]
    return [" ".join(words[(start + step) % len(words)] for step in range(length))
            for start, length in zip(starts, lengths, strict=True)]  # fmt: skip


# The same answers


@pytest.mark.parametrize("kind", ["llama", "moe", "mamba", "hybrid", "sliding"])
def test_as_single_runs(kind: str, batch: Callable[..., Any], tiny: Tiny) -> None:
    """64 prompts at temperature 0, token for token."""
    asked = prompts(64)
    done = batch("\n".join(asked), *GREEDY, "--batch-size", "7", model=kind)
    assert done.code == 0, done.err
    engine = Engine.load(Settings(model=Model(path=tiny(kind)), generation=Generation(max_tokens=12)))
    for record, prompt in zip(records(done.out), asked, strict=True):
        *_, single = engine.stream([{"role": "user", "content": prompt}])
        assert isinstance(single, Done)
        assert (record["text"], record["thinking"]) == (single.text, single.thinking), prompt
        assert record["stop"] == single.stop
        assert record["timing"]["generation_tokens"] == single.timing.generation_tokens
        assert record["timing"]["prompt_tokens"] == single.timing.prompt_tokens


@pytest.mark.parametrize("kind", ["llama", "hybrid", "sliding"])
def test_long_prompts_in_pieces(kind: str, batch: Callable[..., Any], tiny: Tiny) -> None:
    """Read sixteen tokens at a time, beyond every window, beside short ones."""
    asked = [" ".join([LINE] * count) for count in (1, 5, 2, 8)] + ["hi"]
    done = batch("\n".join(asked), *GREEDY, "--prefill-step-size", "16", model=kind)
    assert done.code == 0, done.err
    made = Settings(model=Model(path=tiny(kind)), generation=Generation(max_tokens=12, prefill_step_size=16))
    engine = Engine.load(made)
    for record, prompt in zip(records(done.out), asked, strict=True):
        *_, single = engine.stream([{"role": "user", "content": prompt}])
        assert isinstance(single, Done) and record["text"] == single.text, prompt[:40]


@pytest.mark.parametrize("kind", ["llama", "chunked", "pairs"])
def test_a_shared_beginning_is_read_once(kind: str, batch: Callable[..., Any], tiny: Tiny, mlxctl: Program) -> None:
    """And nothing of the answers depends on it; where caches cannot be joined, it is read with each."""
    (mlxctl.cwd / "doc.txt").write_text("The rain in the morning was light. " * 8)
    done = batch("\n".join(prompts(9)), *GREEDY, "-f", "doc.txt", "--system-prompt", "Be brief.", model=kind)
    assert done.code == 0, done.err
    for record, prompt in zip(records(done.out), prompts(9), strict=True):
        single = mlxctl("run", "--model", tiny(kind), *GREEDY, "-f", "doc.txt", "--system-prompt", "Be brief.", prompt,
                        "--format", "json")  # fmt: skip
        assert json.loads(single.out)["text"] == record["text"]
        assert record["timing"]["cached_tokens"] > 100 or kind != "llama"


def test_settings_of_a_line(batch: Callable[..., Any], tiny: Tiny) -> None:
    """Penalties, bans, stop texts, limits and a grammar of one line are its alone."""
    lines = [
        {"prompt": "hi there", "repetition_penalty": 1.5},
        {"prompt": "hi there", "logits.ban": ["D"], "max_tokens": 7},
        {"prompt": "hi there", "stop": ["e"]},
        {"prompt": "hi there", "regex": "[ab]{5}"},
        {"prompt": "hi there"},
    ]
    done = batch("\n".join(map(json.dumps, lines)), *GREEDY)
    found = records(done.out)
    engine = Engine.load(Settings(model=Model(path=tiny("llama"))))
    settings = [
        {"logits": Logits(repetition_penalty=1.5)},
        {"logits": Logits(ban=["D"]), "generation": Generation(max_tokens=7)},
        {"generation": Generation(max_tokens=12, stop=["e"])},
        {"generation": Generation(max_tokens=12, regex="[ab]{5}")},
        {},
    ]
    for record, sections in zip(found, settings, strict=True):
        made = Settings(**{"model": Model(path=tiny("llama")), "generation": Generation(max_tokens=12), **sections})
        *_, single = engine.stream([{"role": "user", "content": "hi there"}], settings=made)
        assert isinstance(single, Done)
        assert (record["text"], record["stop"]) == (single.text, single.stop)
    assert len({record["text"] for record in found}) > 3 and found[3]["stop"] == {"kind": "grammar"}


@pytest.mark.parametrize(
    "args", [("--kv-bits", "8", "--kv-group-size", "32", "--quantized-kv-start", "0"), ("--draft",)]
)
def test_one_after_the_other_where_it_must_be(args: tuple[str, ...], batch: Callable[..., Any], tiny: Tiny) -> None:
    args = ("--draft-model", tiny("llama-draft")) if args == ("--draft",) else args
    done = batch("one\ntwo\n", *GREEDY, *args)
    assert done.code == 0 and "one after the other" in done.err
    assert [record["id"] for record in records(done.out)] == [1, 2]


# Lines


def test_bad_lines_are_records(batch: Callable[..., Any]) -> None:
    """Each is told in its place, and the batch goes on; the status is that of the first."""
    lines = ["good", "{bad", '{"prompt": 5}', '{"id": "a", "prompt": "x", "tmp": 1}', '{"id": [], "prompt": "x"}',
             '{"prompt": "x", "messages": []}', '{"messages": [{"role": "user"}]}', '{"messages": []}',
             '{"prompt": "x", "temp": -1}', '{"prompt": "x", "model": "y"}', '{"prompt": "x", "seed": 1}',
             '{"prompt": "x", "regex": "("}', '{"prompt": " "}', '"\\u00fcber"', "also good", "[1]"]  # fmt: skip
    done = batch("\n".join(lines), *GREEDY)
    found = records(done.out)
    assert done.code == 2 and [record["line"] for record in found] == list(range(1, 17))
    good = [1, 14, 15, 16]
    for record in found:
        assert ("error" in record) != (record["line"] in good), record
        if "error" in record:
            assert record["exit_status"] == 2 and "\n" not in record["error"]
    assert "did you mean temp" in found[3]["error"] and found[3]["id"] == "a"
    assert "only the whole batch" in found[9]["error"] and "only the whole batch" in found[10]["error"]
    assert "Traceback" not in done.err


def test_messages_and_empty_lines(batch: Callable[..., Any], mlxctl: Program, tiny: Tiny) -> None:
    said = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ]
    done = batch("\n\n" + json.dumps({"id": "talk", "messages": said}) + "\r\n\n", *GREEDY)
    (record,) = records(done.out)
    (mlxctl.cwd / "m.json").write_text(json.dumps(said))
    single = mlxctl("run", "--model", tiny("llama"), "--messages", "m.json", *GREEDY, "--format", "json")
    assert record["text"] == json.loads(single.out)["text"] and (record["id"], record["line"]) == ("talk", 3)


def test_the_prompt_template_goes_with_each(batch: Callable[..., Any], mlxctl: Program, tiny: Tiny) -> None:
    done = batch("one\ntwo", *GREEDY, "--prompt-template", "Say {prompt}!")
    single = mlxctl("run", "--model", tiny("llama"), *GREEDY, "Say two!")
    assert records(done.out)[1]["text"] + "\n" == single.out


def test_stdin_and_a_file(mlxctl: Program, tiny: Tiny) -> None:
    done = mlxctl("run", "--model", tiny("stopper"), "--batch", "-", "--output", "out.jsonl", input="one\ntwo\n")
    assert (done.code, done.out) == (0, "")
    assert len(records((mlxctl.cwd / "out.jsonl").read_text())) == 2


@pytest.mark.parametrize(
    ("lines", "args"),
    [
        ("", ()), ("\n \n", ()), ('{"id":1,"prompt":"a"}\n{"id":1,"prompt":"b"}', ()), ("a", ("a question",)),
        ("a", ("-p", "x")), ("a", ("--format", "json")), ("a", ("--extract",)), ("a", ("--dry-run",)),
        ("a", ("--cache", "x")), ("a", ("--batch-size", "0")), ("a", ("--save-profile", "x")),
        ("a", ("--top-logprobs", "2", "--format", "jsonl")), ("a", ("--prompt-template", "{stdin} {prompt}")),
        ("a", ("--prompt-template", "{nothing} {prompt}")), ("a", ("--param", "x=1")), ("a", ("--resume", "in.jsonl")),
        ("a", ("--escapes",)), ("a", ("--output", "-")),
    ],
)  # fmt: skip
def test_usage(lines: str, args: tuple[str, ...], batch: Callable[..., Any]) -> None:
    done = batch(lines, *args)
    assert (done.code, done.out) == (2, ""), done
    assert len(done.err.splitlines()) <= 2


def test_flags_without_a_batch(mlxctl: Program) -> None:
    for args in (("--resume", "x"), ("--as-completed",), ("--batch-size", "2")):
        assert mlxctl("run", "--model", "./nowhere", "hi", *args).code == 2
    assert mlxctl("run", "--model", "./nowhere", "--batch", "missing.jsonl").code == 2


# Order, and going on


def test_as_completed(batch: Callable[..., Any]) -> None:
    """The short one comes first, with its id; without the flag it waits."""
    lines = '{"id": "long", "prompt": "a", "max_tokens": 200}\n{"id": "short", "prompt": "b", "max_tokens": 2}'
    assert [record["id"] for record in records(batch(lines).out)] == ["long", "short"]
    assert [record["id"] for record in records(batch(lines, "--as-completed").out)] == ["short", "long"]


def test_resume(batch: Callable[..., Any], mlxctl: Program, tiny: Tiny) -> None:
    """Finished lines are left out; errors, interrupted ones and half a line count for nothing."""
    done = batch("one\ntwo\nthree\nfour", *GREEDY)
    whole = done.out.splitlines()
    cut = json.dumps({**json.loads(whole[2]), "finish_reason": "interrupted"})
    (mlxctl.cwd / "out.jsonl").write_text("\n".join([whole[0], cut, '{"id": 2, "error": "x"}', whole[3][:40]]))
    again = batch("one\ntwo\nthree\nfour", *GREEDY, "--resume", "out.jsonl")
    assert [record["id"] for record in records(again.out)] == [2, 3, 4] and "1 of 4 lines are answered" in again.err
    assert [record["text"] for record in records(again.out)] == [json.loads(line)["text"] for line in whole[1:]]
    with (mlxctl.cwd / "out.jsonl").open("ab") as out:  # as in >> out.jsonl
        process = mlxctl.popen("run", "--model", tiny("llama"), "--batch", "in.jsonl", *GREEDY, "--resume", "out.jsonl",
                               stdout=out, stderr=subprocess.DEVNULL)  # fmt: skip
        assert process.wait(120) == 0
    lines = (mlxctl.cwd / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines[4:]] == [2, 3, 4]  # half a line was not gone on with
    last = batch("one\ntwo\nthree\nfour", *GREEDY, "--resume", "out.jsonl")
    assert (last.code, last.out) == (0, "") and "4 of 4" in last.err
    assert batch("one", *GREEDY, "--resume", "not there").code == 0


def test_every_answer_is_in_the_history(batch: Callable[..., Any], mlxctl: Program) -> None:
    batch("one\ntwo\n{bad", *GREEDY)
    rows = past.rows(mlxctl.env)
    assert [row["command"] for row in rows] == ["batch", "batch"]
    assert all(row["run"]["timing"]["prompt_tps"] is None and row["run"]["timing"]["kv_bytes"] > 0 for row in rows)


def test_interrupted(mlxctl: Program, tiny: Tiny) -> None:
    """What is under way is finished and written, nothing more is begun; a second signal ends it at once."""
    lines = "\n".join(json.dumps({"prompt": f"p{number}", "max_tokens": 1500}) for number in range(30))
    (mlxctl.cwd / "in.jsonl").write_text(lines)
    command = ("run", "--model", tiny("llama"), "--batch", "in.jsonl", "--batch-size", "3")
    process = mlxctl.popen(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    first = os.read(process.stdout.fileno(), 10)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    found = records((first + out).decode())
    assert process.returncode == 130 and 3 <= len(found) < 30, err
    assert all(record["finish_reason"] == "length" for record in found) and b"not begun" in err
    process = mlxctl.popen(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    os.read(process.stdout.fileno(), 10)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130


def test_a_reader_that_goes_away(mlxctl: Program, tiny: Tiny) -> None:
    (mlxctl.cwd / "in.jsonl").write_text("\n".join(f"p{number}" for number in range(200)))
    process = mlxctl.popen("run", "--model", tiny("llama"), "--batch", "in.jsonl", "-m", "20",
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None
    os.read(process.stdout.fileno(), 10)
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr is not None and b"Traceback" not in process.stderr.read()


def test_sampled_lines_differ(batch: Callable[..., Any]) -> None:
    """One stream of random numbers: the same prompt thrice is answered thrice, and a seed makes it the same again."""
    lines = "same\nsame\nsame"
    first, again = (records(batch(lines, "--temp", "1", "-m", "12", "--seed", "5").out) for _ in range(2))
    assert [record["text"] for record in first] == [record["text"] for record in again]
    assert len({record["text"] for record in first}) == 3 and {record["seed"] for record in first} == {5}


def test_progress_on_a_terminal(mlxctl: Program, tiny: Tiny) -> None:
    import sys

    sys.path.insert(0, str(Path(__file__).parent.parent / "pty"))
    from terminal import Terminal

    (mlxctl.cwd / "in.jsonl").write_text("\n".join(f"p{number}" for number in range(20)))
    terminal = Terminal(mlxctl, "run", "--model", tiny("llama"), "--batch", "in.jsonl", "-m", "40", "--output", "o",
                        size=(24, 120))  # fmt: skip
    terminal.end()
    assert b"answers" in terminal.raw and b"/20" in terminal.raw
    assert terminal.raw.rindex(b"\x1b[?25h") > terminal.raw.rindex(b"\x1b[?25l")
    assert len(records((mlxctl.cwd / "o").read_text())) == 20
    assert any("20 answers" in line for line in terminal.lines)


def test_what_fails_in_its_step_is_its_own(batch: Callable[..., Any]) -> None:
    """Whatever is in a line, the others are answered; also where all begin alike and are looked at together."""
    bad = [
        '{"prompt": "x", "temp": 1, "top_k": 100000000}', '{"prompt": "x", "regex": "a", "ban": ["a"]}',
        '{"prompt": "\\ud800"}', '{"id": "\\ud800", "prompt": "x"}',
        '{"messages": [{"role": "user", "content": "\\ud800"}]}',
        '{"id": 1, "prompt": 5}', '{"prompt": "x", "ban": ["\\ud800"]}', '{"prompt": "x", "stop": [""]}',
    ]  # fmt: skip
    done = batch("\n".join(["good", *bad, '{"id": 7, "prompt": "also good"}']), *GREEDY, "-f", "in.jsonl")
    found = records(done.out)
    assert done.code == 2 and [record["line"] for record in found] == list(range(1, 11)), done.err
    assert [record["line"] for record in found if "error" not in record] == [1, 10]
    assert all(record["error"].startswith("line ") for record in found if "error" in record)
    assert "Traceback" not in done.err and "fault of mlxctl" not in done.err


def test_a_beginning_that_is_too_long(batch: Callable[..., Any], mlxctl: Program) -> None:
    """Is refused with each line, before anything of it is read."""
    (mlxctl.cwd / "doc.txt").write_text("The rain in the morning was light. " * 4000)
    done = batch("one\ntwo", "-f", "doc.txt", timeout=60)
    assert done.code == 2 and all("the context of" in record["error"] for record in records(done.out)), done.err


def test_a_cache_of_a_bounded_size(batch: Callable[..., Any], mlxctl: Program, tiny: Tiny) -> None:
    """Alone it keeps the first tokens, in the library's batch it does not."""
    args = ("--temp", "0", "-m", "60", "--max-kv-size", "32")
    done = batch("\n".join(prompts(4)), *args, model="moe")
    assert done.code == 0 and "one after the other" in done.err
    for record, prompt in zip(records(done.out), prompts(4), strict=True):
        single = mlxctl("run", "--model", tiny("moe"), *args, "--format", "json", prompt)
        assert json.loads(single.out)["text"] == record["text"]


@pytest.mark.parametrize("flag", ["--output", "--tee"])
def test_the_file_that_is_resumed_is_kept(flag: str, batch: Callable[..., Any], mlxctl: Program) -> None:
    """What it held stays, and what is new comes after it."""
    assert batch("one\ntwo", *GREEDY, flag, "out.jsonl").code == 0
    before = (mlxctl.cwd / "out.jsonl").read_text()
    done = batch("one\ntwo\nthree", *GREEDY, "--resume", "out.jsonl", flag, "out.jsonl")
    after = (mlxctl.cwd / "out.jsonl").read_text()
    assert done.code == 0 and after.startswith(before) and len(records(after)) == 3, done.err


def test_a_file_that_the_shell_has_emptied(batch: Callable[..., Any], mlxctl: Program, tiny: Tiny) -> None:
    assert batch("one", *GREEDY, "--output", "out.jsonl").code == 0
    script = f"{mlxctl.path} run --model {tiny('llama')} --batch in.jsonl --resume out.jsonl > out.jsonl"
    done = subprocess.run(["bash", "-c", script], env=mlxctl.env, cwd=mlxctl.cwd, capture_output=True, check=False)
    assert done.returncode == 2 and b">>" in done.stderr


def test_resumed_with_other_lines(batch: Callable[..., Any], mlxctl: Program) -> None:
    """A number is no proof that it is the same line."""
    assert batch("one\ntwo", *GREEDY, "--output", "out.jsonl").code == 0
    done = batch("zero\none\ntwo", *GREEDY, "--resume", "out.jsonl")
    assert [record["line"] for record in records(done.out)] == [1, 2, 3] and "answered anew" in done.err, done.err


def test_interrupted_with_a_file(mlxctl: Program, tiny: Tiny) -> None:
    """What is done is in the file, for --resume."""
    sizes = [5, *[1500] * 29]
    lines = "\n".join(json.dumps({"prompt": f"p{number}", "max_tokens": size}) for number, size in enumerate(sizes))
    (mlxctl.cwd / "in.jsonl").write_text(lines)
    process = mlxctl.popen("run", "--model", tiny("llama"), "--batch", "in.jsonl", "--batch-size", "3", "--tee", "o",
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None
    os.read(process.stdout.fileno(), 10)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and b"once more ends at once" in err
    assert 3 <= len(records((mlxctl.cwd / "o").read_text())) < 30


def test_figures_of_a_record(batch: Callable[..., Any], mlxctl: Program) -> None:
    """The model is loaded once; a stop text leaves caches to measure; the stats file has a line an answer."""
    done = batch("one\ntwo\nthree", "-m", "40", "--stop", "e", "--temp", "0", "--stats-file", "s.jsonl")
    found = records(done.out)
    assert [record["timing"]["load_s"] is None for record in found] == [False, True, True]
    assert any(record["stop"]["kind"] == "string" for record in found)
    assert all(record["timing"]["kv_bytes"] > 0 for record in found)
    assert len((mlxctl.cwd / "s.jsonl").read_text().splitlines()) == 3


def test_data_names_no_files(batch: Callable[..., Any], mlxctl: Program) -> None:
    """A schema may be an object, a grammar text; what a path leads to is nobody's business."""
    (mlxctl.cwd / "s.json").write_text('{"type": "boolean"}')
    settings = [{"grammar": "/etc/passwd"}, {"json_schema": "s.json"}, {"json_schema": {"type": "boolean"}},
                {"grammar": 'root ::= "yes"'}]  # fmt: skip
    done = batch("\n".join(json.dumps({"prompt": "x", **one}) for one in settings), "--temp", "0", "-m", "20")
    found = records(done.out)
    assert ["error" in record for record in found] == [True, True, False, False] and "root:x" not in done.out
    assert found[2]["text"] in ("true", "false") and found[3]["text"] == "yes"


def test_odd_beginnings(batch: Callable[..., Any]) -> None:
    """A byte order mark, a quotation, a list."""
    done = batch('\ufeff{"id": "z", "prompt": "x"}\n"Quoted," he said\n"whole"\n["a", "b"]', *GREEDY)
    found = records(done.out)
    assert [record["id"] for record in found] == ["z", 2, 3, 4]
    assert "error" in found[3] and not any("error" in record for record in found[:3])


def test_its_own_file_is_not_written_over(batch: Callable[..., Any], mlxctl: Program) -> None:
    done = batch("one\ntwo", *GREEDY, "--output", "in.jsonl")
    assert done.code == 2 and (mlxctl.cwd / "in.jsonl").read_text() == "one\ntwo"


def test_a_line_that_is_no_text(mlxctl: Program, tiny: Tiny) -> None:
    done = mlxctl("run", "--model", tiny("llama"), *GREEDY, "--batch", "-", input=b"ok\ncaf\xe9\nwell")
    assert [record["line"] for record in records(done.out) if "error" in record] == [2], done.err


def test_ids_that_look_alike(batch: Callable[..., Any], mlxctl: Program) -> None:
    """True is 1 to Python, and 2.0 is 2."""
    odd = [{"id": id, "line": 1, "finish_reason": "stop"} for id in (True, 2.0)]
    (mlxctl.cwd / "out.jsonl").write_text("\n".join(map(json.dumps, [*odd, {"id": 9, "line": 9}])))
    assert len(records(batch("one\ntwo", *GREEDY, "--resume", "out.jsonl").out)) == 2


def test_ended_at_once(mlxctl: Program, tiny: Tiny) -> None:
    """A second signal waits for nothing, and loses nothing that was done: an endless line holds the others back."""
    lines = [{"prompt": "x", "max_tokens": -1}, *[{"prompt": "y", "max_tokens": 4}] * 3]
    (mlxctl.cwd / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    process = mlxctl.popen("run", "--model", tiny("llama"), "--batch", "in.jsonl", stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)  # fmt: skip
    time.sleep(8)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(1)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130 and [record["line"] for record in records(out.decode())] == [2, 3, 4], err


def test_a_file_takes_what_nobody_reads(mlxctl: Program, tiny: Tiny) -> None:
    """With --tee what was done is in the file when the reader of stdout goes away."""
    sizes = [5, 400, 5, 5, 5, 5]  # so that some are held back by the second
    (mlxctl.cwd / "in.jsonl").write_text("\n".join(json.dumps({"prompt": "x", "max_tokens": size}) for size in sizes))
    script = f"{mlxctl.path} run --model {tiny('llama')} --batch in.jsonl --tee o | head -n 1"
    subprocess.run(["bash", "-c", script], env=mlxctl.env, cwd=mlxctl.cwd, capture_output=True, check=False)
    assert records((mlxctl.cwd / "o").read_text())
