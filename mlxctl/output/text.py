"""The answer as it comes, and one line end after it."""

from mlxctl.events import Done, Token
from mlxctl.output import Quiet


class Writer(Quiet):
    """`output.thinking` says where thinking goes: shown as the model wrote it, hidden, or on stderr."""

    def token(self, token: Token) -> None:
        where = self.settings.output.thinking
        text = token.raw if where == "show" else token.text
        if text:
            self.out.write(text)
        if where == "stderr" and token.thinking:
            self.err.write(token.thinking)

    def done(self, done: Done) -> None:
        if self.settings.output.thinking == "stderr" and done.thinking:
            self.err.write("\n")
        self.out.write("\n")
