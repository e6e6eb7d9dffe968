"""Markdown, rendered while it comes: finished blocks are printed for good, the last one is drawn over.

Only the block that is still growing is ever redrawn, in one write, so that nothing flickers and what scrolled away
stays as it was.
"""

import time
from typing import Any

from mlxctl.chat.answer import Plain
from mlxctl.chat.screen import Screen
from mlxctl.events import Token
from mlxctl.terminal import harmless

_PAUSE_S = 0.08  # between two drawings


class Rendered(Plain):
    """An answer as rendered markdown; thinking as in `Plain`."""

    def __init__(self, screen: Screen, thinking: str) -> None:
        super().__init__(screen, thinking)
        self._text = ""  # what is not printed for good yet
        self._live: Any = None
        self._drawn_at = 0.0

    def token(self, token: Token) -> None:
        if token.thinking:
            self._think(token.thinking)
        if not token.text:
            return
        if not self._spoken:
            self._end_thought()
            self._spoken = True
        self._text += token.text
        now = time.monotonic()
        if now - self._drawn_at >= _PAUSE_S:
            self._drawn_at = now
            self._draw()

    def end(self) -> None:
        self._stop()
        if self._text.strip():
            _console(self._screen).print(_rendered(self._text))
            self._at_start = True
        super().end()

    def _draw(self) -> None:
        from rich.live import Live

        done = _finished(self._text)
        if done:
            self._stop()
            _console(self._screen).print(_rendered(self._text[:done]), "")
            self._text = self._text[done:]
        if not self._text.strip():
            return
        if self._live is None:
            self._live = Live(console=_console(self._screen), auto_refresh=False, transient=True,
                              redirect_stdout=False, redirect_stderr=False)  # fmt: skip
            self._live.start()
            self._live.console.show_cursor(True)  # Ctrl-Z may come at any time
        self._live.update(_Last(_rendered(self._text), self._screen.height - 2), refresh=True)

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def _console(screen: Screen) -> Any:
    """Writes to the answer's stream."""
    from rich.console import Console

    return Console(
        file=_File(screen),  # type: ignore[arg-type]
        force_terminal=True,
        no_color=not screen.styled,
        width=screen.width,
    )


def _rendered(text: str) -> Any:
    from rich.markdown import Markdown

    return Markdown(harmless(text))


class _Last:
    """The last lines of something: what is being written can be seen, and the rest drawn over."""

    def __init__(self, whole: Any, lines: int) -> None:
        self._whole = whole
        self._lines = lines

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.segment import SegmentLines

        lines = console.render_lines(self._whole, options, pad=False)
        yield SegmentLines(lines[-self._lines :], new_lines=True)


class _File:
    """The answer's stream, as rich writes to it."""

    encoding = "utf-8"

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def write(self, text: str) -> int:
        self._screen.out.write(text)
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


def _finished(text: str) -> int:
    """Characters of the blocks that nothing more can change: all but the last."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt().parse(text)
    starts = [token.map[0] for token in tokens if token.map and token.level == 0 and token.nesting >= 0]
    return sum(len(line) + 1 for line in text.split("\n")[: starts[-1]]) if len(starts) > 1 else 0
