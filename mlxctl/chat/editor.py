"""A text through the person's editor."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from mlxctl.editor import open_in_editor
from mlxctl.errors import UsageError


def edited(text: str, environ: Mapping[str, str]) -> str:
    """A text after the person has changed it. Raises UsageError where the editor fails."""
    with tempfile.TemporaryDirectory(prefix="mlxctl-") as folder:  # for its owner alone
        path = Path(folder) / "message.md"
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        open_in_editor(path, environ)
        try:
            return path.read_text(encoding="utf-8").rstrip("\n")
        except (OSError, UnicodeDecodeError):
            raise UsageError("the editor left no text: nothing was changed") from None
