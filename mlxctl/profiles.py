"""Profiles: find them, check them, and layer them under flags and variables. Every value keeps its origin."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxctl import options, paths
from mlxctl.errors import UsageError
from mlxctl.options import Option
from mlxctl.settings import SECTIONS, Settings
from mlxctl.toml_lines import line_of, lines_of

_TOP = {"extends": str, "description": str}
_TABLES = [name for name in SECTIONS if name != "request"] + ["template"]
_PATH_KEYS = ("prompt.system_file", "prompt.files")  # files that a profile names stay inside its folder


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


def resolve(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    profile: str | None,
    *,
    defaults: Mapping[str, Any] | None = None,
    upstream_rules: bool = False,
) -> Resolved:
    """Layer flags over variables over the profile and those it extends over the defaults.

    flags: by key, already of the right types. defaults: of a command that differs from the table.
    upstream_rules: flags are taken as they are, as mlx_lm.generate takes them.
    """
    values = {option.key: Value(option.default, "default") for option in options.options()}
    values |= {key: Value(value, "default") for key, value in (defaults or {}).items()}
    for parent in reversed(chain(profile) if profile is not None else []):
        values |= parent.values
    values |= dict(_from_variables(environ))
    values |= {key: _from_flag(key, value, checked=not upstream_rules) for key, value in flags.items()}
    plain = {key: value.value for key, value in values.items()}
    return Resolved(options.build(plain, profile=profile, upstream_rules=upstream_rules), values)


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
        path = Path(said_by[-1].path.parent if said_by else "", name).expanduser()
        if path.is_file():
            return path
        raise UsageError(f"profile {name}: no such file{by}")
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
        text = path.read_bytes().decode()
        data = tomli.loads(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}") from error
    except tomli.TOMLDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}:{error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply") from error
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
    for key in _PATH_KEYS:
        if key in values:
            value, origin = values[key].value, values[key].origin
            names = value if isinstance(value, list) else [value]
            faults += [f"{origin}: {key}: {name} leads out of the profile's folder" for name in names
                       if not (folder / name).resolve().is_relative_to(folder.resolve())]  # fmt: skip
            anchored = [str(folder / name) for name in names]
            values[key] = Value(anchored if isinstance(value, list) else anchored[0], origin)
    return values, faults


def _project_folders() -> Iterator[Path]:
    """`.mlxctl/` and `profiles/` of the working directory and its parents, not above the repository or the home
    directory."""
    start = Path.cwd()
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


def _from_flag(key: str, value: Any, *, checked: bool) -> Value:
    option = options.by_key()[key]
    try:
        return Value(options.check(option, value) if checked else value, f"flag {option.flag_name}")
    except ValueError as error:
        raise UsageError(f"{option.flag_name}: {error}") from None


def default_profile(environ: Mapping[str, str]) -> str | None:
    """The profile when no flag names one: MLXCTL_PROFILE, else `default` where such a file is found."""
    named = environ.get("MLXCTL_PROFILE", "")
    if named:
        return named
    return "default" if any((folder / "default.toml").is_file() for folder in folders()) else None
