"""Stop strings and thinking markers in text that arrives in pieces."""

import itertools
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.engine.text import Scanner, Thinking


def scan(pieces: Iterable[str], marks: Sequence[str]) -> tuple[str, str | None]:
    """What is shown of the pieces up to the first mark, and that mark."""
    scanner, shown = Scanner(marks), ""
    for piece in pieces:
        part, mark = scanner.feed(piece)
        shown += part
        if mark is not None:
            return shown, mark
    return shown + scanner.flush(), None


def first_mark(text: str, marks: Sequence[str]) -> tuple[str, str | None]:
    """The same by trying every end: the mark that is complete first, the longest of those that end together."""
    for end in range(1, len(text) + 1):
        here = [mark for mark in marks if mark and text[:end].endswith(mark)]
        if here:
            mark = max(here, key=len)
            return text[: end - len(mark)], mark
    return text, None


@pytest.mark.parametrize(
    "pieces, mark, shown",
    [
        ([" is", " Paris", "."], "Paris", " is "),
        ([" is", " Par", "is."], "Paris", " is "),
        (["x####"], "###", "x"),
        (["x#", "###"], "###", "x"),
        (["a\n\nb"], "\n\n", "a"),
        (["a\n", "\nb"], "\n\n", "a"),
        (["a", "\n", "\n", "b"], "\n\n", "a"),
        (["ab", "ab", "ac"], "abac", "ab"),
        (["wör", "ld 🙂"], "ld 🙂", "wör"),
        (["Paris"], "Paris", ""),
    ],
)
def test_marks_are_found_across_pieces(pieces: list[str], mark: str, shown: str) -> None:
    """The library's matcher works on tokens and misses these."""
    assert scan(pieces, [mark]) == (shown, mark)


@pytest.mark.parametrize("text, marks", [("x##", ["###"]), ("Pari", ["Paris"]), ("abc", []), ("a", [""]), ("", ["a"])])
def test_no_mark_loses_no_text(text: str, marks: list[str]) -> None:
    """The beginning of a mark that never comes is shown in the end."""
    assert scan(list(text), marks) == (text, None)


def test_the_earliest_end_wins_and_then_the_longest() -> None:
    """Independent of the order in which marks are given."""
    for marks in itertools.permutations(["cd", "bcd", "bcdef", "zz"]):
        assert scan(["abcdefg"], marks) == ("a", "bcd")


def test_only_what_may_begin_a_mark_is_held_back() -> None:
    """Text streams: nothing else waits."""
    scanner = Scanner(["###"])
    assert scanner.feed("abc") == ("abc", None)
    assert scanner.feed("d#") == ("d", None)
    assert scanner.feed("#e") == ("##e", None)
    assert scanner.feed("##") == ("", None)
    assert scanner.flush() == "##" and scanner.flush() == ""


def test_text_after_a_mark_is_kept() -> None:
    """The next call goes on behind it."""
    scanner = Scanner(["#"])
    assert [scanner.feed(piece) for piece in ("a#b#c", "", "")] == [("a", "#"), ("b", "#"), ("c", None)]


def cut(text: str, places: Iterable[int]) -> list[str]:
    """The text in pieces."""
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


places = st.lists(st.integers(0, 99), max_size=12)
alphabet = st.text("ab#\n🙂", max_size=20)


@settings(max_examples=500, deadline=None)
@given(alphabet, st.lists(st.text("ab#\n🙂", max_size=4), max_size=4), places)
def test_result_does_not_depend_on_the_pieces(text: str, marks: list[str], places: list[int]) -> None:
    """Whatever the pieces, it is what a search through the whole text finds."""
    assert scan(cut(text, places), marks) == first_mark(text, marks)


@settings(max_examples=300, deadline=None)
@given(alphabet, st.lists(st.text("ab#\n🙂", min_size=1, max_size=4), min_size=1, max_size=3), places)
def test_nothing_shown_is_taken_back(text: str, marks: list[str], places: list[int]) -> None:
    """What was shown is at every moment the beginning of the final answer."""
    scanner, shown, final = Scanner(marks), "", first_mark(text, marks)[0]
    for piece in cut(text, places):
        part, mark = scanner.feed(piece)
        shown += part
        assert final.startswith(shown)
        if mark is not None:
            return


def split(pieces: Sequence[str], *, inside: bool = False, marks: tuple[str | None, str | None] = ("<t>", "</t>")
          ) -> tuple[str, str]:  # fmt: skip
    """(text, thinking) of an answer in pieces."""
    thinking, text, thought = Thinking(*marks, inside=inside), "", ""
    for number, piece in enumerate(pieces, 1):
        parts = thinking.feed(piece, last=number == len(pieces))
        text, thought = text + parts[0], thought + parts[1]
    return text, thought


@pytest.mark.parametrize(
    "raw, inside, text, thought",
    [
        ("answer", False, "answer", ""),
        ("<t>why</t>answer", False, "answer", "why"),
        ("<t>\nwhy\n</t>\n\nanswer\n", False, "answer\n", "why\n"),
        ("why</t>\n\nanswer", True, "answer", "why"),
        ("<t>why", False, "", "why"),
        ("a<t>b</t>c<t>d</t>e", False, "ace", "bd"),
        ("a</t>b", False, "a</t>b", ""),
        ("<t>a<t>b</t>c", False, "c", "a<t>b"),
        ("a<", False, "a<", ""),
        ("", False, "", ""),
    ],
)
def test_thinking_is_split_off(raw: str, inside: bool, text: str, thought: str) -> None:
    """As one piece, and a character at a time."""
    assert split([raw], inside=inside) == (text, thought)
    assert split([*raw, ""], inside=inside) == (text, thought)


def test_models_without_markers_do_not_think() -> None:
    """All of it is the answer."""
    assert split(["a<t>", "b</t>"], marks=(None, None)) == ("a<t>b</t>", "")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["<t>", "</t>", "<", "t>", "a", "\n", "\n\n"]), max_size=10), places, st.booleans())
def test_thinking_does_not_depend_on_the_pieces(parts: list[str], places: list[int], inside: bool) -> None:
    """Any cut gives what the whole gives."""
    raw = "".join(parts)
    assert split(cut(raw, places), inside=inside) == split([raw], inside=inside)
