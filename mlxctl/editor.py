"""The person's editor."""

import shlex
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from shutil import which

from mlxctl.errors import UsageError


def open_in_editor(path: Path, environ: Mapping[str, str]) -> None:
    """Wait until a file was edited: in $VISUAL or $EDITOR, else sensible-editor, nano, vim or vi.

    Raises UsageError when it cannot be started or fails.
    """
    asked = environ.get("VISUAL") or environ.get("EDITOR")
    editor = asked or next(filter(which, ("sensible-editor", "nano", "vim")), "vi")
    try:
        child = subprocess.Popen([*shlex.split(editor), str(path)])
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{editor}: cannot be started: {why}", hint="$VISUAL or $EDITOR names another") from None
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the editor's
    try:
        status = child.wait()
    finally:
        signal.signal(signal.SIGINT, handler)
    if status != 0:
        raise UsageError(f"{editor}: ended with status {status}: nothing was saved")
