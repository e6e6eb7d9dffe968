"""`mlxctl profile edit`."""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import click

from mlxctl import profiles
from mlxctl.cli.app import App
from mlxctl.editor import open_in_editor
from mlxctl.errors import ExitStatus, ResourceError, UsageError
from mlxctl.writing import replace


@click.command()
@click.argument("name", metavar="PROFILE")
@click.pass_obj
def command(app: App, name: str) -> int:
    """Change a profile in $VISUAL or $EDITOR (else sensible-editor, nano, vim or vi).

    You edit a draft beside it. Only a draft that is in order takes the profile's place; until then nothing changes. A
    draft that comes to nothing is kept, and you are told where.
    """
    path = _editable(name)
    before = _read(path)
    draft = _draft(path, before)
    try:
        return _edit(app, path, draft, before)
    finally:
        _leave(app, draft, before)


def _editable(name: str) -> Path:
    path = profiles.find(name)
    if profiles.is_shipped(path):
        hint = f'build on it (extends = "{path.stem}"), or copy it: mlxctl profile path {path.stem} tells where it is'
        raise UsageError(f"profile {name}: comes with mlxctl and is not yours to change", hint=hint)
    return path


def _draft(path: Path, text: bytes) -> Path:
    """A copy to edit, of this edit alone. It lies beside the profile, so that what this names is found from it too."""
    try:
        fd, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=".draft.toml", dir=path.parent)
        with os.fdopen(fd, "wb") as file:
            file.write(text)
    except OSError as error:
        raise ResourceError(f"{path.parent}: no draft can be made here: {error.strerror}") from None
    return Path(name)


def _edit(app: App, path: Path, draft: Path, before: bytes) -> int:
    while True:
        open_in_editor(draft, app.environ)
        text = _read(draft)
        if text == before:
            app.say("nothing was changed")
            return ExitStatus.OK
        faults = profiles.check(draft, in_place_of=path).faults
        if not faults:
            return _save(app, path, draft, before)
        app.print_err("\n".join(faults).replace(str(draft), str(path)).replace(draft.stem, path.stem))
        if not _go_back(app):
            app.say(f"{path} is as it was")
            return ExitStatus.USAGE


def _go_back(app: App) -> bool:
    """Ask whether to mend the draft; nobody can be asked without a terminal."""
    try:
        return app.stdin.isatty() and click.confirm("Go back to the editor?", default=True, err=True)
    except click.Abort:
        return False


def _save(app: App, path: Path, draft: Path, before: bytes) -> int:
    with suppress(UsageError):
        if _read(path) == before:
            try:
                replace(path, _read(draft))
            except OSError as error:
                raise ResourceError(f"{path}: {error.strerror}") from None
            draft.unlink()
            app.say(f"saved {path}")
            return ExitStatus.OK
    raise UsageError(f"{path}: somebody else changed it meanwhile")


def _leave(app: App, draft: Path, before: bytes) -> None:
    """Keep what was written and not saved, and say so."""
    with suppress(UsageError):
        if _read(draft) == before:
            draft.unlink()
        else:
            app.say(f"what you wrote is kept in {draft}")


def _read(path: Path) -> bytes:
    """The bytes of a file; UsageError when there is none, and nothing is waited for."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{path}: is not a file any more")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
