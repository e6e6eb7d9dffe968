"""Tables for people: columns under headings, as wide as they need."""

from collections.abc import Callable, Iterable, Sequence

from mlxctl.cli.app import App
from mlxctl.terminal import harmless

_FOLDED = 1000  # rows that are folded to the width of a terminal; it takes a millisecond each, and nobody reads more


def table(app: App, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The text of a table; on a terminal it is folded to fit, in a pipe a row is a line."""
    rows = list(rows)
    if app.stdout.isatty() and len(rows) <= _FOLDED:
        return _folded(headings, rows)
    return _lines([headings, *rows], harmless if app.stdout.isatty() else str)


def _lines(rows: Sequence[Sequence[str]], shown: Callable[[str], str]) -> str:
    """A line a row, whatever is in its cells."""
    from rich.cells import cell_len

    cells = [[shown(" ".join(cell.splitlines())) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    padded = ((cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "".join(f"{'  '.join(row).rstrip()}\n" for row in padded)


def _folded(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as wide as the terminal."""
    from io import StringIO

    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    console = Console(file=StringIO(), color_system=None)
    drawn = Table(*(Column(Text(harmless(heading))) for heading in headings), box=None, pad_edge=False)
    for row in rows:
        drawn.add_row(*(Text(harmless(cell), overflow="fold") for cell in row))
    with console.capture() as capture:
        console.print(drawn)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The text of a table in Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
