"""`mlxctl profile path`."""

import click

from mlxctl import profiles
from mlxctl.cli.app import App


@click.command()
@click.argument("name", required=False, metavar="[PROFILE]")
@click.pass_obj
def command(app: App, name: str | None) -> None:
    """Print the file of a profile; without a name, the folders where profiles are looked for, the nearest first."""
    found = [profiles.find(name)] if name is not None else profiles.folders()
    app.stdout.write("".join(f"{path}\n" for path in found))
