"""The parser of `mlxctl generate` against the one of the installed mlx_lm.generate, flag by flag."""

import argparse
import contextlib
import io
from typing import Any

import pytest
from mlx_lm.generate import setup_arg_parser

from mlxctl.cli.generate import make_parser

UPSTREAM = setup_arg_parser()
OURS = make_parser()
NOT_UPSTREAMS = {"profile"}
ACTIONS = [action for action in UPSTREAM._actions if action.dest != "help"]
TEXTS = (
    "", " ", "1", "-1", "+1", "007", " 7 ", "1_000", "0x10", "1.5", "1e3", "inf", "nan", "18446744073709551616", "abc",
    "0", "True", "true", "T", "t", "False", "FALSE", "F", "f", " f", "no", "off", "-", "{}", "ü",
)  # fmt: skip
HABITS = (
    [], ["-p", "-"], ["-p", "-1"], ["-p", "-x"], ["-phi"], ["-p=hi"], ["-p", "a", "-p", "b"], ["-p"], ["--prompt="],
    ["-m", "5"], ["-m5"], ["-m=5"], ["-m", "-1"], ["-m", "1e3"], ["--temp", "-1"], ["--temp", "-1e3"], ["--temp=-1"],
    ["--temp", "-.5"], ["--top-k", "-1"], ["-qa"], ["-q"], ["-qap"], ["-qa", "1"], ["--image", "a", "b"], ["--image"],
    ["--image", "a", "--image", "b"], ["--extra-eos-token", "A", "B", "-m", "3"], ["--extra-eos-token", "-1"],
    ["--extra-eos-token", "A", "--", "B"], ["--", "word"], ["word"], ["--"], ["--verbose"], ["--verbose", "no"],
    ["--trust-remote-code", "--trust-remote-code"], ["--trust-remote-code=1"], ["--no-trust-remote-code"], ["--MODEL"],
    ["-M", "3"], ["--max_tokens", "3"], ["--kv-bits", ""], ["@file"],
)  # fmt: skip


def name_of(action: argparse.Action) -> str:
    """The flag as pytest shows it."""
    return action.option_strings[0]


def our_action(dest: str) -> argparse.Action:
    """Our action of a destination."""
    found = [action for action in OURS._actions if action.dest == dest]
    assert len(found) == 1, f"{dest}: {len(found)} actions of ours"
    return found[0]


def converted(action: argparse.Action, text: str) -> str:
    """What an action makes of one text, as a string that compares (nan does not)."""
    convert: Any = action.type or str
    try:
        return repr(convert(text))
    except (ValueError, TypeError, argparse.ArgumentTypeError) as error:
        return type(error).__name__


def parsed(parser: argparse.ArgumentParser, argv: list[str]) -> dict[str, str] | int | str | None:
    """The namespace that an argv gives, or the status that the parser exits with."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            found = vars(parser.parse_args(argv))
        except SystemExit as left:
            return left.code
    return {key: repr(value) for key, value in found.items() if key not in NOT_UPSTREAMS}


def prefixes(action: argparse.Action) -> list[str]:
    """Every spelling of the action's long flag from --x on, cut short or whole."""
    flag = next(text for text in action.option_strings if text.startswith("--"))
    return [flag[:size] for size in range(3, len(flag) + 1)]


@pytest.mark.parametrize("action", ACTIONS, ids=name_of)
def test_same_action(action: argparse.Action) -> None:
    ours = our_action(action.dest)
    for field in ("option_strings", "dest", "nargs", "const", "default", "choices", "required"):
        assert (field, getattr(ours, field)) == (field, getattr(action, field))
    assert type(ours.default) is type(action.default)
    assert type(ours) is type(action)


@pytest.mark.parametrize("action", ACTIONS, ids=name_of)
def test_same_type(action: argparse.Action) -> None:
    ours = our_action(action.dest)
    assert [converted(ours, text) for text in TEXTS] == [converted(action, text) for text in TEXTS]


@pytest.mark.parametrize("action", ACTIONS, ids=name_of)
def test_same_prefixes(action: argparse.Action) -> None:
    value = [] if action.nargs == 0 else ["1"]
    for prefix in prefixes(action):
        assert (prefix, parsed(OURS, [prefix, *value])) == (prefix, parsed(UPSTREAM, [prefix, *value]))
        assert (prefix, parsed(OURS, [f"{prefix}=1"])) == (prefix, parsed(UPSTREAM, [f"{prefix}=1"]))


def test_no_flag_of_ours_but_profile() -> None:
    assert {action.dest for action in OURS._actions} - {action.dest for action in UPSTREAM._actions} == NOT_UPSTREAMS


@pytest.mark.parametrize("argv", HABITS, ids=" ".join)
def test_same_habits(argv: list[str]) -> None:
    assert parsed(OURS, argv) == parsed(UPSTREAM, argv)


def test_same_parser_settings() -> None:
    for field in ("prefix_chars", "fromfile_prefix_chars", "allow_abbrev", "argument_default", "conflict_handler"):
        assert (field, getattr(OURS, field)) == (field, getattr(UPSTREAM, field))
