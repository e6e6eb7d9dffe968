"""Writing the history: killed, all at once, without room, forbidden, locked."""

import json
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import past
import pytest
from conftest import Program
from running import fill, no_traceback, small_disk

Tiny = Callable[[str], str]
KILLS = 50
RUNS = 20
ANSWER = "Hello there, wörld 🙂!\n"

# What a run does at its end, over and over: prints the number of each record once it is told that it is there.
WRITER = """
import sys
from mlxctl.events import ModelInfo, Timing
from mlxctl.history import store
from mlxctl.history.record import Receipt, Run
run = Run(finish_reason="stop", stop={}, profile=None, model=ModelInfo("m", "/m", None, "f", "float32"), seed=1,
          timing=Timing(generation_tps=1.0), versions={}, device="cpu", text="x" * 5000)
print("ready", flush=True)
while True:
    print(store.append("run", "m", run, Receipt(settings={})), flush=True)
"""


def test_kills_lose_nothing_that_was_told(sealed: dict[str, str]) -> None:
    """Fifty writers, each killed at some moment: every record that was told of is there, whole."""
    told: set[int] = set()
    moments = random.Random(7)
    for _ in range(KILLS):
        process = subprocess.Popen([sys.executable, "-c", WRITER], env=sealed, stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(moments.uniform(0, 0.2))
        process.kill()
        out, _ = process.communicate()
        told |= {int(line) for line in out.decode().splitlines(keepends=True) if line.endswith("\n")}
    with sqlite3.connect(past.file(sealed)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
    rows = past.rows(sealed)
    assert len(told) > KILLS // 5 and told <= {row["id"] for row in rows}
    assert all(len(row["run"]["text"]) == 5000 for row in rows)
    assert len({row["id"] for row in rows}) == len(rows) <= len(told) + KILLS


def test_runs_at_once_leave_one_each(mlxctl: Program, tiny: Tiny) -> None:
    """None is there before, so that all of them would make the file."""
    results: list[subprocess.CompletedProcess[bytes]] = []

    def one(number: int) -> None:
        process = mlxctl.popen("run", "--model", tiny("stopper"), "hi", "--seed", str(number),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        out, err = process.communicate(timeout=240)
        results.append(subprocess.CompletedProcess([], process.returncode, out, err))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(RUNS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(done.returncode, done.stdout.decode(), done.stderr) for done in results] == [(0, ANSWER, b"")] * RUNS
    assert sorted(row["run"]["seed"] for row in past.rows(mlxctl.env)) == list(range(RUNS))


@pytest.mark.parametrize("records", [0, 1])
def test_a_full_disk(mlxctl: Program, tiny: Tiny, tmp_path: Path, records: int) -> None:
    """Neither where the file is to be made, nor where it has a record that stays."""
    with small_disk(tmp_path / "state", 400) as disk:
        env = {**mlxctl.env, "XDG_STATE_HOME": str(disk)}
        for _ in range(records):
            past.add(env)
        fill(disk, 0)
        done = mlxctl("run", "--model", tiny("stopper"), "hi", env=env)
        assert (done.code, done.out) == (0, ANSWER)
        assert "the history does not have this run" in done.err and len(done.err.splitlines()) == 1
        (disk / "filler").unlink()
        assert mlxctl("run", "--model", tiny("stopper"), "hi", env=env).err == ""
        assert [row["id"] for row in past.rows(env)] == list(range(1, records + 2))


@pytest.mark.parametrize("records", [0, 1])
def test_a_home_that_cannot_be_written_to(mlxctl: Program, tiny: Tiny, tmp_path: Path, records: int) -> None:
    """Runs go on, and what is there can be read."""
    with small_disk(tmp_path / "disk", 4000) as disk:
        xdg = {f"XDG_{name}_HOME": str(disk / name.lower()) for name in ("CONFIG", "CACHE", "STATE", "DATA")}
        env = {**mlxctl.env, **xdg, "HOME": str(disk)}
        for _ in range(records):
            past.add(env)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = mlxctl("run", "--model", tiny("stopper"), "hi", env=env)
        assert (done.code, done.out) == (0, ANSWER)
        assert "the history does not have this run" in done.err and len(done.err.splitlines()) == 1
        chat = mlxctl("chat", "--model", tiny("stopper"), input="one\ntwo\n", env=env)
        assert (chat.code, chat.out.count("Hello there")) == (0, 2)
        assert chat.err.count("the history does not have this run") == 1
        found = mlxctl("stats", "--runs", "--format", "json", env=env)
        assert found.code == 0, found.err
        assert len(json.loads(found.out)["runs"]) == records


def test_a_locked_history(mlxctl: Program, tiny: Tiny) -> None:
    """Another program holds it for good: the run waits a little, says so and ends well; reading goes on."""
    past.add(mlxctl.env)
    holder = sqlite3.connect(past.file(mlxctl.env), isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    started = time.monotonic()
    done = mlxctl("run", "--model", tiny("stopper"), "hi")
    assert (done.code, done.out) == (0, ANSWER) and time.monotonic() - started < 60
    assert "the history does not have this run" in done.err and "locked" in done.err
    assert mlxctl("stats", "show", "1").code == 0
    holder.execute("ROLLBACK")
    holder.close()
    assert len(past.rows(mlxctl.env)) == 1


def test_no_home(mlxctl: Program, tiny: Tiny) -> None:
    """Where there is nowhere to put it, the answer comes all the same."""
    env = {name: "" for name in mlxctl.env if name.startswith("XDG_")} | {"HOME": "/proc/nowhere"}
    done = mlxctl("run", "--model", tiny("stopper"), "hi", env=env)
    assert (done.code, done.out) == (0, ANSWER)
    no_traceback(done.err.encode())


def test_a_link_to_a_device_stays_one(mlxctl: Program, tiny: Tiny) -> None:
    """Whoever put it there: nothing is written through it."""
    file = past.file(mlxctl.env)
    file.parent.mkdir(parents=True)
    file.symlink_to("/dev/null")
    done = mlxctl("run", "--model", tiny("stopper"), "hi")
    assert (done.code, done.out) == (0, ANSWER) and "no plain file" in done.err
    assert file.is_symlink() and Path("/dev/null").is_char_device()
