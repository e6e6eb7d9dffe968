"""`mlxctl profile show`."""

from typing import Any, Literal

import click

from mlxctl import options, profiles
from mlxctl.cli.app import App
from mlxctl.cli.options import TableCommand, flags, parameters, unset_option
from mlxctl.output.json import encode
from mlxctl.profiles import Resolved, Value
from mlxctl.profiles.files import as_written

_FLAGS = [row for row in options.options() if row.in_profile and row.key != "output.format"]  # --format is taken here


@click.command(cls=TableCommand, params=[unset_option(), *parameters(_FLAGS)])
@click.argument("profile", required=False, metavar="[PROFILE]")
@click.option("--origin", is_flag=True, help="Every value, defaults too, each with where it came from")
@click.option("--format", "form", type=click.Choice(["toml", "json"]), default="toml", help="TOML, or JSON")
@click.pass_obj
def command(app: App, /, profile: str | None, origin: bool, form: Literal["toml", "json"], unset: tuple[str, ...],
            **params: Any) -> None:  # fmt: skip
    """Show what a profile comes to: with the profiles it extends, MLXCTL_ variables, and flags of `mlxctl run`.

    Without a name: the profile that a run would use now. What is printed is a profile itself: `extends` is worked in.
    """
    resolved = profiles.resolve(flags(params), app.environ, profile, unset)
    app.stdout.write(_toml(resolved, origin) if form == "toml" else _json(resolved, origin))


def _shown(resolved: Resolved, everything: bool) -> dict[str, Value]:
    """What a profile can hold of the values: all of them, or those that something has set."""
    held = {key: value for key, value in resolved.values.items() if not key.startswith("request.")}
    return {key: value for key, value in held.items() if everything or value.layer not in ("default", "--unset")}


def _toml(resolved: Resolved, origin: bool) -> str:
    from mlxctl.profiles.text import as_toml

    values, description = _shown(resolved, origin), ""
    if resolved.profile:
        values, description = as_written(values, resolved.profile[0].path.parent), resolved.profile[0].description
    return as_toml(values, description, origins=origin)


def _json(resolved: Resolved, origin: bool) -> str:
    sections: dict[str, dict[str, Any]] = {}
    for key, value in _shown(resolved, origin).items():
        section, _, name = key.partition(".")
        found = {"value": value.value, "origin": value.origin} if origin else value.value
        sections.setdefault(section, {})[name] = found
    chain = [{"name": profile.name, "path": str(profile.path)} for profile in resolved.profile]
    description = resolved.profile[0].description if resolved.profile else None
    return encode({"profiles": chain, "description": description, "settings": sections}) + "\n"
