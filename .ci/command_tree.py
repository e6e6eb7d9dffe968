"""The commands, flags and arguments of mlxctl as plain data."""

import argparse
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import click

from mlxctl import options
from mlxctl.cli import generate
from mlxctl.cli.main import group
from mlxctl.cli.options import TableOption
from mlxctl.options import Option

# Names of what the shells find, by the metavar that means it.
KINDS = {"PATH": "paths", "SCHEMA": "paths", "FOLDER": "folders", "MODEL": "models", "PROFILE": "profiles",
         "KEY": "keys", "CACHE": "caches", "SESSION": "sessions"}  # fmt: skip


@dataclass(frozen=True)
class Value:
    """What a flag or an argument takes: one of some words, or what the shell finds of a kind, or nothing we know."""

    kind: str = "nothing"
    words: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True)
class Flag:
    """names: every spelling; excludes: the flags that mean the opposite; value None: a switch."""

    names: tuple[str, ...]
    help: str
    value: Value | None = None
    repeatable: bool = False
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Argument:
    name: str
    value: Value
    many: bool


@dataclass(frozen=True)
class Command:
    """path: ("profile", "show"), and () for mlxctl itself."""

    path: tuple[str, ...]
    help: str
    flags: tuple[Flag, ...]
    arguments: tuple[Argument, ...] = ()
    commands: tuple["Command", ...] = ()

    @property
    def name(self) -> str:
        return " ".join(self.path)


def program() -> Command:
    """The whole of mlxctl."""
    return _command(group, click.Context(group, info_name="mlxctl", **group.context_settings), (), "")


def _command(command: click.Command, context: click.Context, path: tuple[str, ...], line: str) -> Command:
    if isinstance(command, generate.ArgparseCommand):
        return Command(path, line, tuple(map(_argparse_flag, generate.make_parser()._actions)))
    params = command.get_params(context)
    flags = [flag for param in params if isinstance(param, click.Option) for flag in _click_flags(param)]
    arguments = [_argument(param) for param in params if isinstance(param, click.Argument)]
    commands = list(_subcommands(command, context, path)) if isinstance(command, click.Group) else []
    return Command(path, line, tuple(flags), tuple(arguments), tuple(commands))


def _subcommands(parent: click.Group, context: click.Context, path: tuple[str, ...]) -> Iterator[Command]:
    lines = getattr(parent, "lines", {})
    for name in parent.list_commands(context):
        command = parent.get_command(context, name)
        if command and not command.hidden:
            inner = click.Context(command, info_name=name, parent=context)
            yield _command(command, inner, (*path, name), lines.get(name) or command.get_short_help_str(100))


def _click_flags(param: click.Option) -> Iterator[Flag]:
    """The flag, and --no-flag where it has one."""
    if param.hidden:
        return
    yes, no = _ordered(param.opts), _ordered(param.secondary_opts)
    value = None if param.is_flag else _click_value(param)
    yield Flag(yes, first_sentence(param.help or ""), value, param.multiple, no)
    if no:
        yield Flag(no, f"Undo {max(yes, key=len)}", None, param.multiple, yes)


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    """Short ones first: click 8.2 keeps those of --help in a set."""
    return tuple(sorted(names, key=lambda name: (name.startswith("--"), name)))


def _click_value(param: click.Option) -> Value:
    if isinstance(param, TableOption):
        return replace(_row_value(param.row), optional=isinstance(param.flag_value, str))
    return _plain_value(param)


def _plain_value(param: click.Parameter) -> Value:
    if isinstance(param.type, click.Choice):
        return Value("words", tuple(map(str, param.type.choices)))
    return Value(KINDS.get((param.metavar or "").strip("[]."), "nothing"))


def _row_value(row: Option) -> Value:
    if row.choices:
        return Value("words", tuple(map(str, row.choices)))
    if row.metavar == "BOOL":
        return Value("words", ("true", "false"))
    return Value(KINDS.get(row.metavar, "nothing"))


def _argument(param: click.Argument) -> Argument:
    """A list of profiles may hold files too."""
    value, many = _plain_value(param), param.nargs != 1
    if many and value.kind == "profiles":
        value = Value("profile_files")
    return Argument(param.human_readable_name.strip("[].").lower(), value, many)


def _argparse_flag(action: argparse.Action) -> Flag:
    rows = {row.flag_name: row for row in options.options()}
    row = next((rows[name] for name in action.option_strings if name in rows), None)
    value = None if action.nargs == 0 else Value("profiles") if action.dest == "profile" else Value()
    if row and value:
        value = _row_value(row)
    text = (action.help or "").replace("%%", "%")
    return Flag(tuple(action.option_strings), first_sentence(text), value, action.nargs == "+")


def first_sentence(text: str) -> str:
    """The first sentence of a help text, without its full stop and click's remarks."""
    bare = text.partition("  [default")[0].removesuffix(" (repeatable)")
    first = re.split(r"\.\s", bare + " ", maxsplit=1)[0]
    return " ".join(first.split())


def walk(command: Command) -> Iterator[Command]:
    """A command and all below it."""
    yield command
    for inner in command.commands:
        yield from walk(inner)
