"""Profiles: find them, check them, and layer them under flags and variables. Every value keeps its origin."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxctl import options, paths
from mlxctl.errors import UsageError, first_line
from mlxctl.options import Option
from mlxctl.settings import SECTIONS, Settings
from mlxctl.toml_lines import line_of, lines_of

_TOP = {"extends": str, "description": str}
_TABLES = [name for name in SECTIONS if name != "request"] + ["template"]
_TRUST = "model.trust_remote_code"
_FILE_KEYS = ("prompt.system_file", "prompt.files")  # what a profile reads stays inside its folder
_FOLDER_KEYS = ("model.path", "model.adapter_path", "model.draft_model")  # relative where they begin with a dot


@dataclass(frozen=True)
class Value:
    """A setting's value and where it came from: "flag --temp", "variable MLXCTL_TEMP", "demo.toml:4", "default"."""

    value: Any
    origin: str


@dataclass(frozen=True)
class Profile:
    """A parsed and checked file. values: by key, such as "sampler.temp"; keys under "template." are free."""

    name: str
    path: Path
    description: str
    extends: str | None
    values: Mapping[str, Value]


@dataclass(frozen=True)
class Resolved:
    """What a run will use."""

    settings: Settings
    values: Mapping[str, Value]


def load_profile(name: str) -> Settings:
    """The settings of a profile over the built-in defaults, without flags or variables. Raises UsageError."""
    return resolve({}, {}, name).settings


def resolve(flags: Mapping[str, Any], environ: Mapping[str, str], profile: str | None) -> Resolved:
    """Layer flags over variables over the profile and those it extends over the defaults.

    flags: by key. profile: None takes MLXCTL_PROFILE, or `default` where there is one.
    """
    values = _defaults()
    name = profile if profile is not None else environ.get("MLXCTL_PROFILE") or None
    found = chain(name) if name is not None else _unnamed()
    for layer in reversed(found):
        values |= layer.values
    values |= dict(_from_variables(environ))
    values |= {key: _from_flag(key, value) for key, value in flags.items()}
    return _resolved(values, name or (found[0].name if found else None))


def resolve_as_upstream(flags: Mapping[str, Any], profile: str | None, defaults: Mapping[str, Any]) -> Resolved:
    """Layer flags over the profile, if one is named, over defaults that differ from the table; no variables.

    Flags are taken as they are, as mlx_lm.generate takes them.
    """
    values = _defaults() | {key: Value(value, "default") for key, value in defaults.items()}
    for layer in reversed(chain(profile) if profile is not None else []):
        values |= layer.values
    values |= {key: Value(value, f"flag {options.by_key()[key].flag_name}") for key, value in flags.items()}
    return _resolved(values, profile, upstream_rules=True)


def _defaults() -> dict[str, Value]:
    return {option.key: Value(option.default, "default") for option in options.options()}


def _resolved(values: Mapping[str, Value], profile: str | None, *, upstream_rules: bool = False) -> Resolved:
    plain = {key: value.value for key, value in values.items()}
    return Resolved(options.build(plain, profile=profile, upstream_rules=upstream_rules), values)


def _unnamed() -> list[Profile]:
    """`default.toml`, where there is one that the user or root owns.

    Nobody asked for it by name, so that one lying in a project may not let a model run code of its own.
    """
    for folder in folders():
        path = folder / "default.toml"
        if path.is_file() and path.stat().st_uid in (os.getuid(), 0):
            found = chain(str(path))
            trust = next((p.values[_TRUST] for p in found if _TRUST in p.values), None)
            if trust is not None and trust.value and not path.is_relative_to(paths.config_dir()):
                raise UsageError(f"{trust.origin}: {_TRUST}: a profile that nobody named may not set it",
                                 hint="name the profile with -P, or give --trust-remote-code")  # fmt: skip
            return found
    return []


def chain(name: str) -> list[Profile]:
    """A profile and those it extends, the strongest first. Raises UsageError for a missing or circular parent."""
    found: list[Profile] = []
    wanted: str | None = name
    while wanted is not None:
        path = find(wanted, said_by=found)
        if path.resolve() in [profile.path.resolve() for profile in found]:
            names = " -> ".join([*(profile.name for profile in found), wanted])
            raise UsageError(f"profile {name}: extends goes in a circle: {names}")
        found.append(read(path))
        wanted = found[-1].extends
    return found


def find(name: str, said_by: Sequence[Profile] = ()) -> Path:
    """The file of a profile, given by name or path. said_by: the profiles that led here by what they extend.

    A path in a profile is relative to its folder.
    """
    by = f" (extended by {' -> '.join(profile.name for profile in said_by)})" if said_by else ""
    if "/" in name or name.endswith(".toml"):
        path = paths.expand(str(Path(said_by[-1].path.parent, name) if said_by else name))
        if path.is_file():
            return path
        raise UsageError(f"profile {name}: {'not a file' if path.exists() else 'no such file'}{by}")
    if not name:
        raise UsageError(f"profile: an empty name names nothing{by}")
    paths.expand(f"{name}.toml")
    for folder in folders():
        path = folder / f"{name}.toml"
        if path.is_file():
            return path
    import difflib

    near = difflib.get_close_matches(name, {path.stem for folder in folders() for path in folder.glob("*.toml")}, 1)
    raise UsageError(f"profile {name}: not found{by}" + (f"; did you mean {near[0]}?" if near else ""))


