"""A command group that imports a command when it is asked for."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from mlxctl.errors import did_you_mean, nearest


class LazyGroup(click.Group):
    """`lines` maps names to their line of help; each is `command` in the module of that name in `package`.

    The lines stand in the group, so that they can be listed without importing any command.
    """

    def __init__(self, *args: Any, package: str, lines: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.package = package
        self.lines = lines

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lines:
            ctx.fail(f"no such command: {cmd_name}{did_you_mean(nearest(cmd_name, self.lines))}")
        command: click.Command = import_module(f"{self.package}.{cmd_name.replace('-', '_')}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.lines.items()))
