"""Writing cache files: killed, without room, forbidden, all at once; and what must never be written at all."""

import json
import os
import random
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from caches import GREEDY, LINE, QUESTION, Watched, fault, leftovers, split, until
from conftest import Program, Result, seal
from running import fill, no_traceback, running, small_disk

Tiny = Callable[[str], str]
KILLS = 50
RACE_S = 30.0
NAME = "c"
FILE = "c.safetensors"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment that the programs of this module have in common."""
    return seal(tmp_path_factory.mktemp("writes"))


@pytest.fixture(scope="module")
def work_dir(home: dict[str, str]) -> Path:
    """Their working directory, with two prompts of some 600 tokens, a short one and one of 1500."""
    folder = Path(home["HOME"]).parent / "work"
    folder.mkdir()
    texts = {"one": LINE * 40, "two": "What is the name of the town? " * 40, "short": LINE * 4, "long": LINE * 100}
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


@contextmanager
def watched(home: dict[str, str], folder: Path) -> Iterator[Watched]:
    made = Watched(home, folder)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(home: dict[str, str], work_dir: Path) -> Iterator[Watched]:
    """One server for all."""
    with watched(home, work_dir) as made:
        yield made


@dataclass(frozen=True)
class Own:
    """The program with a cache folder of its own."""

    server: Watched = field(repr=False)
    cache_home: Path
    model: str

    @property
    def prompts(self) -> Path:
        return self.cache_home / "mlxctl" / "prompts"

    @property
    def file(self) -> Path:
        return self.prompts / FILE

    @property
    def env(self) -> dict[str, str]:
        return {"XDG_CACHE_HOME": str(self.cache_home)}

    def __call__(self, *args: str, input: str = "") -> Result:
        return self.server(*args, input=input, env=self.env)

    def save(self, prompt: str, name: str = NAME, *flags: str) -> Result:
        return self("cache", "save", name, "--model", self.model, "-f", f"{prompt}.txt", *flags)

    def must_save(self, prompt: str, name: str = NAME, *flags: str) -> None:
        done = self.save(prompt, name, *flags)
        assert done.code == 0, done.err

    def ask(self, name: str = NAME, *flags: str) -> Result:
        return self("run", "--cache", name, *GREEDY, *flags, input=QUESTION)

    def right(self, prompt: str, *flags: str) -> str:
        """What a run without a cache says."""
        done = self("run", "--model", self.model, "-f", f"{prompt}.txt", *GREEDY, *flags, input=QUESTION)
        assert done.code == 0, done.err
        return done.out


@pytest.fixture
def mlxctl(shared: Watched, tiny: Tiny, tmp_path: Path) -> Own:
    return Own(shared, tmp_path / "cache", tiny("llama"))


def one_line(done: Result, *codes: int) -> None:
    """It failed in good order."""
    assert fault(Result(4, done.out, done.err), "") is None
    assert done.code in codes, done
    assert not done.out


def is_writing(folder: Path) -> Callable[[], bool]:
    """Whether a file lies in a folder that did not when this was made."""
    before = {FILE, *(os.listdir(folder) if folder.is_dir() else ())}  # noqa: PTH208

    def look() -> bool:
        return any(entry.name not in before for entry in os.scandir(folder))

    return look


# Killed


def test_killed_at_any_moment(mlxctl: Own) -> None:
    """What was there stays whole until what comes is; its remains go with the next save."""
    answers = {prompt: mlxctl.right(prompt) for prompt in ("one", "two")}
    mlxctl.must_save("one")
    chance, window = random.Random(21), measured_write(mlxctl)
    ends = {"killed": 0, "finished": 0, "in the write": 0}
    for number in range(KILLS):
        wanted = ("two", "one")[number % 2]
        thread, results, writing = start_save(mlxctl, wanted)
        pid = until_child(mlxctl)
        until(lambda: writing() or bool(results))  # noqa: B023
        time.sleep(chance.uniform(0, window))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        thread.join()
        ends["killed" if results[0].code == -signal.SIGKILL else "finished"] += 1
        ends["in the write"] += writing()
        done = mlxctl.ask()
        assert (done.code, done.out in answers.values()) == (0, True), (number, done, answers)
        if results[0].code == 0:
            assert done.out == answers[wanted]
            assert leftovers(mlxctl.prompts, FILE) == []
    mlxctl.must_save("one")
    assert leftovers(mlxctl.prompts, FILE) == []
    assert ends["in the write"] >= 2, f"the moments were not those of the write: {ends}, {window} s"


def start_save(mlxctl: Own, prompt: str) -> tuple[threading.Thread, list[Result], Callable[[], bool]]:
    """(the thread it runs in, its result, whether it is writing now)."""
    results: list[Result] = []
    writing = is_writing(mlxctl.prompts)
    thread = threading.Thread(target=lambda: results.append(mlxctl.save(prompt)), daemon=True)
    thread.start()
    return thread, results, writing


def until_child(mlxctl: Own) -> int:
    found: list[int] = []

    def look() -> bool:
        if (pid := mlxctl.server.child()) is not None:
            found.append(pid)
        return bool(found)

    until(look)
    return found[0]


def measured_write(mlxctl: Own) -> float:
    """Seconds from the temporary file to the end of it."""
    spans = []
    for _ in range(3):
        thread, results, writing = start_save(mlxctl, "one")
        until(lambda: writing() or bool(results))  # noqa: B023
        begun = time.monotonic()
        until(lambda: not writing())  # noqa: B023
        spans.append(time.monotonic() - begun)
        thread.join()
    return max(spans)


def test_remains_of_others(mlxctl: Own) -> None:
    """Under the lock of a name, any temporary file of that name is a dead one, whoever has its number now."""
    mlxctl.must_save("short")
    (mlxctl.prompts / f".{NAME}.1.tmp.safetensors").write_bytes(b"x")  # process 1 is always there
    (mlxctl.prompts / f".{NAME}.99999999.tmp.safetensors").write_bytes(b"x")
    mlxctl.must_save("short")
    assert leftovers(mlxctl.prompts, FILE) == []


def test_interrupted_in_prefill(mlxctl: Own, home: dict[str, str], work_dir: Path) -> None:
    """Exit 130, the old file as it was."""
    mlxctl.must_save("short")
    before = mlxctl.file.read_bytes()
    model = work_dir / "roomy"
    shutil.copytree(mlxctl.model, model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 100_000}))
    (work_dir / "endless.txt").write_text(LINE * 1500)
    program = Program("mlxctl", {**home, **mlxctl.env}, work_dir)
    args = ("--model", str(model), "-f", "endless.txt", "--prefill-step-size", "64")
    with running(program, "cache", "save", NAME, *args) as save:
        time.sleep(3.5)  # loading takes two seconds and the prompt ten; what follows holds at any moment
        save.signal(signal.SIGINT)
        assert save.end() == 130, save.err
        no_traceback(save.err)
    assert mlxctl.file.read_bytes() == before
    assert leftovers(mlxctl.prompts, FILE) == []


def test_interrupted_in_the_write(mlxctl: Own, home: dict[str, str], work_dir: Path) -> None:
    """Either all of it or nothing, and the status says which."""
    mlxctl.must_save("short")
    before = mlxctl.file.read_bytes()
    program = Program("mlxctl", {**home, **mlxctl.env}, work_dir)
    with running(program, "cache", "save", NAME, "--model", mlxctl.model, "-f", "long.txt") as save:
        until(is_writing(mlxctl.prompts))
        save.signal(signal.SIGINT)
        code = save.end()
        no_traceback(save.err)
    assert code in (0, 130)
    assert (mlxctl.file.read_bytes() == before) is (code == 130)
    assert leftovers(mlxctl.prompts, FILE) == []


# No room, no right


@pytest.mark.parametrize("leave", [0, 4096, 16384, 200_000, 1_500_000])
def test_disk_full(mlxctl: Own, tmp_path: Path, leave: int) -> None:
    """At any stage of the file, which needs 1.6 MB."""
    with small_disk(tmp_path / "disk", 4000) as disk:
        path = disk / FILE
        mlxctl.must_save("short", str(path))
        right, before = mlxctl.right("short"), path.read_bytes()
        fill(disk, leave)
        one_line(mlxctl.save("long", str(path)), 6)
        assert path.read_bytes() == before
        assert leftovers(disk, FILE, "filler") == []
        assert mlxctl.ask(str(path)).out == right
        (disk / "filler").unlink()
        mlxctl.must_save("long", str(path))
        assert mlxctl.ask(str(path)).out == mlxctl.right("long")


@pytest.mark.parametrize("leave", [0, 8192])
def test_disk_of_all_caches_full(mlxctl: Own, tmp_path: Path, leave: int) -> None:
    """Locks and the like have no room either; what is there still serves."""
    with small_disk(tmp_path / "cache", 2000) as disk:
        mlxctl.must_save("short")
        right, before = mlxctl.right("short"), mlxctl.file.read_bytes()
        fill(disk, leave)
        one_line(mlxctl.save("long"), 6)
        one_line(mlxctl.save("long", "another"), 6)
        assert mlxctl.file.read_bytes() == before
        assert leftovers(mlxctl.prompts, FILE) == []
        assert mlxctl.ask().out == right


def test_disk_full_at_the_update(mlxctl: Own, tmp_path: Path) -> None:
    """The answer is not lost with the cache."""
    with small_disk(tmp_path / "disk", 600) as disk:
        path = disk / FILE
        mlxctl.must_save("short", str(path))
        right, before = mlxctl.right("short"), path.read_bytes()
        fill(disk, 4096)
        done = mlxctl.ask(str(path), "--cache-update")
        assert (done.code, done.out) == (6, right), done.err
        assert "not written" in done.err
        assert path.read_bytes() == before
        assert leftovers(disk, FILE, "filler") == []


def test_read_only_disk(mlxctl: Own, tmp_path: Path) -> None:
    """Nothing can be written, and what is there serves as before."""
    with small_disk(tmp_path / "cache", 2000) as disk:
        mlxctl.must_save("short")
        right, before = mlxctl.right("short"), mlxctl.file.read_bytes()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        one_line(mlxctl.save("long"), 2, 6)
        one_line(mlxctl.save("long", str(disk / "x.safetensors")), 2, 6)
        one_line(mlxctl("cache", "rm", NAME), 2, 6)
        assert mlxctl.ask().out == right
        done = mlxctl.ask(NAME, "--cache-update")
        assert (done.code, done.out) == (6, right), done.err
        assert mlxctl.file.read_bytes() == before


def test_a_file_in_the_place_of_the_folder(mlxctl: Own) -> None:
    mlxctl.prompts.parent.mkdir(parents=True)
    mlxctl.prompts.write_text("no folder")
    one_line(mlxctl.save("short"), 2, 6)
    one_line(mlxctl.ask(), 4)
    assert mlxctl.prompts.read_text() == "no folder"


@pytest.mark.parametrize("taken", ["mlxctl", "mlxctl/locks", "", "mlxctl/prompts/c.safetensors/"])
def test_something_else_in_the_way(mlxctl: Own, taken: str) -> None:
    place = mlxctl.cache_home / taken
    place.parent.mkdir(parents=True, exist_ok=True)
    if taken.endswith("/"):
        place.mkdir()
    else:
        place.write_text("no folder")
    one_line(mlxctl.save("short"), 2, 6)
    if taken.endswith("/"):
        assert leftovers(mlxctl.prompts, FILE) == []


# All at once


def test_two_writers_and_a_reader(mlxctl: Own, home: dict[str, str], work_dir: Path) -> None:
    """Every read gives the answer of one of the two."""
    answers = {prompt: mlxctl.right(prompt) for prompt in ("one", "two")}
    assert len(set(answers.values())) == 2
    mlxctl.must_save("one")
    wrong: list[str] = []
    count = {"saved": 0, "read": 0}

    def write(server: Watched, prompt: str) -> None:
        own = Own(server, mlxctl.cache_home, mlxctl.model)
        while time.monotonic() < end:
            done = own.save(prompt)
            count["saved"] += 1
            if done.code != 0 or "Traceback" in done.err:
                wrong.append(f"save: {done}")

    with watched(home, work_dir) as first, watched(home, work_dir) as second:
        for server in (first, second):
            Own(server, mlxctl.cache_home, mlxctl.model).must_save("one")
        end = time.monotonic() + RACE_S
        writers = [threading.Thread(target=write, args=pair) for pair in ((first, "one"), (second, "two"))]
        for writer in writers:
            writer.start()
        while time.monotonic() < end:
            done = mlxctl.ask()
            count["read"] += 1
            if done.code != 0 or done.out not in answers.values():
                wrong.append(f"read: {done}")
        for writer in writers:
            writer.join()
    assert wrong == [], f"{len(wrong)} of {count}"
    assert leftovers(mlxctl.prompts, FILE) == []
    assert count["read"] >= 5
    assert count["saved"] >= 10


def test_a_writer_that_waits(mlxctl: Own, home: dict[str, str], work_dir: Path) -> None:
    """For one that has been stopped: it can be interrupted, and goes on once the other is killed."""
    mlxctl.must_save("short")
    for _ in range(10):  # a write may be over before it can be stopped
        thread, results, writing = start_save(mlxctl, "long")
        pid = until_child(mlxctl)
        until(lambda writing=writing, results=results: writing() or bool(results))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        if not results:
            break
        thread.join()
    assert not results
    try:
        program = Program("mlxctl", {**home, **mlxctl.env}, work_dir)
        with running(program, "cache", "save", NAME, "--model", mlxctl.model, "-f", "one.txt") as save:
            time.sleep(4)
            assert save.process.poll() is None, save.end()
            save.signal(signal.SIGINT)
            assert save.end(15) == 130
            no_traceback(save.err)
    finally:
        os.kill(pid, signal.SIGKILL)
        thread.join()
    mlxctl.must_save("one")
    assert mlxctl.ask().out == mlxctl.right("one")
    assert leftovers(mlxctl.prompts, FILE) == []


# What it leaves


@pytest.mark.parametrize("mask", [0o022, 0o000, 0o077])
def test_modes(mlxctl: Own, home: dict[str, str], work_dir: Path, mask: int) -> None:
    """A file holds a prompt, which is nobody else's business."""
    before = os.umask(mask)
    try:
        with watched(home, work_dir) as server:
            own = Own(server, mlxctl.cache_home, mlxctl.model)
            own.must_save("short")
            own.must_save("short")
            own.must_save("short", "./modes/x.safetensors")
            assert own.ask(NAME, "--cache-update").code == 0
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (own.file, work_dir / "modes" / "x.safetensors")}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(own.prompts.stat().st_mode) == 0o700


