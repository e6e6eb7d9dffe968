"""`mlxctl profile edit`."""

import shlex
import signal
import subprocess
from pathlib import Path
from shutil import which

import click

from mlxctl import paths, profiles
from mlxctl.cli.app import App
from mlxctl.errors import ExitStatus, ResourceError, UsageError
from mlxctl.writing import replace, write_new


@click.command()
@click.argument("name", metavar="PROFILE")
@click.pass_obj
def command(app: App, name: str) -> int:
    """Change a profile in $VISUAL or $EDITOR.

    You edit a draft beside it. Only a draft that is in order takes the profile's place; until then nothing changes, and
    a draft that you leave is there when you come back.
    """
    path = _editable(name)
    before = path.read_bytes()
    draft = _draft(app, path, before)
    try:
        return _edit(app, path, draft, before)
    finally:
        _leave(app, draft, before)


def _leave(app: App, draft: Path, before: bytes) -> None:
    """Keep what was written and not saved, and say so."""
    if draft.exists() and draft.read_bytes() == before:
        draft.unlink()
    elif draft.exists():
        app.say(f"what you wrote is kept in {draft}")


def _edit(app: App, path: Path, draft: Path, before: bytes) -> int:
    while True:
        _open_editor(app, draft)
        faults = profiles.check(str(draft), in_place_of=path).faults
        if not faults:
            return _save(app, path, draft, before)
        app.print_err("\n".join(faults).replace(str(draft), str(path)))
        if not _go_back(app):
            app.say(f"{path} is as it was")
            return ExitStatus.USAGE


def _save(app: App, path: Path, draft: Path, before: bytes) -> int:
    text = draft.read_bytes()
    if text == before:
        app.say("nothing was changed")
        return ExitStatus.OK
    if path.read_bytes() != before:
        raise UsageError(f"{path}: somebody else changed it meanwhile")
    try:
        replace(path, text)
    except OSError as error:
        raise ResourceError(f"{path}: {error.strerror}") from None
    draft.unlink()
    app.say(f"saved {path}")
    return ExitStatus.OK


def _go_back(app: App) -> bool:
    """Ask whether to mend the draft; nobody can be asked without a terminal."""
    try:
        return app.stdin.isatty() and click.confirm("Go back to the editor?", default=True, err=True)
    except click.Abort:
        return False


def _editable(name: str) -> Path:
    path = profiles.find(name)
    if path.is_relative_to(paths.shipped_dir("profiles")):
        hint = f'build on it (extends = "{path.stem}"), or copy it: mlxctl profile path {name} tells where it is'
        raise UsageError(f"profile {name}: comes with mlxctl and is not yours to change", hint=hint)
    return path


def _draft(app: App, path: Path, text: bytes) -> Path:
    """A copy to edit: it lies beside the profile, so that what the profile names is found from it too."""
    draft = path.with_name(f".{path.stem}.draft.toml")
    try:
        write_new(draft, text)
    except FileExistsError:
        app.say(f"going on with what you left in {draft}; remove that file to begin anew")
    except OSError as error:
        raise ResourceError(f"{draft}: {error.strerror}") from None
    return draft


def _open_editor(app: App, draft: Path) -> None:
    """Wait for the editor; UsageError when it cannot be started or fails."""
    asked = app.environ.get("VISUAL") or app.environ.get("EDITOR")
    editor = asked or next(filter(which, ("sensible-editor", "nano", "vim")), "vi")
    try:
        child = subprocess.Popen([*shlex.split(editor), str(draft)])
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{editor}: cannot be started: {error}", hint="set $EDITOR to an editor that is there"
        ) from None
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the editor's
    try:
        status = child.wait()
    finally:
        signal.signal(signal.SIGINT, handler)
    if status != 0:
        raise UsageError(f"{editor}: ended with status {status}")
