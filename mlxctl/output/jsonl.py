"""One JSON object a line as things happen, each with an `event` key."""

from dataclasses import asdict

from mlxctl.events import Done, Token
from mlxctl.output import Quiet
from mlxctl.output.json import encode


class Writer(Quiet):
    """Events: start, progress, token, done, error. The raw texts of all tokens make up the answer."""

    def start(self) -> None:
        self._emit("start", settings=self.settings)

    def progress(self, done: int, total: int) -> None:
        self._emit("progress", done=done, total=total)

    def token(self, token: Token) -> None:
        self._emit("token", **asdict(token))

    def done(self, done: Done) -> None:
        self._emit("done", **done.as_dict())

    def fail(self, message: str, exit_status: int) -> None:
        self._emit("error", error=message, exit_status=exit_status)

    def _emit(self, event: str, **fields: object) -> None:
        self.out.write(encode({"event": event, **fields}) + "\n")
