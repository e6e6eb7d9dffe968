"""`mlxctl profile`: named settings, found, shown, written and checked."""

import click

from mlxctl.cli.lazy import LazyGroup

COMMANDS = {
    "list": "Profiles in reach, and where each lies",
    "show": "What a profile comes to, and where each value is from",
    "new": "Write a new profile, from a command line if you like",
    "edit": "Change a profile in your editor; it is checked before it is saved",
    "validate": "Check profiles; exit status 2 if any is wrong",
    "path": "The file of a profile, or where profiles are looked for",
    "schema": "A JSON Schema of profiles, for editors",
}


@click.group(cls=LazyGroup, package="mlxctl.cli.profile", lines=COMMANDS)
def command() -> None:
    """Named settings in TOML files, for `-P NAME`.

    A profile is looked for as .mlxctl/NAME.toml and profiles/NAME.toml in the working directory and its parents, in
    your configuration directory, and among those that come with mlxctl.
    """
