"""`mlxctl profile new`."""

import shlex
from typing import Any

import click

from mlxctl.cli.app import App
from mlxctl.errors import UsageError
from mlxctl.profiles import Resolved


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--from", "line", metavar='"run …"', help="A command line of mlxctl run, whose flags it sets")
@click.option("--description", default="", metavar="TEXT", help="One line about it, for `profile list`")
@click.option("--user", is_flag=True, help="For all projects: in your configuration directory")
@click.pass_obj
def command(app: App, name: str, line: str | None, description: str, user: bool) -> None:
    """Write a new profile: .mlxctl/NAME.toml of this project, or here. A NAME with a / or .toml is taken as a path.

    It names every key, with its default and what it means. Prints the path of the file.
    """
    from mlxctl.profiles.new import plan

    resolved = _resolved(app, line) if line is not None else None
    planned = plan(name, resolved, description, user=user)
    planned.write()
    app.stdout.write(f"{planned.path}\n")
    if planned.left_out:
        app.say(f"left out, for they belong to one call: {', '.join(planned.left_out)}")
    app.say(f'use it with: mlxctl run -P {planned.called} "…"')


def _resolved(app: App, line: str) -> Resolved:
    from mlxctl.cli import run

    context = run.command.make_context("mlxctl run", _words(line), obj=app)
    params: dict[str, Any] = {key: value for key, value in context.params.items()
                              if key not in ("words", "save_profile")}  # fmt: skip
    return run.settle(app, **params)


def _words(line: str) -> list[str]:
    """The words after `run`, split as a shell would."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"--from: {str(error).lower()}: {line}") from None
    words = words[1:] if words[:1] == ["mlxctl"] else words
    if words[:1] != ["run"]:
        raise UsageError(f'--from: expected a command line of mlxctl run, got "{line}"')
    return words[1:]
