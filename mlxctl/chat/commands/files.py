"""Commands that read and write files."""

from typing import TYPE_CHECKING

from mlxctl import paths, texts
from mlxctl.chat.commands import command
from mlxctl.errors import ResourceError, UsageError
from mlxctl.events import Message
from mlxctl.output.json import encode
from mlxctl.writing import write_new

if TYPE_CHECKING:
    from pathlib import Path

    from mlxctl.chat.chat import Chat


@command("/read FILE", completes="files")
def read(chat: "Chat", words: str) -> None:
    """Put a file's text before your next question."""
    text = texts.read_file(words)
    if not text.strip():
        raise UsageError(f"{words}: says nothing")
    chat.conversation.attached += texts.before(text)
    chat.screen.say(f"{words}: {len(text)} characters go before your next question")


@command("/image FILE", completes="files")
def image(chat: "Chat", words: str) -> None:
    """Hand the model an image, for the next placeholder in your text."""
    if not paths.is_file(paths.expand(words)):
        raise UsageError(f"{words}: no such file")
    if not chat.engine.takes_images:
        raise UsageError(f"{chat.settings.model_id} does not take images")
    chat.set({"request.image": [*chat.settings.request.image, words]})
    chat.screen.say(f"{words}: for placeholder {len(chat.settings.request.image)} of the conversation")


@command("/export FILE", completes="files")
def export(chat: "Chat", words: str) -> None:
    """Write the conversation to a new file: NAME.md to be read, NAME.json as a message list."""
    path, messages = paths.absolute(words), chat.conversation.messages
    if path.suffix not in (".md", ".json"):
        raise UsageError(f"{words}: expected a name that ends in .md or .json")
    if not chat.conversation.said:
        raise UsageError("nothing was said yet")
    text = _markdown(messages) if path.suffix == ".md" else encode(messages) + "\n"
    _write(path, words, text)
    chat.screen.say(f"{len(messages)} messages in {paths.short(path)}")


def _write(path: "Path", name: str, text: str) -> None:
    try:
        write_new(path, text.encode())
    except FileExistsError:
        raise UsageError(f"{name}: is there already") from None
    except OSError as error:
        raise ResourceError(f"{name}: {error.strerror}") from None


def _markdown(messages: list[Message]) -> str:
    """A heading a message."""
    return "\n\n".join(f"## {message['role'].capitalize()}\n\n{message['content']}" for message in messages) + "\n"
