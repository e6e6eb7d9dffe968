"""The answer as it comes, and one line end after it."""

from mlxctl.events import Done, Token
from mlxctl.output import Quiet


class Writer(Quiet):
    """`output.thinking` says where thinking goes: shown as the model wrote it, hidden, or on stderr.

    With --extract or --extract-last the answer is held back, and a fenced block of it is all that comes.
    """

    def token(self, token: Token) -> None:
        where = self.settings.output.thinking
        text = token.raw if where == "show" else token.text
        if text and not self._extracts:
            self.out.write(text)
        if where == "stderr" and token.thinking:
            self.err.write(token.thinking)

    def done(self, done: Done) -> None:
        if self.settings.output.thinking == "stderr" and done.thinking:
            self.err.write("\n")
        if not self._extracts:
            self.out.write("\n")
            return
        blocks = fenced(done.text)
        if not blocks:
            self.err.write("mlxctl: the answer has no fenced block: this is all of it\n")
            self.out.write(done.text + "\n")
        else:
            self.out.write(blocks[-1 if self.settings.request.extract_last else 0])

    @property
    def _extracts(self) -> bool:
        return self.settings.request.extract or self.settings.request.extract_last


def fenced(text: str) -> list[str]:
    """The contents of the fenced blocks of a Markdown text, those inside lists and quotes too."""
    from markdown_it import MarkdownIt

    return [token.content for token in MarkdownIt().parse(text) if token.type == "fence"]
