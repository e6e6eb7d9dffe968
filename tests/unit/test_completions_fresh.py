"""completions/ holds what .ci/completions.py makes of the program."""

import importlib
from pathlib import Path

import pytest

CI = Path(__file__).parent.parent.parent / ".ci"


def test_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CI))
    for name, text in importlib.import_module("completions").scripts().items():
        assert (CI.parent / "completions" / name).read_text(encoding="utf-8") == text, "run `make docs`"
