"""The slash-commands of a chat: one function each, registered with what it takes; its docstring is its help.

A new one is a function in a module of this package, under `@command("/name ARGUMENTS", completes="files")`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from mlxctl.errors import UsageError, did_you_mean, nearest

if TYPE_CHECKING:
    from mlxctl.chat.chat import Chat

_MODULES = ("turns", "settings", "sessions", "files", "looking")
# A path is no command: no command has a second slash, or a capital.
_COMMAND = re.compile(r"/([a-z]+|\?)(?:\s+(.*))?", re.DOTALL)
_BARE = {"q": "exit", "r": "clear", "h": "help"}  # mlx_lm.chat's
_ALSO = {"bye": "exit", "quit": "exit", "?": "help", "retry": "regen", "show": "settings"}  # as others call them
KINDS = ("", "commands", "files", "models", "profiles", "sessions", "settings", "thinking")  # of arguments
_REGISTRY: dict[str, "Command"] = {}
Run = Callable[["Chat", str], None]


@dataclass(frozen=True)
class Command:
    """A slash-command. usage: its arguments; completes: what kind of argument it takes (see `chat.completer`)."""

    name: str
    usage: str
    help: str
    run: Run
    completes: str


def command(usage: str, completes: str = "") -> Callable[[Run], Run]:
    """Register a function as a slash-command."""

    def register(run: Run) -> Run:
        name, _, arguments = usage.removeprefix("/").partition(" ")
        text = " ".join((run.__doc__ or "").split())
        assert completes in KINDS, completes  # noqa: S101 a mistake of ours
        _REGISTRY[name] = Command(name, arguments, text, run, completes)
        return run

    return register


def commands() -> Mapping[str, Command]:
    """All of them, in the order of the help."""
    for module in _MODULES:
        import_module(f"{__name__}.{module}")
    return _REGISTRY


def parse(line: str) -> tuple[Command, str] | None:
    """(command, its arguments) of a line; None for a text that is meant for the model.

    Raises UsageError for a command that does not exist, or takes no arguments and was given some.
    """
    if line.strip() in _BARE:
        return commands()[_BARE[line.strip()]], ""
    found = _COMMAND.fullmatch(line.rstrip())
    if found is None:
        return None
    name, arguments = _ALSO.get(found[1], found[1]), (found[2] or "").strip()
    known = commands().get(name)
    if known is None:
        near = did_you_mean(nearest(name, commands()))
        raise UsageError(f"/{name}: no such command{near}", hint="/help lists them; a space before it sends it as text")
    if arguments and not known.usage:
        raise UsageError(f"/{name} takes nothing after it")
    if not arguments and known.usage and not known.usage.startswith("["):
        raise UsageError(f"/{name}: expected {known.usage}")
    return known, arguments


def one_of(what: str, word: str, choices: Iterable[str]) -> str:
    """A word that must be one of some. Raises UsageError."""
    if word not in (known := list(choices)):
        raise UsageError(f"{what}: expected {', '.join(known)}, got {word!r}")
    return word


def number(what: str, text: str, default: int) -> int:
    """A count that may be left out. Raises UsageError."""
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < 1:
        raise UsageError(f"{what}: expected a number of at least 1, got {text!r}")
    return int(text)
