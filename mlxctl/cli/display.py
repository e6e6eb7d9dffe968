"""The prefill bar on stderr: shown when the prompt takes over a second and somebody is looking."""

import sys
import threading
from collections.abc import Callable
from typing import Any

from mlxctl.cli.app import App

_PATIENCE_S = 1.0


class PrefillBar:
    """Drawn from a timer's thread, for the first chunk of a prompt may take minutes."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._bar: Any = None
        self._timer: threading.Timer | None = None
        self._state = (0, 0)
        self._closed = False
        self._drawn = False

    def update(self, done: int, total: int) -> None:
        """Prompt tokens processed so far."""
        with self._lock:
            self._state = (done, total)
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=done)
            elif self._timer is None and self._app.err_is_terminal():
                self._timer = threading.Timer(_PATIENCE_S, self._show)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Take the bar away, and never show it again."""
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def show_cursor(self) -> None:
        """Undo the one thing that would outlast us, without waiting for anybody."""
        if self._drawn:
            sys.stderr.write("\x1b[?25h")

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Left

        with self._lock:
            if self._closed:
                return
            console = Console(stderr=True)
            columns = (TextColumn("prefill"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), Left())
            self._bar = Progress(
                *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            done, total = self._state
            self._bar.add_task("prefill", completed=done, total=total)
            self._drawn = True
            self._bar.start()


class CountBar:
    """How many of a number of things are done, on stderr when somebody is looking."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._bar: Any = None
        self._closed = False

    def start(self, total: int, name: str) -> None:
        """Show it, at none of so many."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Left

        with self._lock:
            if self._closed or not self._app.err_is_terminal():
                return
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), Left())
            self._bar = Progress(
                *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._bar.add_task(name, total=total)
            self._bar.start()

    def update(self, name: str, done: int) -> None:
        """What is done now, and how many are done by now."""
        with self._lock:
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], description=name, completed=done)

    def aside(self, write: Callable[[], object]) -> None:
        """Write to stdout, which may be the same terminal, with the bar out of the way."""
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
            write()
            if self._bar is not None:
                self._bar.start()

    def close(self) -> None:
        """Take it away, and never show it again."""
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def show_cursor(self) -> None:
        """Undo the one thing that would outlast us, without waiting for anybody."""
        if self._bar is not None:
            sys.stderr.write("\x1b[?25h")
