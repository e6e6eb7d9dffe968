"""One profile's file: parsed, checked to the line, every value with its origin."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from mlxctl import options
from mlxctl.errors import ProfileError, first_line
from mlxctl.options import Option
from mlxctl.profiles.toml_lines import line_of, lines_of
from mlxctl.settings import SECTIONS

Layer = Literal["flag", "variable", "profile", "--unset", "default"]

_TOP = ("extends", "description")
TABLES = [name for name in SECTIONS if name != "request"] + ["template"]
FILE_KEYS = ("prompt.system_file", "prompt.files")  # what a profile reads stays inside its folder
MODEL_KEYS = ("model.path", "model.adapter_path", "model.draft_model")
_LARGEST = 1 << 20  # bytes; a system prompt of this size would not fit a model
_DEEPEST = 64  # tables and lists in each other: what comes after recurses


@dataclass(frozen=True)
class Value:
    """A setting's value, the layer it came from and the place there: a flag, a variable, or "demo.toml:4"."""

    value: Any
    layer: Layer = "default"
    place: str = ""

    @property
    def origin(self) -> str:
        """ "flag --temp", "variable MLXCTL_TEMP", "demo.toml:4", "--unset" or "default"."""
        if self.layer in ("default", "--unset"):
            return self.layer
        return self.place if self.layer == "profile" else f"{self.layer} {self.place}"

    def names(self) -> list[str]:
        """The file names in it, where it holds some."""
        return self.value if isinstance(self.value, list) else [self.value] if self.value is not None else []

    def renamed(self, change: Callable[[str], str]) -> "Value":
        """With its file names changed."""
        names = [change(name) for name in self.names()]
        return replace(self, value=names if isinstance(self.value, list) else next(iter(names), None))


@dataclass(frozen=True)
class Profile:
    """A parsed and checked file. values: by key, such as "sampler.temp"; keys under "template." are free.

    extends_place: where it says what it extends, "demo.toml:1".
    """

    name: str
    path: Path
    description: str = ""
    extends: str | None = None
    extends_place: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)


def read(path: Path) -> Profile:
    """Parse and check a file; ProfileError names every fault as "file:line: key: what is wrong"."""
    profile, faults = examine(path)
    if faults:
        raise ProfileError("\n".join(faults))
    return profile


def examine(path: Path) -> tuple[Profile, list[str]]:
    """What is good in a file, and every fault of it."""
    try:
        text = _text(path)
        data = _parsed(path, text)
    except ProfileError as error:
        return Profile(path.stem, path), [error.message]
    lines = lines_of(text)
    faults: list[str] = []
    top: dict[str, str] = {}
    values: dict[str, Value] = {}
    for where, key, value, fault in _entries(data):
        place = f"{path}:{line_of(lines, where)}"
        if fault is not None:
            faults.append(f"{place}: {fault}")
        elif key in _TOP:
            top[key] = value
        else:
            values[key] = Value(value, "profile", place)
    values, outside = _anchor(values, path.parent)
    extends_place = f"{path}:{line_of(lines, ('extends',))}"
    return Profile(path.stem, path, **top, extends_place=extends_place, values=values), faults + outside


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}") from error
    if len(data) > _LARGEST:
        raise ProfileError(f"{path}: larger than {_LARGEST} bytes: this is no profile")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ProfileError(f"{path}:{line}: not UTF-8 (byte {error.start} is 0x{data[error.start]:02x})") from error


def _parsed(path: Path, text: str) -> dict[str, Any]:
    import tomli

    try:
        data = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise ProfileError(f"{path}:{error.lineno}:{error.colno}: {error.msg}") from error
    except ValueError as error:  # a number with too many digits
        raise ProfileError(f"{path}: {first_line(error)}") from error
    except RecursionError as error:
        raise ProfileError(f"{path}: nested too deeply") from error
    if _deep(data):
        raise ProfileError(f"{path}: nested too deeply")
    return data


def _deep(data: Any) -> bool:
    """Whether tables and lists lie in each other beyond what we take."""
    level = [data]
    for _ in range(_DEEPEST):
        level = [inner for item in level for inner in _inner(item) if isinstance(inner, dict | list)]
    return bool(level)


