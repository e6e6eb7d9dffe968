"""`mlxctl profile schema`."""

import click

from mlxctl.cli.app import App


@click.command()
@click.pass_obj
def command(app: App) -> None:
    """Print a JSON Schema of profiles.

    Keep it as .mlxctl/schema.json, and an editor that knows TOML completes and checks a profile whose first line is
    "#:schema ./schema.json".
    """
    from mlxctl.profiles.schema import schema_text

    app.stdout.write(schema_text())
