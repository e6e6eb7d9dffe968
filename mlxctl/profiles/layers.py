"""Layers of settings: flags over variables over a profile and those it extends over the defaults."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl import options
from mlxctl.errors import UsageError
from mlxctl.profiles.files import Profile, Value, unknown_key
from mlxctl.profiles.search import chain, unnamed
from mlxctl.settings import Settings

# Settings that stand for each other: a layer that sets one of them replaces the other.
_EITHER = (frozenset({"prompt.system", "prompt.system_file"}),)
# Variables of the program itself, beside those that set a setting.
OWN_VARIABLES = ("MLXCTL_PROFILE", "MLXCTL_DEBUG")


@dataclass(frozen=True)
class Resolved:
    """What a run will use. profile: the one in use and those it extends, the strongest first. unset: as asked for."""

    settings: Settings
    values: Mapping[str, Value]
    profile: Sequence[Profile] = ()
    unset: Sequence[str] = ()


def load_profile(name: str) -> Settings:
    """The settings of a profile over the built-in defaults, without flags or variables. Raises UsageError."""
    return resolve({}, {}, name).settings


def resolve(flags: Mapping[str, Any], environ: Mapping[str, str], profile: str | None,
            unset: Sequence[str] = ()) -> Resolved:  # fmt: skip
    """Layer flags over variables over the profile and those it extends over the defaults.

    flags: by key. profile: None takes MLXCTL_PROFILE, or `default` where there is one. unset: keys whose values in
    the profile and those it extends do not count.
    """
    name = profile if profile is not None else environ.get("MLXCTL_PROFILE") or None
    found = chain(name) if name is not None else unnamed()
    values = _defaults()
    for layer in reversed(found):
        values = _over(values, layer.values)
    values = _over(_dropped(values, unset), dict(_from_variables(environ)))
    values = _over(values, {key: _from_flag(key, value) for key, value in flags.items()})
    return _resolved(values, name or (found[0].name if found else None), found, unset)


def resolve_as_upstream(flags: Mapping[str, Any], profile: str | None, defaults: Mapping[str, Any]) -> Resolved:
    """Layer flags over the profile, if one is named, over defaults that differ from the table; no variables.

    Flags are taken as they are, as mlx_lm.generate takes them.
    """
    found = chain(profile) if profile is not None else []
    values = _defaults() | {key: Value(value) for key, value in defaults.items()}
    for layer in reversed(found):
        values = _over(values, layer.values)
    values = _over(values, {key: Value(value, "flag", options.by_key()[key].flag_name) for key, value in flags.items()})
    return _resolved(values, profile, found, (), upstream_rules=True)


def _defaults() -> dict[str, Value]:
    return {option.key: Value(option.default) for option in options.options()}


def _over(values: Mapping[str, Value], layer: Mapping[str, Value]) -> dict[str, Value]:
    """Put a layer over those below it."""
    merged = {**values, **layer}
    for either in _EITHER:
        if either & layer.keys():
            merged |= {key: Value(None) for key in either - layer.keys()}
    return merged


def _resolved(values: Mapping[str, Value], name: str | None, found: Sequence[Profile],
              unset: Sequence[str], *, upstream_rules: bool = False) -> Resolved:  # fmt: skip
    plain = {key: value.value for key, value in values.items()}
    return Resolved(options.build(plain, profile=name, upstream_rules=upstream_rules), values, found, unset)


def _dropped(values: dict[str, Value], unset: Sequence[str]) -> dict[str, Value]:
    """Put the default in the place of the profile's values for these keys; free keys go away."""
    for name in unset:
        key = _key_to_drop(name, values)
        option = options.by_key().get(key)
        if option is None:
            del values[key]
        elif values[key].layer != "default":
            values[key] = Value(option.default, "--unset")
    return values


def _key_to_drop(name: str, values: Mapping[str, Value]) -> str:
    """The key that somebody means by "sampler.temp", "temp" or "template.enable_thinking"."""
    known = [option.key for option in options.options() if option.in_profile]
    if name in known or (name in values and name.startswith("template.")):
        return name
    named = [key for key in known if key.partition(".")[2] == name]
    if named:
        return named[0]
    if name.startswith("template."):
        raise UsageError(f"--unset {name}: the profile does not set it")
    raise UsageError(f"--unset {unknown_key(name, known)}")


def _from_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    rows = {option.env: option for option in options.options() if option.env is not None}
    for name, text in environ.items():
        if name in rows:
            try:
                value = options.parse(rows[name], text)
            except ValueError as error:
                raise UsageError(f"{name}: {error}") from None
            yield rows[name].key, Value(value, "variable", name)
        elif name.startswith("MLXCTL_") and name not in OWN_VARIABLES:
            raise UsageError(_unknown_variable(name, [*rows, *OWN_VARIABLES]))


def _unknown_variable(name: str, known: Sequence[str]) -> str:
    """A mistyped variable would be without effect and without a word."""
    import difflib

    flag = "--" + name.removeprefix("MLXCTL_").lower().replace("_", "-")
    if any(flag == option.flag_name for option in options.options()):
        return f"{name}: no variable sets this; give {flag}"
    near = difflib.get_close_matches(name, known, 1)
    return f"{name}: no such variable" + (f"; did you mean {near[0]}?" if near else "")


def _from_flag(key: str, value: Any) -> Value:
    option = options.by_key()[key]
    try:
        return Value(options.check(option, value), "flag", option.flag_name)
    except ValueError as error:
        raise UsageError(f"{option.flag_name}: {error}") from None
