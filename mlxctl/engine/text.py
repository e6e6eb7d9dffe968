"""Finding stop strings and thinking markers in text that arrives in pieces."""

from collections.abc import Iterable


class Scanner:
    """Watch streamed text for marks.

    Marks match across pieces, whatever the pieces are; the mark whose end comes first wins, the longer one when
    two end together.
    """

    def __init__(self, marks: Iterable[str]) -> None:
        self._marks = [mark for mark in marks if mark]
        self._pending = ""

    def feed(self, text: str) -> tuple[str, str | None]:
        """Add text; return what stands before the first mark and that mark, or what is safe to show and None.

        After a mark, call again with "": what followed it has been kept.
        """
        self._pending += text
        hits = [(self._pending.find(mark), mark) for mark in self._marks if mark in self._pending]
        if hits:
            start, mark = min(hits, key=lambda hit: (hit[0] + len(hit[1]), hit[0]))
            return self._take(start, skip=len(mark)), mark
        return self._take(len(self._pending) - self._held()), None

    def flush(self) -> str:
        """Return what was held back: no more text will come."""
        return self._take(len(self._pending))

    def _held(self) -> int:
        """Length of the longest end of the pending text that may begin a mark."""
        longest = max((len(mark) - 1 for mark in self._marks), default=0)
        sizes = range(min(longest, len(self._pending)), 0, -1)
        return next((n for n in sizes if any(mark.startswith(self._pending[-n:]) for mark in self._marks)), 0)

    def _take(self, size: int, skip: int = 0) -> str:
        taken, self._pending = self._pending[:size], self._pending[size + skip :]
        return taken


class Thinking:
    """Split an answer into thinking and text at the model's markers."""

    def __init__(self, start: str | None, end: str | None, *, inside: bool) -> None:
        """inside: the prompt has already opened the thinking block."""
        self._marks = (start or "", end or "")
        self._scanner = Scanner([self._marks[inside]])
        self._inside = inside
        self._fresh = inside

    def feed(self, raw: str, *, last: bool = False) -> tuple[str, str]:
        """Return the (text, thinking) that this piece releases."""
        out = {False: "", True: ""}
        part, mark = self._scanner.feed(raw)
        self._add(out, part)
        while mark:
            self._inside, self._fresh = not self._inside, True
            rest = self._scanner.flush()
            self._scanner = Scanner([self._marks[self._inside]])
            part, mark = self._scanner.feed(rest)
            self._add(out, part)
        if last:
            self._add(out, self._scanner.flush())
        return out[False], out[True]

    def _add(self, out: dict[bool, str], part: str) -> None:
        # Templates set the markers on lines of their own; those line ends belong to neither side.
        part = part.lstrip("\n") if self._fresh else part
        self._fresh = self._fresh and not part
        out[self._inside] += part
