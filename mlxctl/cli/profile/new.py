"""`mlxctl profile new`."""

import shlex

import click

from mlxctl.cli.app import App
from mlxctl.cli.run import keep, settle_line
from mlxctl.errors import UsageError

_OF_THE_SHELL = "|&;<>"


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--from", "line", metavar='"run …"', help="A command line of mlxctl run, whose settings it keeps")
@click.option("--description", default="", metavar="TEXT", help="One line about it, for `profile list`")
@click.option("--user", is_flag=True, help="For all projects: in your configuration directory")
@click.pass_obj
def command(app: App, name: str, line: str | None, description: str, user: bool) -> None:
    """Write a new profile, never over another, and print the path of its file.

    It goes to the .mlxctl/ folder of this one or the nearest parent that has one (up to the repository), else to a
    new .mlxctl/ here. A NAME with a / or at its end .toml is taken as a path.

    \b
    mlxctl profile new review
        every setting as a comment, with its default
    mlxctl profile new short --from 'run -P demo -m 40 --system-prompt "Be brief."'
        what that command line sets; run --save-profile does the same when a run has worked
    """
    from mlxctl.profiles.new import plan

    resolved = settle_line(app, _words(line)) if line is not None else None
    planned = plan(name, resolved, description, user=user)
    keep(app, planned)
    app.stdout.write(f"{planned.path}\n")


def _words(line: str) -> list[str]:
    """The words after `run`, split as a shell would."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=_OF_THE_SHELL)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise UsageError(f"--from: {str(error).lower()}: {line}") from None
    words = words[1:] if words[:1] == ["mlxctl"] else words
    if words[:1] != ["run"]:
        raise UsageError(f'--from: expected a command line of mlxctl run, got "{line}"', hint='as in "run --temp 0.7"')
    for word in words:
        if word and not word.strip(_OF_THE_SHELL):
            raise UsageError(f"--from: {word} is the shell's: give one command alone (or put it in quotes)")
    return words[1:]