def test_mode_where_something_lies_already(mlxctl: Own) -> None:
    """An older file that others could read is replaced, not filled."""
    mlxctl.must_save("short")
    mlxctl.file.chmod(0o644)
    mlxctl.must_save("short")
    assert stat.S_IMODE(mlxctl.file.stat().st_mode) == 0o600


def test_at_a_path(mlxctl: Own, work_dir: Path) -> None:
    mlxctl.must_save("short", "./here.safetensors")
    right = mlxctl.right("short")
    for name in ("./here.safetensors", "here.safetensors", "./here", str(work_dir / "here.safetensors")):
        assert (mlxctl.ask(name).code, mlxctl.ask(name).out) == (0, right), name
    assert not mlxctl.prompts.exists()
    assert mlxctl("cache", "rm", "./here.safetensors").code == 0
    assert not (work_dir / "here.safetensors").exists()
    one_line(mlxctl.ask("./here.safetensors"), 4)


NO_NAMES = ["", ".", "..", ".x", "~", "x\n", "\nx", "a\nb", " ", "x y", "a\tb", "*", "x" * 101, "x" * 5000, "世" * 100,
            "-", "$(touch y)", "a\x1b[31mb", "a:b", "a\\b"]  # fmt: skip


@pytest.mark.parametrize("name", NO_NAMES, ids=lambda name: repr(name)[:20])
def test_names_that_are_none(mlxctl: Own, work_dir: Path, name: str) -> None:
    """Refused before anything is processed, by whoever is given one."""
    before = sorted(work_dir.iterdir())
    for done in (
        mlxctl("cache", "save", "--model", mlxctl.model, "-f", "short.txt", "--", name),
        mlxctl("cache", "rm", "--", name),
        mlxctl.ask(name),
    ):
        one_line(done, 2, 4)
        assert "\x1b" not in done.err
    assert not mlxctl.prompts.exists() or leftovers(mlxctl.prompts) == []
    assert sorted(work_dir.iterdir()) == before


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "a/../../x", "./.x", "/" + "y" * 300, "a/" * 3000 + "x", "short.txt/x"]
)
def test_paths_that_look_like_names(mlxctl: Own, work_dir: Path, tmp_path: Path, name: str) -> None:
    """With a slash it is a path from the working directory, and nothing else is touched."""
    mlxctl.must_save("short")
    before = mlxctl.file.read_bytes()
    done = mlxctl.save("short", name)
    if done.code == 0:
        path = (work_dir / name).resolve().with_name(Path(name).name + ".safetensors")
        assert path.is_file()
        assert fault(mlxctl.ask(name), mlxctl.right("short")) is None
        assert mlxctl("cache", "rm", name).code == 0
        assert not path.exists()
    else:
        one_line(done, 2, 6)
    assert mlxctl.file.read_bytes() == before
    assert [path.name for path in mlxctl.cache_home.rglob("*.safetensors")] == [FILE]


