"""`mlxctl profile show`."""

from pathlib import Path
from typing import Any

import click

from mlxctl import options, profiles
from mlxctl.cli.app import App
from mlxctl.cli.options import GroupedOption, TableCommand, flags, parameters, profile_option, unset_option
from mlxctl.errors import UsageError
from mlxctl.output.json import encode
from mlxctl.profiles import Resolved, Value, places

_FLAGS = [row for row in options.options() if row.in_profile and row.key != "output.format"]  # --format is taken here
_ORIGIN = GroupedOption(["--origin"], group="What is shown", is_flag=True, help="Every value, defaults too, each with "
                        "where it came from")  # fmt: skip
_FORMAT = GroupedOption(["--format", "form"], group="What is shown", type=click.Choice(["toml", "json"]),
                        default="toml", help="TOML (the default), or JSON")  # fmt: skip


@click.command(cls=TableCommand, params=[_ORIGIN, _FORMAT, profile_option(), unset_option(), *parameters(_FLAGS)])
@click.argument("name", required=False, metavar="[PROFILE]")
@click.pass_obj
def command(app: App, /, name: str | None, profile: str | None, origin: bool, form: str, unset: tuple[str, ...],
            **params: Any) -> None:  # fmt: skip
    """Show what a profile comes to: with the profiles it extends, MLXCTL_ variables, and flags of `mlxctl run`.

    Without a name: what a run would use now. What is printed is a profile, with `extends` worked in. A file that lies
    outside the profile's folder, where a profile may not read, is shown as a comment.
    """
    if name is not None and profile is not None:
        raise UsageError(f"profile {name}, or -P {profile}? Give one")
    resolved = profiles.resolve(flags(params), app.environ, name if name is not None else profile, unset)
    for warning in profiles.enforce(resolved):
        app.say(warning)
    values = _shown(resolved, origin)
    if not values:
        app.say("nothing is set: every value is the default")
    app.stdout.write(_toml(resolved, values, origin) if form == "toml" else _json(resolved, values, origin))


def _shown(resolved: Resolved, everything: bool) -> dict[str, Value]:
    """What a profile can hold of the values: all of them, or those that something has set."""
    values = {key: places.from_here(key, value) for key, value in resolved.values.items()}
    return {key: value for key, value in values.items()
            if (everything and _is_worth_showing(key, value)) or _is_set(key, value)}  # fmt: skip


def _is_set(key: str, value: Value) -> bool:
    return not key.startswith("request.") and value.layer not in ("default", "--unset") and value.value is not None


def _is_worth_showing(key: str, value: Value) -> bool:
    """Of what belongs to one call, only what somebody has set."""
    return not key.startswith("request.") or value.layer != "default"


def _toml(resolved: Resolved, values: dict[str, Value], origin: bool) -> str:
    from mlxctl.profiles.text import as_toml

    profile = resolved.profile[0] if resolved.profile else None
    return as_toml(values, profile.path.parent if profile else Path("/nowhere"), profile.description if profile else "",
                   origins=origin)  # fmt: skip


def _json(resolved: Resolved, values: dict[str, Value], origin: bool) -> str:
    sections: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.partition(".")
        found = {"value": value.value, "origin": value.origin} if origin else value.value
        sections.setdefault(section, {})[name] = found
    chain = [{"name": profile.name, "path": str(profile.path)} for profile in resolved.profile]
    description = resolved.profile[0].description if resolved.profile else None
    return encode({"profiles": chain, "description": description, "settings": sections}) + "\n"
