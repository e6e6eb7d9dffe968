"""How templates, renderings and findings are drawn."""

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from io import StringIO
from typing import Any

from mlxctl.cli.app import App
from mlxctl.cli.table import table
from mlxctl.terminal import harmless

_HIGHLIGHTED = 200_000  # characters of a source; more takes a minute
_STYLES = {"error": "bold red", "fail": "bold red", "warning": "yellow", "note": "dim", "ok": "green"}


def as_source(app: App, source: str) -> str:
    """Jinja source as it is; highlighted, where colours are wanted."""
    if not app.coloured() or len(source) > _HIGHLIGHTED:
        return on_screen(app, source)
    from rich.console import Console
    from rich.syntax import Syntax

    console = Console(file=StringIO(), force_terminal=True)
    with console.capture() as capture:
        console.print(Syntax(harmless(source), "jinja", theme="ansi_dark", word_wrap=True, background_color="default"))
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def on_screen(app: App, text: str) -> str:
    """A text as it is; on a terminal as one that steers nothing, on whole lines."""
    if not app.stdout.isatty():
        return text
    shown = harmless(text)
    return shown if shown.endswith("\n") else shown + "\n"


def side_by_side(app: App, rows: Sequence[Sequence[str]], arguments: str) -> str:
    """Two renderings, as `paired` has them."""
    if all(mark == " " for _, mark, _ in rows):
        app.say(f"with {arguments} the prompt is the same")
        return ""
    return table(app, ("as asked", "", f"with {arguments}"), rows)


def paired(left: str, right: str) -> Iterator[tuple[str, str, str]]:
    """Two texts line by line: | between lines that differ, < and > beside those that one of them lacks.

    Takes time without measure where many lines are alike.
    """
    lines, others = left.split("\n"), right.split("\n")
    for kind, a, b, c, d in SequenceMatcher(None, lines, others).get_opcodes():
        rows = max(b - a, d - c)
        for number in range(rows):
            one = lines[a + number] if a + number < b else None
            other = others[c + number] if c + number < d else None
            yield _pair(one, other, " " if kind == "equal" else "|")


def _pair(one: str | None, other: str | None, mark: str) -> tuple[str, str, str]:
    if one is None or other is None:
        return one or "", ">" if one is None else "<", other or ""
    if mark == "|" and one.split() == other.split():  # blanks alone differ, which nobody would see
        one, other = (json.dumps(text, ensure_ascii=False) for text in (one, other))
    return one, mark, other


def as_findings(app: App, findings: Sequence[dict[str, Any]]) -> str:
    """Two lines each: what is found, and the mend."""
    if not findings:
        app.say("nothing is wrong, as far as can be seen")
    return "".join(
        f"{coloured(app, one['severity'])} {one['code']}: {_line(one['evidence'])}\n  {_line(one['mend'])}\n"
        for one in findings
    )


def _line(text: str) -> str:
    return harmless(" ".join(text.splitlines()))


def coloured(app: App, severity: str) -> str:
    """A word that tells how bad something is, in its colour where colours are wanted."""
    if not app.coloured():
        return severity
    from rich.console import Console

    console = Console(file=StringIO(), force_terminal=True)
    with console.capture() as capture:
        console.print(severity, style=_STYLES[severity], end="")
    return capture.get()
