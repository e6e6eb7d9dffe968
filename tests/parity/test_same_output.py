"""`mlxctl generate` and `mlx_lm.generate`, the real programs, on the same command lines."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Program, Result
from parity import CACHES, KINDS, STORY, Case, Files, agreeing, failing, masked

AGREEING, FAILING = agreeing(), failing()
LAYOUT = """\
==========
text
==========
Prompt: 9 tokens, {} tokens-per-sec
Generation: {} tokens, {} tokens-per-sec
Peak memory: {} GB
"""


def ids(cases: list[Case]) -> list[str]:
    """Short names for pytest, told apart by a number."""
    return [f"{number}-{case.line[:70]}" for number, case in enumerate(cases)]


@pytest.fixture
def files(tiny: Callable[[str], str], upstream: Program) -> Files:
    """What the placeholders stand for."""
    return Files(tiny, Program("mlx_lm.cache_prompt", upstream.env, upstream.cwd))


def both(case: Case, files: Files, mlxctl: Program, upstream: Program) -> tuple[Result, Result]:
    """What upstream and we make of one command line."""
    argv = [files.fill(argument) for argument in case.argv]
    return upstream(*argv, input=case.stdin), mlxctl("generate", *argv, input=case.stdin)


@pytest.mark.parametrize("case", AGREEING, ids=ids(AGREEING))
def test_same_stdout_and_status(case: Case, files: Files, mlxctl: Program, upstream: Program) -> None:
    theirs, ours = both(case, files, mlxctl, upstream)
    assert "Traceback" not in theirs.err, f"belongs into tracebacks.txt:\n{theirs.err}"
    assert (masked(ours.out), ours.code) == (masked(theirs.out), theirs.code), ours.err
    assert "Traceback" not in ours.err


@pytest.mark.parametrize("case", FAILING, ids=ids(FAILING))
def test_clean_message_where_upstream_has_a_traceback(
    case: Case, files: Files, mlxctl: Program, upstream: Program
) -> None:
    theirs, ours = both(case, files, mlxctl, upstream)
    assert "Traceback" in theirs.err, "belongs into cases.txt"
    assert (ours.code, theirs.code) == (1, 1), ours.err
    lines = ours.err.splitlines()
    assert "Traceback" not in ours.err
    assert 1 <= len(lines) <= 3, ours.err
    assert any(re.search(case.names, line) for line in lines), f"{case.names!r} not in {ours.err!r}"


def test_prefill_step_of_zero_does_not_hang(files: Files, mlxctl: Program) -> None:
    """Upstream loops for ever."""
    done = mlxctl("generate", "--model", files.path("llama"), "--prefill-step-size", "0", "-m", "4", timeout=60)
    assert done.code == 1
    assert re.search("prefill.step.size", done.err)


def test_prompt_cache_keeps_the_prompt_beside_a_prefill(files: Files, mlxctl: Program, upstream: Program) -> None:
    """Upstream drops the user's text; the answer must be the one that it gives to the whole prompt."""
    rest = ("--prefill-response", "Well,", "-m", "16", "--verbose", "False")
    whole = upstream("--model", files.path("llama"), "-p", f"{STORY} What then?", *rest)
    cached = mlxctl("generate", "--prompt-cache-file", files.path("cache-llama"), "-p", " What then?", *rest)
    assert (cached.out, cached.code) == (whole.out, 0), cached.err


def test_prompt_cache_is_not_written_to(files: Files, mlxctl: Program) -> None:
    path = Path(files.path("cache-llama"))
    before = path.read_bytes()
    assert mlxctl("generate", "--prompt-cache-file", str(path), "-p", " What then?", "-m", "4").code == 0
    assert path.read_bytes() == before


def test_tables_are_large_enough_and_use_every_model() -> None:
    argv = " ".join(case.line for case in AGREEING)
    assert len(AGREEING) >= 55
    assert len({case.line for case in AGREEING + FAILING}) == len(AGREEING + FAILING)
    assert [name for name in (*KINDS, *CACHES, "adapter") if f"{{{name}}}" not in argv] == []


def test_every_flag_of_upstream_is_in_a_table() -> None:
    from mlx_lm.generate import setup_arg_parser

    used = {word.partition("=")[0] for case in AGREEING + FAILING for word in case.argv}
    flags = {flag for action in setup_arg_parser()._actions for flag in action.option_strings}
    assert flags - used == {"-h", "--help"}


def test_mask_hides_rates_and_memory_and_no_counts() -> None:
    shown = masked(LAYOUT.format("12.345", 20, "0.000", "1.5"))
    assert shown == masked(LAYOUT.format("9.1", 20, "123456.789", "0.001"))
    assert shown != masked(LAYOUT.format("12.345", 21, "0.000", "1.5"))
    assert "N tokens-per-sec" in shown
    unfinished = LAYOUT.format("12.345", 20, "0.000", "1.5").removesuffix("\n")
    assert masked(unfinished) == unfinished