@pytest.mark.parametrize("bits", [None, 8])
def test_size(mlxctl: Own, bits: int | None) -> None:
    """At most a twentieth more than the keys and values of its tokens need."""
    flags = ("--kv-bits", str(bits), "--kv-group-size", "32", "--quantized-kv-start", "0") if bits else ()
    mlxctl.must_save("long", NAME, *flags)
    config = json.loads((Path(mlxctl.model) / "config.json").read_text())
    said = json.loads(split(mlxctl.file.read_bytes())[0]["__metadata__"]["0.mlxctl"])
    tokens, number = len(said["ids"]), 4
    assert 1400 < tokens < 1600
    # A quantized group of 32 has a scale and a bias beside its numbers.
    each = config["head_dim"] * number if bits is None else config["head_dim"] * bits // 8 + 2 * number
    needed = config["num_hidden_layers"] * config["num_key_value_heads"] * 2 * tokens * each
    assert needed <= mlxctl.file.stat().st_size <= 1.05 * needed


def test_nothing_writes_to_what_it_reads(mlxctl: Own) -> None:
    mlxctl.must_save("short")
    before, changed = mlxctl.file.read_bytes(), mlxctl.file.stat().st_mtime_ns
    file = str(mlxctl.file)
    for args in (
        ("run", "--cache", NAME, *GREEDY),
        ("run", "--cache", NAME, *GREEDY, "--format", "json"),
        ("run", "--cache", NAME, "--temp", "1", "--seed", "5", "-m", "20"),
        ("cache", "load", NAME, *GREEDY),
        ("run", "--prompt-cache-file", file, *GREEDY),
        ("generate", "--prompt-cache-file", file, "-p", QUESTION, "-m", "4"),
        ("run", "--cache", NAME, "--auto-cache", *GREEDY),
        ("run", "--cache", NAME, "--dtype", "float16", *GREEDY),
        ("run", "--cache", NAME, "--cache-update", "--dtype", "float16", *GREEDY),
        ("run", "--cache", NAME, "--dry-run"),
    ):
        done = mlxctl(*args, input="" if args[0] == "generate" else QUESTION)
        assert done.code in (0, 4), (args, done)
        assert (mlxctl.file.read_bytes(), mlxctl.file.stat().st_mtime_ns) == (before, changed), args
    assert mlxctl("cache", "info", NAME).code == 0
    assert mlxctl.file.read_bytes() == before


def test_update_writes_the_longer_conversation(mlxctl: Own, work_dir: Path) -> None:
    mlxctl.must_save("short")
    before = mlxctl.file.read_bytes()
    first = mlxctl.ask(NAME, "--cache-update")
    assert (first.code, first.out) == (0, mlxctl.right("short"))
    assert mlxctl.file.read_bytes() != before
    told = json.loads(split(mlxctl.file.read_bytes())[0]["__metadata__"]["0.mlxctl"])["messages"]
    assert [message["role"] for message in told] == ["user", "assistant"]
    (work_dir / "told.json").write_text(json.dumps([*told, {"role": "user", "content": "And now?"}]))
    wanted = mlxctl("run", "--model", mlxctl.model, "--messages", "told.json", *GREEDY)
    assert wanted.code == 0, wanted.err
    assert mlxctl("run", "--cache", NAME, *GREEDY, input="And now?").out == wanted.out
    assert leftovers(mlxctl.prompts, FILE) == []
