"""Tables for people: columns under headings, as wide as they need."""

from collections.abc import Iterable, Sequence

from mlxctl.cli.app import App
from mlxctl.terminal import harmless


def table(app: App, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The text of a table; on a terminal it is folded to fit, in a pipe a row is a line."""
    from io import StringIO

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = None if app.stdout.isatty() else 100_000
    console = Console(file=StringIO(), width=width, color_system=None)
    drawn = Table(*headings, box=None, pad_edge=False)
    for row in rows:
        drawn.add_row(*(Text(harmless(cell) if app.stdout.isatty() else cell, overflow="fold") for cell in row))
    with console.capture() as capture:
        console.print(drawn)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The text of a table in Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
