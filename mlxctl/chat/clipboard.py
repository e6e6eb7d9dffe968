"""The clipboard: by the program that the desktop has for it, else through the terminal."""

import base64
import subprocess
from collections.abc import Mapping
from shutil import which

from mlxctl.chat.screen import Screen
from mlxctl.errors import UsageError

# (program and arguments, the variable without which it has no desktop to talk to)
_PROGRAMS = (
    (("pbcopy",), None),
    (("wl-copy",), "WAYLAND_DISPLAY"),
    (("xclip", "-selection", "clipboard"), "DISPLAY"),
    (("xsel", "--clipboard", "--input"), "DISPLAY"),
)
_LONGEST = 70_000  # characters that terminals take in one such sequence


def put(text: str, environ: Mapping[str, str], screen: Screen) -> str:
    """Put a text on the clipboard; returns what to tell the person. Raises UsageError where there is no way."""
    for words, variable in _PROGRAMS:
        if which(words[0], path=environ.get("PATH")) and (variable is None or environ.get(variable)):
            done = subprocess.run(
                words, input=text.encode("utf-8", "replace"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                check=False,
            )  # fmt: skip
            if done.returncode == 0:
                return f"{len(text)} characters copied"
    packed = base64.b64encode(text.encode("utf-8", "replace")).decode()
    if not screen.interactive or len(packed) > _LONGEST:
        raise UsageError("there is no clipboard here", hint="/export FILE.md writes the conversation to a file")
    screen.err.write(f"\x1b]52;c;{packed}\x07")
    return f"{len(text)} characters handed to the terminal's clipboard"
