"""`mlxctl generate` and `mlx_lm.generate`, the real programs, on the same command lines."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Forked, Result
from forked import Server
from parity import CACHES, KINDS, Case, Files, agreeing, failing, masked, mended

AGREEING, FAILING, MENDED = agreeing(), failing(), mended()
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
def mlxctl(server: Server, work: Path) -> Forked:
    """The program under test, forked as upstream is: it is their words that are compared."""
    return Forked("mlxctl", server, work)


@pytest.fixture
def files(tiny: Callable[[str], str], upstream: Forked) -> Files:
    """What the placeholders stand for."""
    return Files(tiny, Forked("mlx_lm.cache_prompt", upstream.server, upstream.cwd))


def both(case: Case, files: Files, mlxctl: Forked, upstream: Forked) -> tuple[Result, Result]:
    """What upstream and we make of one command line."""
    argv = [files.fill(argument) for argument in case.argv]
    return upstream(*argv, input=case.stdin), mlxctl("generate", *argv, input=case.stdin)


@pytest.mark.parametrize("case", AGREEING, ids=ids(AGREEING))
def test_same_stdout_and_status(case: Case, files: Files, mlxctl: Forked, upstream: Forked) -> None:
    theirs, ours = both(case, files, mlxctl, upstream)
    assert "Traceback" not in theirs.err, f"belongs into tracebacks.txt:\n{theirs.err}"
    assert (masked(ours.out), ours.code) == (masked(theirs.out), theirs.code), ours.err
    assert "Traceback" not in ours.err


@pytest.mark.parametrize("case", FAILING, ids=ids(FAILING))
def test_clean_message_where_upstream_has_a_traceback(
    case: Case, files: Files, mlxctl: Forked, upstream: Forked
) -> None:
    theirs, ours = both(case, files, mlxctl, upstream)
    assert "Traceback" in theirs.err, "belongs into cases.txt"
    assert (ours.code, theirs.code) == (1, 1), ours.err
    lines = ours.err.splitlines()
    assert "Traceback" not in ours.err
    assert 1 <= len(lines) <= 3, ours.err
    assert any(re.search(case.names, line) for line in lines), f"{case.names!r} not in {ours.err!r}"


def test_variables_and_default_profile_do_not_reach_generate(files: Files, mlxctl: Forked, upstream: Forked) -> None:
    (mlxctl.cwd / "profiles").mkdir()
    (mlxctl.cwd / "profiles" / "default.toml").write_text(
        '[prompt]\nsystem = "Be brief."\n[generation]\nmax_tokens = 3\n'
    )
    argv = ("--model", files.path("llama"), "-p", "hi", "-m", "8")
    ours = mlxctl(
        "generate", *argv, env={"MLXCTL_TEMP": "1", "MLXCTL_PROFILE": "demo", "MLXCTL_IGNORE_CHAT_TEMPLATE": "1"}
    )
    theirs = upstream(*argv)
    assert (masked(ours.out), ours.code) == (masked(theirs.out), 0), ours.err


def test_help_names_every_flag_of_upstream(mlxctl: Forked, upstream: Forked) -> None:
    ours, theirs = mlxctl("generate", "--help"), upstream("--help")
    flags = re.findall(r"(?<!\S)--?[a-z][\w-]*", theirs.out)
    assert (ours.code, theirs.code, len(flags) > 30) == (0, 0, True)
    assert [flag for flag in flags if flag not in ours.out] == []


def test_prefill_step_of_zero_does_not_hang(files: Files, mlxctl: Forked) -> None:
    """Forked loops for ever."""
    done = mlxctl("generate", "--model", files.path("llama"), "--prefill-step-size", "0", "-m", "4")
    assert done.code == 1
    assert re.search("prefill.step.size", done.err)


def test_prompt_cache_and_bare_suffix_get_no_second_bos(files: Files, mlxctl: Forked) -> None:
    """Forked's program sets a BOS in mid-sequence; the answer must be its library's to the suffix without one."""
    from mlx_lm import generate, load
    from mlx_lm.models.cache import load_prompt_cache

    path = files.path("cache-spm")
    model, tokenizer = load(files.path("spm"))
    ids = tokenizer.encode(" What then?", add_special_tokens=False)
    text = generate(model, tokenizer, ids, max_tokens=12, prompt_cache=load_prompt_cache(path))
    argv = ("--ignore-chat-template", "-p", " What then?", "-m", "12", "--verbose", "False")
    assert mlxctl("generate", "--prompt-cache-file", path, *argv).out == text + "\n"


def test_prompt_cache_is_not_written_to(files: Files, mlxctl: Forked) -> None:
    path = Path(files.path("cache-llama"))
    before = path.read_bytes()
    assert mlxctl("generate", "--prompt-cache-file", str(path), "-p", " What then?", "-m", "4").code == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize(("case", "meant"), MENDED, ids=ids([case for case, _ in MENDED]))
def test_upstreams_answer_to_what_was_meant(
    case: Case, meant: Case, files: Files, mlxctl: Forked, upstream: Forked
) -> None:
    theirs, ours = both(case, files, mlxctl, upstream)
    wanted = upstream(*map(files.fill, meant.argv), input=meant.stdin)
    assert wanted.code == 0, wanted.err
    assert (masked(ours.out), ours.code) == (masked(wanted.out), 0), ours.err
    assert (masked(theirs.out), theirs.code) != (masked(ours.out), ours.code), "belongs into cases.txt"


def test_tables_are_large_enough_and_use_every_model() -> None:
    cases = AGREEING + FAILING + [case for case, _ in MENDED]
    argv = " ".join(case.line for case in cases)
    assert len(AGREEING) >= 55
    assert len({case.line for case in cases}) == len(cases)
    assert [name for name in (*KINDS, *CACHES, "adapter") if f"{{{name}}}" not in argv] == []


def test_every_flag_of_upstream_is_in_a_table() -> None:
    from mlx_lm.generate import setup_arg_parser

    used = {word.partition("=")[0] for case in AGREEING + FAILING for word in case.argv}
    unused = [action.dest for action in setup_arg_parser()._actions if not used.intersection(action.option_strings)]
    assert unused == ["help"]


def test_mask_hides_rates_and_memory_and_no_counts() -> None:
    shown = masked(LAYOUT.format("12.345", 20, "0.000", "1.5"))
    assert shown == masked(LAYOUT.format("9.1", 20, "123456.789", "0.001"))
    assert shown != masked(LAYOUT.format("12.345", 21, "0.000", "1.5"))
    assert "N tokens-per-sec" in shown
    unfinished = LAYOUT.format("12.345", 20, "0.000", "1.5").removesuffix("\n")
    assert masked(unfinished) == unfinished
