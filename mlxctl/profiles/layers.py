"""Layers of settings: flags over variables over a profile and those it extends over the defaults."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlxctl import options, paths
from mlxctl.errors import ProfileError, UsageError, did_you_mean, nearest
from mlxctl.profiles.files import Profile, unknown_key
from mlxctl.profiles.places import FILE_KEYS
from mlxctl.profiles.search import TRUST, chain, is_ours, unnamed
from mlxctl.profiles.values import Value
from mlxctl.settings import Settings

# Settings that stand for each other: a layer that sets one of them replaces the other.
_EITHER = (frozenset({"prompt.system", "prompt.system_file"}),)
# Variables of the program itself, beside those that set a setting.
OWN_VARIABLES = ("MLXCTL_PROFILE", "MLXCTL_DEBUG", "MLXCTL_BLAS")


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
    name, found = _profile(environ, profile)
    values = _over(_from_profiles(found, unset), dict(_from_variables(environ)))
    values = _over(values, _implied({key: _from_flag(key, value) for key, value in flags.items()}))
    if faults := faults_of(found, values):
        raise ProfileError("\n".join(faults))
    return _resolved(values, name, found, unset)


def merged(found: Sequence[Profile]) -> Resolved:
    """What a chain of profiles comes to by itself."""
    return _resolved(_from_profiles(found, ()), found[0].name, found, ())


def resolve_as_upstream(flags: Mapping[str, Any], profile: str | None, defaults: Mapping[str, Any]) -> Resolved:
    """Layer flags over the profile, if one is named, over defaults that differ from the table; no variables.

    Flags are taken as they are, as mlx_lm.generate takes them.
    """
    found = chain(profile) if profile is not None else []
    values = _defaults() | {key: Value(value) for key, value in defaults.items()}
    for layer in reversed(found):
        values = _over(values, layer.values)
    given = {key: Value(value, "flag", options.by_key()[key].flag_name) for key, value in flags.items()}
    return _resolved(_over(values, _implied(given)), profile, found, (), upstream_rules=True)


def faults_of(found: Sequence[Profile], values: Mapping[str, Value]) -> list[str]:
    """What is wrong with what profiles set, beyond each key alone, as "file:line: key: what is wrong"."""
    return [*_missing_files(values), *_trust_of_others(found, values)]


def _missing_files(values: Mapping[str, Value]) -> Iterator[str]:
    """A pipe is not waited for either: somebody's project could name one."""
    for key in FILE_KEYS:
        if key in values and values[key].layer == "profile":
            missing = [name for name in values[key].names() if not paths.is_file(name)]
            yield from (f"{values[key].place}: {key}: no such file: {options.shown(name)}" for name in missing)


def _trust_of_others(found: Sequence[Profile], values: Mapping[str, Value]) -> Iterator[str]:
    """Outside a repository, profiles are looked for up to the root, where anybody may have put one."""
    if TRUST in values and values[TRUST].layer == "profile" and values[TRUST].value:
        setter = next(profile for profile in found if TRUST in profile.values)
        if not is_ours(setter.path):
            yield f"{values[TRUST].place}: {TRUST}: this file belongs to another user and may not set it"


def _profile(environ: Mapping[str, str], named: str | None) -> tuple[str | None, list[Profile]]:
    """(what the profile in use was called, the profile and those it extends)."""
    if named is not None:
        return named, chain(named)
    if name := environ.get("MLXCTL_PROFILE"):
        try:
            return name, chain(name)
        except ProfileError:
            raise
        except UsageError as error:
            raise UsageError(f"MLXCTL_PROFILE: {error.message}", hint=error.hint) from None
    found = unnamed()
    return (found[0].name if found else None), found


def _defaults() -> dict[str, Value]:
    return {option.key: Value(option.default) for option in options.options()}


def _from_profiles(found: Sequence[Profile], unset: Sequence[str]) -> dict[str, Value]:
    """The values of a chain of profiles over the defaults, but for those that shall not count."""
    dropped = {_key_to_drop(name, found) for name in unset}
    values = _defaults()
    for profile in reversed(found):
        values = _over(values, {key: value for key, value in profile.values.items() if key not in dropped})
    gone = {key for key in dropped & values.keys() if any(key in profile.values for profile in found)}
    return values | {key: replace(values[key], layer="--unset") for key in gone if values[key].layer == "default"}


def _over(values: Mapping[str, Value], layer: Mapping[str, Value]) -> dict[str, Value]:
    """Put a layer over those below it. What it replaces by another form of the same thing is empty by its doing."""
    merged = {**values, **layer}
    for either in _EITHER:
        for key in either & layer.keys():
            merged |= {other: replace(layer[key], value=None) for other in either - layer.keys()}
    return merged


def _implied(flags: dict[str, Value]) -> dict[str, Value]:
    """With what --verbose means for the format."""
    verbose = flags.get("request.verbose")
    if verbose is None:
        return flags
    return {"output.format": replace(verbose, value="classic" if verbose.value else "text"), **flags}


def _resolved(values: Mapping[str, Value], name: str | None, found: Sequence[Profile],
              unset: Sequence[str], *, upstream_rules: bool = False) -> Resolved:  # fmt: skip
    plain = {key: value.value for key, value in values.items()}
    return Resolved(options.build(plain, profile=name, upstream_rules=upstream_rules), values, found, unset)


def _key_to_drop(name: str, found: Sequence[Profile]) -> str:
    """The key that somebody means by "sampler.temp", "temp", "--temp" or "template.enable_thinking"."""
    free = {key for profile in found for key in profile.values if key.startswith("template.")}
    known = [option.key for option in options.options() if option.in_profile]
    if name in known or name in free:
        return name
    for option in options.options():
        if option.in_profile and (name == option.name or f"--{name.removeprefix('--')}" == option.flag_name):
            return option.key
    if f"template.{name}" in free:
        return f"template.{name}"
    if name.startswith("template."):
        raise UsageError(f"--unset {options.named(name)}: the profile does not set it")
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
    flag = "--" + name.removeprefix("MLXCTL_").lower().replace("_", "-")
    if any(flag == option.flag_name for option in options.options()):
        return f"{name}: no variable sets this; give {flag}"
    return f"{name}: no such variable{did_you_mean(nearest(name, known))}"


def _from_flag(key: str, value: Any) -> Value:
    option = options.by_key()[key]
    try:
        return Value(options.check(option, value), "flag", option.flag_name)
    except ValueError as error:
        raise UsageError(f"{option.flag_name}: {error}") from None
