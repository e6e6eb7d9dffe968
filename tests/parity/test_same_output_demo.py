"""The real programs on the real demo model, in float32: half precision takes minutes for these few tokens on a CPU."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Forked
from forked import Server
from parity import Case, Files, agreeing, masked

CASES = agreeing("demo.txt")
CACHE = Path(tempfile.gettempdir()) / f"mlxctl-test-cache-{os.getuid()}"  # shared between runs: 93 MB are fetched once


@pytest.fixture(scope="module")
def demo() -> str:
    """The demo model's folder with every float16 array cast to float32."""
    from mlxctl.engine.demo import ensure

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(CACHE))
        folder = ensure("smollm2-135m", print)
    target = CACHE / f"{folder.name}-float32"
    if not target.is_dir():
        aside = Path(tempfile.mkdtemp(dir=CACHE)) / target.name
        shutil.copytree(folder, aside)
        widen(aside / "model.safetensors")
        aside.rename(target)
    return str(target)


def widen(weights: Path) -> None:
    """Cast the float16 arrays of a safetensors file to float32, in place."""
    import mlx.core as mx

    arrays = mx.load(str(weights))
    wide = {name: array.astype(mx.float32) if array.dtype == mx.float16 else array for name, array in arrays.items()}
    mx.eval(wide)
    mx.save_safetensors(str(weights), wide, metadata={"format": "mlx"})


@pytest.fixture
def mlxctl(server: Server, work: Path) -> Forked:
    """The program under test, forked as upstream is: it is their words that are compared."""
    return Forked("mlxctl", server, work)


@pytest.fixture
def files(tiny: Callable[[str], str], upstream: Forked, demo: str) -> Files:
    """What the placeholders stand for, {demo} among them."""
    return Files(tiny, Forked("mlx_lm.cache_prompt", upstream.server, upstream.cwd), {"demo": demo})


@pytest.mark.demo
@pytest.mark.parametrize("case", CASES, ids=[case.line[:70] for case in CASES])
def test_same_stdout_and_status_on_demo_model(case: Case, files: Files, mlxctl: Forked, upstream: Forked) -> None:
    argv = [files.fill(argument) for argument in case.argv]
    theirs = upstream(*argv, input=case.stdin)
    ours = mlxctl("generate", *argv, input=case.stdin)
    assert theirs.code == 0, theirs.err
    assert (masked(ours.out), ours.code) == (masked(theirs.out), theirs.code), ours.err


@pytest.mark.demo
def test_demo_model_is_the_one_meant(demo: str, mlxctl: Forked) -> None:
    done = mlxctl("generate", "--model", demo, "-p", "What is the capital of France?", "-m", "12", "--verbose", "False")
    assert (done.code, done.out) == (0, "The capital of France is Paris.\n")


SHORT = ("-m", "12", "--temp", "0")
LETTER = "Anna has three boats. The boats are blue, and one of them is called Otter."
QUESTION = "What is the one boat called? Answer with its name."


@pytest.mark.demo
def test_our_cache_continued_by_upstream(demo: str, mlxctl: Forked, upstream: Forked) -> None:
    """The same text as from our own run with the cache, and without it."""
    (mlxctl.cwd / "letter.txt").write_text(LETTER)
    beginning = ("--model", demo, "-f", "letter.txt")
    saved = mlxctl("cache", "save", "./c.safetensors", *beginning)
    assert saved.code == 0, saved.err
    theirs = upstream("--prompt-cache-file", "c.safetensors", "-p", QUESTION, *SHORT, "--verbose", "False")
    ours = mlxctl("run", "--cache", "./c.safetensors", *SHORT, QUESTION)
    plain = mlxctl("run", *beginning, *SHORT, QUESTION)
    assert "Otter" in plain.out
    assert theirs.out == ours.out == plain.out, (theirs.err, ours.err)


@pytest.mark.demo
def test_upstreams_cache_continued_by_us(demo: str, mlxctl: Forked, upstream: Forked) -> None:
    """By upstream's rule, with the same text as upstream."""
    program = Forked("mlx_lm.cache_prompt", upstream.server, upstream.cwd)
    made = program("--model", demo, "--prompt", LETTER + " ", "--prompt-cache-file", "u.safetensors")
    assert made.code == 0, made.err
    rest = ("--prompt-cache-file", "u.safetensors", "-p", QUESTION, *SHORT)
    theirs = upstream(*rest, "--verbose", "False")
    assert theirs.code == 0 and theirs.out == mlxctl("run", *rest).out, theirs.err
