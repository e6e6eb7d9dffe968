"""Settings as TOML text: what `profile show` prints and `profile new` writes."""

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from mlxctl import options
from mlxctl.options import Option
from mlxctl.profiles import places
from mlxctl.profiles.files import TABLES
from mlxctl.profiles.values import Value

_HEAD = """\
# Settings for: mlxctl run -P {name}
# `mlxctl profile validate` checks this file; `mlxctl profile show {name} --origin` shows what comes of it.
"""
_EVERYTHING = """\
# A line such as `#temp = 0.0` shows a default: take the `#` away to set it. `…` stands for a value of yours.
"""
_EXTENDS = """\
# A profile to build on
#extends = …
"""
_TEMPLATE = """\
# Free keys, handed to the model's chat template
#enable_thinking = false
"""


def as_toml(values: Mapping[str, Value], folder: Path, description: str = "", *, origins: bool = False) -> str:
    """A profile of that folder that sets these values; what it cannot hold stands in comments.

    origins: each with where it came from, in a comment.
    """
    parts = [entry({"description": description})] if description else []
    for section in [*TABLES, "request"]:
        rows = [_row(key, value, folder, origins) for key, value in values.items() if key.partition(".")[0] == section]
        if rows:
            parts.append(_section(section, rows) if section in TABLES else "# Of one call\n" + "".join(rows))
    return "\n".join(parts)


def _row(key: str, value: Value, folder: Path, origins: bool) -> str:
    section, _, name = key.partition(".")
    if value.value is None:  # TOML has no null
        text = f"# {name} is not set\n"
    elif section == "request" or any(places.outside(key, value, folder)):
        text = "# " + entry({name: value.value}).strip("\n").replace("\n", "\n# ") + "\n"
    else:
        written = places.as_written(key, value, folder) if key in places.FILE_KEYS else value
        text = entry({name: written.value}, section)
    return _remark(text, value.origin) if origins else text


def _remark(text: str, remark: str) -> str:
    """The text of a setting with a comment: beside the header of a table, else at its end."""
    remark = "".join(char if char.isprintable() else "?" for char in remark)
    first, end, rest = text.partition("\n")
    return f"{first}  # {remark}{end}{rest}" if text.startswith("[") else f"{text[:-1]}  # {remark}\n"


def entry(table: Mapping[str, Any], section: str = "") -> str:
    """The lines that set one key of a section. Raises TypeError for what TOML has no form for."""
    (value,) = table.values()
    lines = isinstance(value, str) and "\r" not in value
    text = tomli_w.dumps({section: table} if section else table, multiline_strings=lines)
    text = text.removeprefix(f"[{section}]\n").strip("\n") + "\n"
    # A list of tables is written as tables, one after the other.
    return _on_one_line(text) if isinstance(value, list) and not text.startswith("[") else text


def _on_one_line(text: str) -> str:
    """A short list of simple values, which the library writes a line each."""
    first, *items = text.removesuffix("\n").split("\n")  # and at no other sign that Python takes for a line's end
    line = first + " ".join(item.strip() for item in items[:-1]).removesuffix(",") + "]\n"
    simple = len(items) > 1 and len(line) <= 100 and not any(item.strip()[:1] in "[{" for item in items[:-1])
    return line if simple else text


def _section(name: str, rows: Iterable[str]) -> str:
    """A table and its rows; those that are tables themselves go last, for what follows them would be theirs."""
    rows = list(rows)
    tables = [row for row in rows if row.startswith("[")]
    return f"[{name}]\n" + "".join([row for row in rows if row not in tables] + tables)


def document(name: str, description: str, extends: str | None, values: Mapping[str, Any], *,
             everything: bool) -> str:  # fmt: skip
    """A new profile that sets the values. everything: every other key too, as a comment with its default."""
    top = _HEAD.format(name=name) + (_EVERYTHING if everything else "") + "\n" + entry({"description": description})
    if extends is not None:
        top += entry({"extends": extends})
    elif everything:
        top += _EXTENDS
    sections = {section: _documented(section, values, everything) for section in TABLES}
    return "\n".join([top, *(_section(section, rows) for section, rows in sections.items() if rows)])


def _documented(section: str, values: Mapping[str, Any], everything: bool) -> list[str]:
    if section == "template":
        own = {key.partition(".")[2]: value for key, value in values.items() if key.startswith("template.")}
        return ([_TEMPLATE] if everything else []) + [entry({key: value}, section) for key, value in own.items()]
    rows = [option for option in options.options() if option.section == section]
    return [_documented_row(option, values) for option in rows if everything or option.key in values]


def _documented_row(option: Option, values: Mapping[str, Any]) -> str:
    if option.key in values and option.base is dict:
        return entry({option.name: values[option.key]}, option.section)  # a table, which its name explains
    takes = "" if option.base is str else f" ({options.describe(option)})"
    help = textwrap.fill(option.help + takes, 110, initial_indent="# ", subsequent_indent="#   ",
                         break_on_hyphens=False)  # fmt: skip
    if option.key in values:
        return f"{help}\n{entry({option.name: values[option.key]}, option.section)}"
    return f"{help}\n#{option.name} = {_default(option)}\n"


def _default(option: Option) -> str:
    if option.default is None:
        return "…"
    return "{}" if option.base is dict else entry({"x": option.default}).removeprefix("x = ").strip()