def _inner(value: Any) -> list[Any]:
    """What lies in a table or a list."""
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _huge(value: Any) -> bool:
    """Whether a whole number beyond TOML's 64 bits is in it: what is made of a template's arguments knows no others."""
    return any(map(_huge, _inner(value))) or (isinstance(value, int) and not -(2**63) <= value < 2**63)


def _entries(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str, Any, str | None]]:
    """(path in the file, key, value, fault) of everything in a parsed profile."""
    for name, table in data.items():
        if name in _TOP:
            fault = None if isinstance(table, str) else f"{name}: expected text, got {options.shown(table)}"
            yield (name,), name, table, fault
        elif name not in TABLES:
            yield (name,), name, None, unknown_key(name, [*TABLES, *_TOP])
        elif not isinstance(table, dict):
            yield (name,), name, None, f"{name}: expected a table, got {options.shown(table)}"
        else:
            yield from _section(name, table)


def _section(name: str, table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str, Any, str | None]]:
    for own, value in table.items():
        key, where = f"{name}.{own}", (name, own)
        option = options.by_key().get(key)
        if name == "template":
            yield where, key, value, f"{options.named(key)}: a whole number beyond 64 bits" if _huge(value) else None
        elif option is None:
            yield where, key, None, unknown_key(key, [o.key for o in options.options() if o.in_profile])
        else:
            checked, fault = _checked(option, value)
            yield where, key, checked, fault


def _checked(option: Option, value: Any) -> tuple[Any, str | None]:
    try:
        return options.check(option, value), None
    except ValueError as error:
        return None, f"{option.key}: {error}"


def unknown_key(key: str, known: Sequence[str]) -> str:
    """Say that a key does not exist, and the nearest that does: by its own name first, wherever it stands."""
    import difflib

    section, _, name = key.rpartition(".")
    here = {k.rpartition(".")[2]: k for k in known if k.rpartition(".")[0] == section}
    anywhere = {k.rpartition(".")[2]: k for k in known}
    key = options.named(key)
    if name in anywhere:
        return f"{key}: no such key; did you mean {anywhere[name]}?"
    for names, cutoff in ((here, 0.6), (anywhere, 0.75)):
        for near in difflib.get_close_matches(name, names, 1, cutoff):
            return f"{key}: no such key; did you mean {near if names is here else names[near]}?"
    return f"{key}: no such key"


def _anchor(values: dict[str, Value], folder: Path) -> tuple[dict[str, Value], list[str]]:
    """Read file names relative to the profile's folder; name those that lead out of it."""
    faults = []
    for key in FILE_KEYS:
        if key in values:
            faults += [f"{values[key].place}: {key}: {options.shown(name)} names no file in the profile's folder"
                       for name in values[key].names() if not inside(folder, name)]  # fmt: skip
            values[key] = values[key].renamed(lambda name: str(folder / name))
    for key in MODEL_KEYS:
        if key in values and _is_relative(key, values[key].value):
            values[key] = values[key].renamed(lambda name: str(folder / name))
    return values, faults


def as_written(values: Mapping[str, Value], folder: Path) -> dict[str, Value]:
    """Values as a profile in that folder would hold them: the other way round than when it is read."""

    def seen(name: str) -> str:
        return str(Path(name).relative_to(folder)) if Path(name).is_relative_to(folder) else name

    moved = {key: values[key].renamed(seen) for key in FILE_KEYS
             if key in values and values[key].layer == "profile"}  # fmt: skip
    return {**values, **moved}


def _is_relative(key: str, name: str) -> bool:
    """Whether this means a folder relative to the profile's: an adapter always is one, a model may be a repository."""
    if key == "model.adapter_path":
        return bool(name) and not name.startswith("~")
    return name.startswith(("./", "../"))


def inside(folder: Path, name: str) -> bool:
    """Whether a name stays inside a folder."""
    try:
        return bool(name) and (folder / name).resolve().is_relative_to(folder.resolve())
    except (ValueError, OSError):
        return False
