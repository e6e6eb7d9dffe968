"""How templates, renderings and findings are drawn."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from io import StringIO
from typing import Any

from mlxctl.cli.app import App
from mlxctl.cli.table import table
from mlxctl.terminal import harmless

_STYLES = {"error": "bold red", "fail": "bold red", "warning": "yellow", "note": "dim", "ok": "green"}


def as_source(app: App, source: str) -> str:
    """Jinja source as it is; highlighted, where colours are wanted."""
    if not app.coloured():
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


def side_by_side(app: App, left: str, right: str, arguments: str) -> str:
    """Two renderings line by line: | between lines that differ, < and > beside those that one of them lacks."""
    if left == right:
        app.say(f"with {arguments} the prompt is the same")
        return ""
    rows = list(_paired(left.split("\n"), right.split("\n")))
    return table(app, ("as asked", "", f"with {arguments}"), rows)


def _paired(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for kind, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        rows = max(b - a, d - c)
        ones = [*left[a:b], *[""] * (rows - (b - a))]
        others = [*right[c:d], *[""] * (rows - (d - c))]
        for number in range(rows):
            has = (a + number < b, c + number < d)
            mark = " " if kind == "equal" else {(True, True): "|", (True, False): "<", (False, True): ">"}[has]
            yield harmless(ones[number]), mark, harmless(others[number])


def as_findings(app: App, findings: Sequence[dict[str, Any]]) -> str:
    """Two lines each: what is found, and the mend."""
    if not findings:
        app.say("nothing is wrong, as far as can be seen")
    return "".join(
        f"{coloured(app, one['severity'])} {one['code']}: {harmless(one['evidence'])}\n  {harmless(one['mend'])}\n"
        for one in findings
    )


def coloured(app: App, severity: str) -> str:
    """A word that tells how bad something is, in its colour where colours are wanted."""
    if not app.coloured():
        return severity
    from rich.console import Console

    console = Console(file=StringIO(), force_terminal=True)
    with console.capture() as capture:
        console.print(severity, style=_STYLES[severity], end="")
    return capture.get()
