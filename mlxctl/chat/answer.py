"""How an answer is shown while it comes."""

from typing import Protocol

from mlxctl.chat.screen import Screen
from mlxctl.events import Token
from mlxctl.terminal import harmless

MODES = ("show", "fold", "hide")  # what is done with thinking


class View(Protocol):
    """Shows one answer."""

    def token(self, token: Token) -> None:
        """One more token."""

    def end(self) -> None:
        """No more will come; what follows begins a line."""


class Plain:
    """Text as it comes. thinking: shown dim, folded to one line, hidden, or put to stderr."""

    def __init__(self, screen: Screen, thinking: str) -> None:
        self._screen = screen
        self._mode = thinking
        self._thought = 0  # tokens
        self._spoken = False
        self._at_start = True  # of a line

    def token(self, token: Token) -> None:
        if token.thinking:
            self._think(token.thinking)
        if token.text:
            self._speak(token.text)

    def end(self) -> None:
        self._end_thought()
        if not self._at_start:
            self._screen.answer("\n")

    def _think(self, text: str) -> None:
        self._thought += 1
        if self._mode == "stderr":
            self._screen.err.write(harmless(text) if self._screen.interactive else text)
        elif self._mode == "show":
            self._screen.aside(text)
            self._at_start = text.endswith("\n")
        elif self._mode == "fold" and self._screen.drawn:
            self._screen.aside(f"\rthinking … {self._thought} tokens")
            self._at_start = False

    def _speak(self, text: str) -> None:
        if not self._spoken:
            self._end_thought()
            text = text.lstrip("\n") if self._thought else text
            self._spoken = bool(text)
        self._screen.answer(text)
        self._at_start = text.endswith("\n") if text else self._at_start

    def _end_thought(self) -> None:
        """Close what stands for the thinking, before the answer begins."""
        if self._spoken or not self._thought or self._mode == "hide":
            return
        if self._mode == "stderr":
            self._screen.err.write("\n")
            return
        if self._mode == "fold" and self._screen.drawn:
            self._screen.aside(f"\rthought for {self._thought} tokens (/think show will show it)\n")
        elif self._mode == "show":
            self._screen.aside("\n" if self._at_start else "\n\n")
        self._at_start = True
        self._spoken = True


def make_view(screen: Screen, thinking: str, *, markdown: bool) -> View:
    """The view of one answer; markdown is rendered on a terminal alone."""
    if markdown and screen.drawn:
        from mlxctl.chat.markdown import Rendered

        return Rendered(screen, thinking)
    return Plain(screen, thinking)
