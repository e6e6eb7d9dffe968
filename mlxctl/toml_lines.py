"""Where a key of a TOML file stands: the parsers for Python do not tell."""

import re

_HEADER = re.compile(r"^\s*\[{1,2}\s*([^\]]+?)\s*\]{1,2}")
_KEY = re.compile(
    r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=(.*)$"""
)
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")
_QUOTES = ('"""', "'''")


def lines_of(text: str) -> dict[tuple[str, ...], int]:
    """Line numbers of the keys and table headers of a valid TOML text, by path: ("sampler", "temp") -> 4.

    Keys of inline tables stand on the line of the table.
    """
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    closing: str | None = None  # the quotes of a text that runs over several lines
    for number, line in enumerate(text.split("\n"), 1):
        if closing is not None:
            closing = None if closing in line else closing
        elif header := _HEADER.match(line):
            table = _path(header[1])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault(table + _path(key[1]), number)
            value = key[2].lstrip()
            quotes = next((quotes for quotes in _QUOTES if value.startswith(quotes)), None)
            closing = quotes if quotes and quotes not in value[3:] else None
    return found


def line_of(lines: dict[tuple[str, ...], int], path: tuple[str, ...]) -> int:
    """The line of a key, or of the nearest table around it."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))
