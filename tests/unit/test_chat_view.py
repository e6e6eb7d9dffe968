"""How answers look while they come, on the screen of a terminal."""

import os
import random

import pyte
import pytest

from mlxctl.chat.answer import make_view
from mlxctl.chat.screen import Screen
from mlxctl.events import Token

ANSWER = """# Boats

A boat has **three** parts:

1. the hull
2. the `mast`
3. the sail

```python
def sail():
    return "away"
```

| wind | sail |
|---|---|
| weak | large |

Ends with a line, 漢字 and 🙂.
"""


class Drawn:
    """A terminal of a size, and what is drawn on it."""

    def __init__(self, columns: int = 60, rows: int = 24, *, styled: bool = True, drawn: bool = True) -> None:
        self.terminal = pyte.HistoryScreen(columns, rows, history=1000)
        self.stream = pyte.Stream(self.terminal)
        self.raw = ""
        self.screen = Screen(self, self, interactive=drawn, drawn=drawn, styled=styled)

    def write(self, text: str) -> int:
        self.raw += text
        self.stream.feed(text.replace("\n", "\r\n"))
        return len(text)

    @property
    def lines(self) -> list[str]:
        """Everything that a person could scroll back to."""
        above = [
            "".join(row[column].data for column in range(self.terminal.columns)) for row in self.terminal.history.top
        ]
        return [line.rstrip() for line in (*above, *self.terminal.display)]


def pieces(text: str, seed: int) -> list[str]:
    """A text as tokens bring it."""
    drawn, found = random.Random(seed), []
    while text:
        size = drawn.randint(1, 6)
        found.append(text[:size])
        text = text[size:]
    return found


def told(text: str, thinking: str = "") -> Token:
    return Token(1, text or thinking, text, thinking)


@pytest.fixture(autouse=True)
def sized(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of the terminal that is asked for."""
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((60, 24)))
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setattr("mlxctl.chat.markdown._PAUSE_S", 0.0)  # every token is drawn


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rows", [24, 8])
def test_markdown_is_as_if_it_had_come_at_once(seed: int, rows: int) -> None:
    """However it is cut in tokens; what scrolled away stays right."""
    whole, streamed = Drawn(rows=rows), Drawn(rows=rows)
    for drawn, parts in ((whole, [ANSWER]), (streamed, pieces(ANSWER, seed))):
        view = make_view(drawn.screen, "show", markdown=True)
        for part in parts:
            view.token(told(part))
        view.end()
    text = "\n".join(streamed.lines)
    assert [line for line in streamed.lines if line] == [line for line in whole.lines if line]
    for words in ("Boats", "A boat has three parts:", "1 the hull", "return", "weak", "漢字 and 🙂"):
        assert words in text, text
    assert "**" not in text and "```" not in text
    assert "\x1b[2J" not in streamed.raw  # it is never wiped: that would flicker


def test_markdown_shows_control_characters() -> None:
    drawn = Drawn()
    view = make_view(drawn.screen, "show", markdown=True)
    view.token(told("evil \x1b]0;title\x07 text"))
    view.end()
    assert "\x1b]0;" not in drawn.raw and "evil" in "\n".join(drawn.lines)


def test_markdown_without_a_terminal_is_text() -> None:
    drawn = Drawn(drawn=False)
    view = make_view(drawn.screen, "show", markdown=True)
    view.token(told("**bold**\n"))
    view.end()
    assert drawn.raw == "**bold**\n"


@pytest.mark.parametrize("markdown", [False, True])
@pytest.mark.parametrize(
    ("mode", "seen", "unseen"),
    [("show", ["let me see", "Paris."], []), ("fold", ["thought for 3 tokens", "Paris."], ["let me see"]),
     ("hide", ["Paris."], ["let me see", "thought"])],
)  # fmt: skip
def test_thinking(mode: str, seen: list[str], unseen: list[str], markdown: bool) -> None:
    drawn = Drawn()
    view = make_view(drawn.screen, mode, markdown=markdown)
    for part in ("let ", "me ", "see"):
        view.token(told("", part))
    for part in ("\n\n", "Par", "is."):
        view.token(told(part))
    view.end()
    text = "\n".join(drawn.lines)
    assert all(words in text for words in seen) and not any(words in text for words in unseen), text
    assert markdown or ("\x1b[2m" in drawn.raw) == (mode != "hide")
    last = [line for line in drawn.lines if line][-1]
    assert last == "Paris."


@pytest.mark.parametrize("mode", ["show", "fold", "hide"])
def test_thinking_alone(mode: str) -> None:
    """It was cut before an answer came: the next line begins a line."""
    drawn = Drawn()
    view = make_view(drawn.screen, mode, markdown=False)
    view.token(told("", "hm"))
    view.end()
    drawn.screen.say("next")
    assert "next" in [line for line in drawn.lines if line]


def test_no_styles() -> None:
    drawn = Drawn(styled=False)
    view = make_view(drawn.screen, "show", markdown=False)
    view.token(told("", "hm"))
    view.token(told("Paris"))
    view.end()
    drawn.screen.say("next")
    assert "\x1b" not in drawn.raw


def test_markdown_taller_than_the_window_is_seen_to_grow() -> None:
    """Its last lines are, and the cursor is there, should somebody press Ctrl-Z."""
    drawn = Drawn(rows=10)
    os.environ["LINES"] = "10"
    view = make_view(drawn.screen, "show", markdown=True)
    view.token(told("Look:\n\n```\n"))
    for number in range(40):
        view.token(told(f"line {number}\n"))
        assert any(line.strip() == f"line {number}" for line in drawn.lines), drawn.lines
        assert drawn.raw.rfind("\x1b[?25h") > drawn.raw.rfind("\x1b[?25l")
    view.token(told("```\n"))
    view.end()
    assert [line.strip() for line in drawn.lines if "line" in line] == [f"line {number}" for number in range(40)]
