"""Where a key of a TOML file stands: the parsers for Python do not tell."""

import re

_SIGN = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}(?!")'''  # texts of several lines
    r"""|'{3}.*?'{3,5}(?!')"""
    r"""|"(?:\\.|[^"\\\n])*"|'[^'\n]*\'"""  # texts
    r"""|\#[^\n]*|\n|[\[\]{}=]|[^\s\[\]{}=."'\#]+""",  # comments, line ends, signs, bare words
    re.DOTALL,
)


def lines_of(text: str) -> dict[tuple[str, ...], int]:
    """Line numbers of the keys and table headers of a valid TOML text, by path: ("sampler", "temp") -> 4.

    Keys of inline tables stand on the line of the table.
    """
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    parts: list[str] = []  # of the key or header being read
    in_value, depth, line, counted = False, 0, 1, 0
    for match in _SIGN.finditer(text):
        sign = match[0]
        line += text.count("\n", counted, match.start())
        counted = match.start()
        if sign == "\n" and depth == 0:
            in_value, parts = False, []
        elif in_value:
            depth += (sign in "[{") - (sign in "]}")
        elif sign == "=":
            found.setdefault((*table, *parts), line)
            in_value = True
        elif sign == "]" and parts:
            table, parts = tuple(parts), []
            found.setdefault(table, line)
        elif sign[0] not in "[]#\n":
            parts.append(_plain(sign))
    return found


def _plain(sign: str) -> str:
    """A key without its quotes, and without escapes."""
    if sign[0] != '"' or "\\" not in sign:
        return sign.strip("\"'")
    import tomli

    plain: str = tomli.loads(f"key = {sign}")["key"]
    return plain


def line_of(lines: dict[tuple[str, ...], int], path: tuple[str, ...]) -> int:
    """The line of a key, or of the nearest table around it."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)
