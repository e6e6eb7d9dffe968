"""Templates that mean harm: they end in one line and exit 5, soon, and reach nothing."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import Program

Tiny = Callable[[str], str]
SOON_S = 60  # the limit is five seconds; machines may be slow
LOOP = "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3
ESCAPE = "cycler.__init__.__globals__.os.system('touch PWNED')"
HOSTILE = {
    "endless": (LOOP, "does not come to an end"),
    "endless-with-output": (LOOP.replace("%}{% endfor", "%}x{% endfor", 1), ""),
    "recursion": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
    "huge": ("{{ 'x' * 50000000 }}", "makes 500"),
    "enormous": ("{{ 'x' * 100000000000 }}", "too much memory"),
    "doubling": ("{% set n = namespace(t='xxxx') %}{% for i in range(60) %}{% set n.t = n.t ~ n.t %}{% endfor %}",
                 "too much memory"),
    "padding": ("{{ 'x' | center(100000000000) }}", "too much memory"),
    "format": ("{{ '{:>99999999999}'.format('x') }}", "too much memory"),
    "power": ("{{ 9 ** (9 ** 9) }}", ""),
    "attributes": ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
    "globals": ("{{ " + ESCAPE + " }}", "unsafe"),
    "filter": ("{{ messages | attr('__class__') }}", ""),
    "files": ("{% include '/etc/passwd' %}", "no loader"),
    "nested": ("{{" + "(" * 5000 + "1" + ")" * 5000 + "}}", "recursion"),
    "changes": ("{{ messages.append({'role': 'user', 'content': 'x'}) }}", "unsafe"),
}  # fmt: skip


@pytest.fixture
def hostile(tiny: Tiny, tmp_path: Path) -> Callable[[str], str]:
    """A tiny model with one of these templates."""

    def one(template: str) -> str:
        folder = tmp_path / "hostile"
        shutil.copytree(tiny("llama"), folder)
        about = json.loads((folder / "tokenizer_config.json").read_text())
        about.pop("chat_template", None)
        (folder / "tokenizer_config.json").write_text(json.dumps(about))
        (folder / "chat_template.jinja").write_text(template + "{{ messages[0]['content'] }}")
        return str(folder)

    return one


@pytest.mark.parametrize("name", [name for name in HOSTILE if name != "filter"])
def test_inspected(name: str, mlxctl: Program, hostile: Callable[[str], str]) -> None:
    template, words = HOSTILE[name]
    started = time.monotonic()
    done = mlxctl("inspect-template", "--model", hostile(template), "Hi")
    assert time.monotonic() - started < SOON_S
    assert done.code == 5 and words in done.err and not done.out, done.err
    assert done.err.count("\n") <= 2 and "Traceback" not in done.err
    assert not (mlxctl.cwd / "PWNED").exists()


@pytest.mark.parametrize("name", ["endless", "enormous", "power", "globals", "nested"])
@pytest.mark.parametrize("command", ["run", "chat"])
def test_answered(command: str, name: str, mlxctl: Program, hostile: Callable[[str], str]) -> None:
    """No answer waits for them for ever."""
    model = hostile(HOSTILE[name][0])
    done = mlxctl(command, "--model", model, "-m", "3", input="Hi\n", timeout=SOON_S)
    assert done.code == 5 and not done.out and "Traceback" not in done.err, done.err
    assert not (mlxctl.cwd / "PWNED").exists()


@pytest.mark.parametrize("name", list(HOSTILE))
@pytest.mark.parametrize("what", ["--lint", "--arguments"])
def test_examined(what: str, name: str, mlxctl: Program, hostile: Callable[[str], str]) -> None:
    """Reading a template for its arguments runs nothing of it; a fault is found, or told."""
    done = mlxctl("inspect-template", "--model", hostile(HOSTILE[name][0]), what, timeout=SOON_S)
    assert "Traceback" not in done.err
    if what == "--arguments":
        unread = name == "nested"  # nobody can parse it
        assert (done.code, done.out) == (5 if unread else 0, ""), done
        assert ("cannot be read" if unread else "reads no arguments") in done.err
    elif name in ("endless", "enormous", "doubling", "padding", "format", "power", "endless-with-output"):
        assert done.code == 5 and not done.out, done  # the whole look took too much
    else:
        assert done.code == 0 and ("template-fails" in done.out or name == "filter"), done


SPARES = "{% if messages | length == 1 and messages[0]['content'] == 'Hi' %}" + LOOP + "{% endif %}"
TURNS = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
CHATML = TURNS + "<|im_start|>assistant\n"


@pytest.mark.parametrize("command", [["inspect-template"], ["run", "--dry-run"]], ids=str)
def test_one_that_spares_the_sample(command: list[str], mlxctl: Program, hostile: Callable[[str], str]) -> None:
    """What is shown is rendered in a child, too."""
    done = mlxctl(*command, "--model", hostile(SPARES + CHATML), "Hi", timeout=SOON_S)
    assert done.code == 5 and "does not come to an end" in done.err and not done.out, done


def test_one_that_spares_the_sample_is_interrupted(mlxctl: Program, hostile: Callable[[str], str]) -> None:
    """In a run it is one Ctrl-C that ends it."""
    run = mlxctl.popen("run", "--model", hostile(SPARES + CHATML), "Hi", stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)  # fmt: skip
    time.sleep(8)  # for the model to be loaded, which nothing tells of
    assert run.poll() is None
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=SOON_S)
    assert run.returncode == 130 and not out and b"Traceback" not in err, err


def test_only_the_child_is_limited(mlxctl: Program, tiny: Tiny) -> None:
    """A long document is no attack."""
    text = "word " * 1_000_000
    done = mlxctl("inspect-template", "--model", tiny("llama"), input=text)
    assert done.code == 0 and text in done.out, done.err


def test_nobody_waits_for_the_child(mlxctl: Program, hostile: Callable[[str], str]) -> None:
    """A run that is killed meanwhile leaves its streams to nobody."""
    run = mlxctl.popen("run", "--model", hostile(LOOP), "hi", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       stdin=subprocess.DEVNULL)  # fmt: skip
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    if not children.exists():
        pytest.skip("only Linux tells the children of a process")
    same = Path(f"/proc/{run.pid}/cmdline").read_bytes
    deadline = time.monotonic() + SOON_S

    def forked() -> bool:
        """Whether there is a child that is no other program, such as a compiler that is asked for."""
        with suppress(OSError):
            found = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children.read_text().split()]
            return same() in found
        return False

    while not forked() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    run.kill()
    killed = time.monotonic()
    run.communicate(timeout=SOON_S)
    assert time.monotonic() - killed < 3


def test_half_a_character_in_a_complaint(mlxctl: Program, tiny: Callable[[str], str], tmp_path: Path) -> None:
    """The child must not go on as a second program when its own complaint cannot be told."""
    import template_corpus

    case = template_corpus.Case("half", "{{ raise_exception('\\ud800') }}", {"tokens": [], "eos": "<|endoftext|>"})
    model = str(template_corpus.build(case, Path(tiny("llama")), tmp_path))
    done = mlxctl("inspect-template", "--model", model, "--lint")
    assert done.code == 0 and "template-fails" in done.out and done.out.count("template-fails") == 1, done
    assert mlxctl("inspect-template", "--model", model, "hi").code == 5