def folders() -> list[Path]:
    """Where profiles are looked for, the nearest first."""
    return [*_project_folders(), paths.config_dir() / "profiles", paths.shipped_dir("profiles")]


def read(path: Path) -> Profile:
    """Parse and check a file; UsageError names every fault as "file:line: key: what is wrong"."""
    import tomli

    try:
        text = path.read_bytes().decode("utf-8-sig")
        data = tomli.loads(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}") from error
    except tomli.TOMLDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}:{error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply") from error
    except ValueError as error:
        raise UsageError(f"{path}: {first_line(error)}") from error
    lines = lines_of(text)
    faults: list[str] = []
    values: dict[str, Value] = {}
    for where, key, value, fault in _entries(data):
        line = line_of(lines, where)
        if fault is None:
            values[key] = Value(value, f"{path}:{line}")
        else:
            faults.append(f"{path}:{line}: {fault}")
    values, outside = _anchor(values, path.parent)
    faults += outside
    if faults:
        raise UsageError("\n".join(faults))
    return Profile(path.stem, path, data.get("description", ""), data.get("extends"), values)


def _entries(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str, Any, str | None]]:
    """(path in the file, key, value, fault) of everything in a parsed profile."""
    for name, table in data.items():
        if name in _TOP:
            if not isinstance(table, _TOP[name]):
                yield (name,), name, None, f"{name}: expected text, got {table!r}"
        elif name not in _TABLES:
            yield (name,), name, None, _unknown(name, [*_TABLES, *_TOP])
        elif not isinstance(table, dict):
            yield (name,), name, None, f"{name}: expected a table, got {table!r}"
        else:
            yield from _section(name, table)


def _section(name: str, table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str, Any, str | None]]:
    for field, value in table.items():
        key, where = f"{name}.{field}", (name, field)
        option = options.by_key().get(key)
        if name == "template":
            yield where, key, value, None
        elif option is None:
            yield where, key, None, _unknown(key, [o.key for o in options.options() if o.in_profile])
        else:
            checked, fault = _checked(option, value)
            yield where, key, checked, fault


def _checked(option: Option, value: Any) -> tuple[Any, str | None]:
    try:
        return options.check(option, value), None
    except ValueError as error:
        return None, f"{option.key}: {error}"


def _unknown(key: str, known: list[str]) -> str:
    """Say that a key does not exist, and the nearest that does: by its own name first, wherever it stands."""
    import difflib

    section, _, name = key.rpartition(".")
    here = {k.rpartition(".")[2]: k for k in known if k.rpartition(".")[0] == section}
    anywhere = {k.rpartition(".")[2]: k for k in known}
    if name in anywhere:
        return f"{key}: no such key; did you mean {anywhere[name]}?"
    for names, cutoff in ((here, 0.6), (anywhere, 0.75)):
        for near in difflib.get_close_matches(name, names, 1, cutoff):
            return f"{key}: no such key; did you mean {near if names is here else names[near]}?"
    return f"{key}: no such key"


def _anchor(values: dict[str, Value], folder: Path) -> tuple[dict[str, Value], list[str]]:
    """Read file names relative to the profile's folder; name those that lead out of it."""
    faults = []
    for key in _FILE_KEYS:
        if key in values:
            value, origin = values[key].value, values[key].origin
            names = value if isinstance(value, list) else [value]
            faults += [f"{origin}: {key}: {name!r} names no file in the profile's folder" for name in names
                       if not _inside(folder, name)]  # fmt: skip
            anchored = [str(folder / name) for name in names]
            values[key] = Value(anchored if isinstance(value, list) else anchored[0], origin)
    for key in _FOLDER_KEYS:
        if key in values and values[key].value.startswith(("./", "../")):
            values[key] = Value(str(folder / values[key].value), values[key].origin)
    return values, faults


def _inside(folder: Path, name: str) -> bool:
    """Whether a name stays inside a folder."""
    try:
        return bool(name) and (folder / name).resolve().is_relative_to(folder.resolve())
    except (ValueError, OSError):
        return False


def _project_folders() -> Iterator[Path]:
    """`.mlxctl/` and `profiles/` of the working directory and its parents, not above the repository or the home
    directory."""
    try:
        start = Path.cwd()
    except FileNotFoundError:
        return  # the working directory was deleted
    for folder in (start, *start.parents):
        yield from (folder / name for name in (".mlxctl", "profiles") if (folder / name).is_dir())
        if (folder / ".git").exists() or folder == Path.home():
            return


def _from_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    for option in options.options():
        if option.env is not None and option.env in environ:
            try:
                value = options.parse(option, environ[option.env])
            except ValueError as error:
                raise UsageError(f"{option.env}: {error}") from None
            yield option.key, Value(value, f"variable {option.env}")


def _from_flag(key: str, value: Any) -> Value:
    option = options.by_key()[key]
    try:
        return Value(options.check(option, value), f"flag {option.flag_name}")
    except ValueError as error:
        raise UsageError(f"{option.flag_name}: {error}") from None
