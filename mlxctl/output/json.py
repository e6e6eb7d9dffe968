"""One JSON object when the run has ended."""

import msgspec

from mlxctl.events import Done
from mlxctl.output import Quiet


class Writer(Quiet):
    """The run object of README ("mlxctl.run/1")."""

    def done(self, done: Done) -> None:
        self.out.write(encode(done.as_dict()) + "\n")

    def fail(self, message: str, exit_status: int) -> None:
        self.out.write(encode({"error": message, "exit_status": exit_status}) + "\n")


def encode(value: object) -> str:
    """A value as JSON on one line."""
    return msgspec.json.encode(value).decode()
