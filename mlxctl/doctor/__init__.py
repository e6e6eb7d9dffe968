"""What may be wrong with this machine and what is set up on it: rows of checks, each with its mend.

A check is a function under `@check("name")` in a module of this package; it yields rows, or raises MlxctlError for what
fails. Nothing here uses the network.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from mlxctl.errors import ExitStatus, MlxctlError, first_line
from mlxctl.settings import Settings

State = Literal["ok", "warning", "fail"]
_MODULES = ("machine", "backend", "places", "contents")  # in the order of the rows


@dataclass(frozen=True)
class Row:
    """What was found. mend: what to do about it. status: of the process, where it fails."""

    check: str
    state: State
    found: str
    mend: str | None = None
    status: int = ExitStatus.OK


@dataclass(frozen=True)
class Found:
    """A row before it has its check's name."""

    state: State
    text: str
    mend: str | None = None
    status: int = ExitStatus.FAULT


@dataclass(frozen=True)
class Patient:
    """What is looked at. settings: of the profile and model that were chosen; None where those are wrong."""

    settings: Settings | None
    environ: Mapping[str, str]


Check = Callable[[Patient], Iterator[Found]]
_CHECKS: dict[str, Check] = {}


def check(name: str) -> Callable[[Check], Check]:
    """Register a check under the name that its rows carry."""

    def register(check: Check) -> Check:
        _CHECKS[name] = check
        return check

    return register


def ok(text: str) -> Found:
    return Found("ok", text)


def warning(text: str, mend: str | None = None) -> Found:
    return Found("warning", text, mend)


def fail(text: str, mend: str | None = None, status: int = ExitStatus.FAULT) -> Found:
    return Found("fail", text, mend, status)


def examine(patient: Patient) -> Iterator[Row]:
    """All rows, one after the other, as they are found."""
    for module in _MODULES:
        import_module(f"{__name__}.{module}")
    for name, check in _CHECKS.items():
        for found in _guarded(check, patient):
            status = found.status if found.state == "fail" else ExitStatus.OK
            yield Row(name, found.state, found.text, found.mend, status)


def _guarded(check: Check, patient: Patient) -> Iterator[Found]:
    """What a check finds; what it stumbles over is found, too."""
    try:
        yield from check(patient)
    except MlxctlError as error:
        yield fail(error.message, error.hint, error.exit_status)
    except Exception as error:  # a machine may be broken in ways that nobody has thought of
        yield fail(f"this cannot be checked: {type(error).__name__}: {first_line(error)}")
