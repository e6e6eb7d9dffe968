"""`mlxctl profile validate`."""

from collections.abc import Iterator

import click

from mlxctl import profiles
from mlxctl.cli.app import App
from mlxctl.errors import ExitStatus, UsageError


@click.command()
@click.argument("names", nargs=-1, metavar="[PROFILE]...")
@click.pass_obj
def command(app: App, names: tuple[str, ...]) -> int:
    """Check profiles, given by path or name; without any, all in reach. Exit status 2 if one is wrong.

    Every fault is a line on stdout: file:line: key: what is wrong. The profiles that one extends are checked with it.
    """
    wanted = list(names) or [str(path) for path in profiles.everywhere()]
    faults = list(dict.fromkeys(fault for name in wanted for fault in _faults(app, name)))
    app.stdout.write("".join(f"{fault}\n" for fault in faults))
    if faults:
        return ExitStatus.USAGE
    app.say(f"{len(wanted)} profile{'s are' if len(wanted) != 1 else ' is'} in order")
    return ExitStatus.OK


def _faults(app: App, name: str) -> Iterator[str]:
    try:
        report = profiles.check(profiles.find(name))
    except UsageError as error:
        yield error.message
        return
    for warning in report.warnings:
        app.say(warning)
    yield from report.faults
