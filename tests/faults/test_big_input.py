"""Much more input than a model can take, and what is no text at all, through real pipes."""

import resource
import subprocess
import time
from collections.abc import Callable

import pytest
from conftest import Program
from running import no_traceback

Tiny = Callable[[str], str]


def test_twenty_megabytes_are_refused_in_time(mlxctl: Program, tiny: Tiny) -> None:
    """With the count, before they are encoded, and in little memory."""
    line = "The rain in the morning was light. "
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    started = time.monotonic()
    done = mlxctl("run", "--model", tiny("llama"), "q", input=line * 600_000)
    assert (done.code, done.out) == (2, "")
    assert "the prompt has more than " in done.err and "the context of" in done.err
    assert time.monotonic() - started < 30
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert peak == before or peak < 1_500_000  # kB


@pytest.mark.parametrize("data", [bytes(range(256)) * 1000, b"\x00" * 100_000])
def test_binary_stdin(data: bytes, mlxctl: Program, tiny: Tiny) -> None:
    done = mlxctl("run", "--model", tiny("stopper"), "q", input=data)
    no_traceback(done.err.encode())
    assert done.code in (0, 2)
    assert done.code == 2 or data[:1] == b"\x00"  # null characters are text, if odd


SCRIPTS = {
    "seq 300 | mlxctl run --model $MODEL 'Sum these up.' | wc -l": 0,
    "seq 300 | mlxctl run --model $MODEL - | head -1": 0,
    "mlxctl run --model $MODEL hi --format json | tr , '\\n' | grep -c finish_reason": 0,
    "seq 3 | mlxctl run --model $MODEL --batch - | wc -l | grep -q 3": 0,
    "seq 30 | mlxctl run --model $MODEL --batch - | head -1 | grep -q '\"id\"'": 141,
    'mlxctl run --model $ENDLESS -m999 --format jsonl hi | (sleep 4; cat) | tail -1 | grep -c \'"event":"done"\'': 0,
    "seq 40 | mlxctl run --model $ENDLESS -m 200 --batch - --as-completed | (sleep 5; cat) | wc -l | grep -q 40": 0,
    "mlxctl run --model $MODEL hi >&- ; test $? = 2": 0,
    "for i in 1 2 3 4 5 6 7 8; do mlxctl run --model $MODEL hi > out$i & done; wait; "
    "cat out? | grep -c Hello | grep -qx 8": 0,
}


@pytest.mark.parametrize("script", list(SCRIPTS))
def test_in_a_shell(script: str, mlxctl: Program, tiny: Tiny) -> None:
    path = f"{mlxctl.path.rpartition('/')[0]}:{mlxctl.env['PATH']}"
    env = {**mlxctl.env, "MODEL": tiny("stopper"), "ENDLESS": tiny("llama"), "PATH": path}
    command = ["bash", "-o", "pipefail", "-c", script]
    done = subprocess.run(command, env=env, cwd=mlxctl.cwd, capture_output=True, check=False, timeout=120)
    assert done.returncode == SCRIPTS[script], done.stderr
    no_traceback(done.stderr)


def test_endless_input_is_refused(mlxctl: Program, tiny: Tiny) -> None:
    """Before it fills the memory."""
    script = f"ulimit -v 6000000; yes | {mlxctl.path} run --model {tiny('stopper')} - | head -1"
    done = subprocess.run(["bash", "-c", script], env=mlxctl.env, cwd=mlxctl.cwd, capture_output=True, check=False,
                          timeout=120)  # fmt: skip
    assert not done.stdout and b"no model takes so much" in done.stderr and done.stderr.count(b"\n") == 1


def test_an_endless_wait_is_interrupted(mlxctl: Program, tiny: Tiny) -> None:
    """A pipe that never ends and hardly says a thing: Ctrl-C ends the wait."""
    import os
    import signal

    script = f"(while sleep 0.2; do echo y; done) | {mlxctl.path} run --model {tiny('stopper')} -"
    process = subprocess.Popen(["bash", "-c", script], env=mlxctl.env, cwd=mlxctl.cwd, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
    time.sleep(2)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode != 0
    no_traceback(err)
