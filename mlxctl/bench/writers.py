"""How a bench is written: each row as it comes, JSON at the end."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mlxctl import texts
from mlxctl.bench.rows import Row
from mlxctl.engine.bench import Task
from mlxctl.output.json import encode

Write = Callable[[str], object]


class Writer(Protocol):
    """Told of a bench as it goes."""

    def row(self, row: Row) -> None:
        """A test has ended."""

    def end(self) -> None:
        """No more follow."""


class Markdown:
    """A table as llama-bench draws it, with what differs between the tests; aligned, so that it reads as text, too."""

    def __init__(self, write: Write, tests: Sequence[Task]) -> None:
        self._write = write
        self._widths: list[int] = []
        self._shown = [name for name in ("kv_bits", "batch_size") if _differs(name, tests)]
        self._test = max((len(test.name) for test in tests), default=4)

    def row(self, row: Row) -> None:
        cells = self._cells(row)
        if not self._widths:
            self._widths = [max(len(name), len(text), least) for name, text, least in cells]
            self._line([name for name, _, _ in cells])
            self._line(["-" * (width - 1) + ":" for width in self._widths])
        self._line([text for _, text, _ in cells])

    def end(self) -> None:
        pass

    def _cells(self, row: Row) -> list[tuple[str, str, int]]:
        """(heading, text, least width) of each column."""
        subject, found = row.subject, row.as_dict()
        share = "-" if row.ceiling_share is None else f"{100 * row.ceiling_share:.0f} %"
        spread = "" if row.stddev_ts is None else f" ± {row.stddev_ts:.2f}"
        return [
            ("model", subject.model_type, 0),
            ("size", texts.size(subject.model_size), 0),
            ("params", f"{subject.model_n_params / 1e6:.2f} M", 0),
            ("dtype", subject.dtype, 0),
            ("device", subject.device.split(" ")[0], 0),
            *((name, "none" if found[name] is None else str(found[name]), 4) for name in self._shown),
            ("test", row.test.name, self._test),
            ("t/s", f"{row.avg_ts:.2f}{spread}", 17),
            ("ceiling", share, 7),
        ]

    def _line(self, cells: Sequence[str]) -> None:
        padded = (f"{cell:>{width}}" for cell, width in zip(cells, self._widths, strict=True))
        self._write("| " + " | ".join(padded) + " |\n")


class Json:
    """One list of all rows."""

    def __init__(self, write: Write, tests: Sequence[Task]) -> None:
        self._write = write
        self._rows: list[dict[str, Any]] = []

    def row(self, row: Row) -> None:
        self._rows.append(row.as_dict())

    def end(self) -> None:
        lines = ",\n  ".join(encode(row) for row in self._rows)
        self._write(f"[\n  {lines}\n]\n" if lines else "[]\n")


class Jsonl:
    """An object a row."""

    def __init__(self, write: Write, tests: Sequence[Task]) -> None:
        self._write = write

    def row(self, row: Row) -> None:
        self._write(encode(row.as_dict()) + "\n")

    def end(self) -> None:
        pass


class Csv:
    """A line a row, without the single samples."""

    def __init__(self, write: Write, tests: Sequence[Task]) -> None:
        self._write = write
        self._begun = False

    def row(self, row: Row) -> None:
        found = {name: value for name, value in row.as_dict().items() if not name.startswith("samples_")}
        found |= {f"{name}_version": version for name, version in found.pop("versions").items()}
        text = io.StringIO()
        writer = csv.DictWriter(text, list(found), lineterminator="\n")
        if not self._begun:
            writer.writeheader()
            self._begun = True
        writer.writerow(found)
        self._write(text.getvalue())

    def end(self) -> None:
        pass


FORMATS: dict[str, Callable[[Write, Sequence[Task]], Writer]] = {
    "md": Markdown, "json": Json, "jsonl": Jsonl, "csv": Csv,
}  # fmt: skip


def _differs(name: str, tests: Sequence[Task]) -> bool:
    """Whether a column says anything."""
    usual = {"kv_bits": None, "batch_size": 1}[name]
    return any(getattr(test, name.removesuffix("_size")) != usual for test in tests)
