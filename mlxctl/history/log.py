"""What a command tells the history of."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from mlxctl import paths
from mlxctl.errors import MlxctlError
from mlxctl.events import Done
from mlxctl.history import receipt, store
from mlxctl.history.record import Receipt, Run
from mlxctl.profiles.values import Value

if TYPE_CHECKING:
    from mlxctl.engine.stream import Generation


class Log:
    """Keeps the runs of one command; a fault here is told and takes nothing from the run."""

    def __init__(self, command: str, say: Callable[[str], None]) -> None:
        self._command = command
        self._say = say

    def keep(self, done: Done, running: "Generation", asked: Mapping[str, Value]) -> None:
        """Add a run, unless its settings say that none is to be kept. asked: its settings with their origins."""
        settings = running.job.settings
        if not settings.request.no_log and not settings.upstream_rules:
            self.write(run_of(done, answers=running.stop is not None, words=settings.output.log_text),
                       receipt.of_run(running, asked))  # fmt: skip

    def write(self, run: Run, made_by: Receipt) -> None:
        """Add what is ready to be kept."""
        try:
            store.append(self._command, _name(run.model.id), run, made_by)
        except MlxctlError as error:
            self._say(f"the history does not have this run: {error.message}")


def run_of(done: Done, *, answers: bool, words: bool) -> Run:
    """What is kept of a run. answers: whether it was there to answer. words: keep its text."""
    return Run(
        text=done.text if words and answers else UNSET,
        thinking=done.thinking if words and answers else UNSET,
        finish_reason=done.finish_reason if answers else None,
        stop=_said_of(done.stop, words=words) if answers else None,
        profile=done.profile,
        model=done.model,
        seed=done.seed if answers else None,
        timing=done.timing,
        versions=done.versions,
        device=done.device,
    )


def _said_of(stop: dict[str, Any], *, words: bool) -> dict[str, Any]:
    """Why it ended; a stop text is words of the answer."""
    return {name: value for name, value in stop.items() if words or name != "string"}


def _name(id: str) -> str:
    """A model's name in the history: a folder's in full, however it was called."""
    with suppress(MlxctlError, OSError):
        if paths.is_dir(path := paths.absolute(id)):
            return str(path.resolve())
    return id
