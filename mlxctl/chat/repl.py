"""The prompt of a chat: lines with history, completion, an editor, and a bar below."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application.run_in_terminal import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import create_output
from prompt_toolkit.styles import Style

from mlxctl import paths
from mlxctl.chat.commands import parse
from mlxctl.chat.completer import SlashCommands
from mlxctl.chat.editor import edited
from mlxctl.chat.interrupt import Leave
from mlxctl.errors import MlxctlError, ReaderGone

if TYPE_CHECKING:
    from mlxctl.chat.chat import Chat

_QUOTE = '"""'
_STYLE = Style.from_dict({"bottom-toolbar": "noreverse", "prompt": "bold"})


def run(chat: "Chat", *, remember: bool) -> None:
    """Take lines until the person leaves. remember: keep them for the next chat's history."""
    session = _session(chat, remember)
    chat.interrupts.end_prompt = lambda leave: _end(session, leave)
    chat.screen.say("/help lists the commands, Ctrl-D leaves")
    _take_lines(chat, session)
    chat.leave()


def _take_lines(chat: "Chat", session: "PromptSession[str]") -> None:
    while not chat.over:
        chat.interrupts.obey()
        draft, chat.draft = chat.draft, ""
        try:
            line = session.prompt(default=draft)
        except EOFError:
            break
        except KeyboardInterrupt:
            if not session.default_buffer.text:
                chat.screen.say("Ctrl-D or /exit leaves")
            continue
        chat.interrupts.obey()
        handle(chat, line)


def _end(session: "PromptSession[str]", leave: Leave) -> bool:
    """Have the prompt end with this exception, if it is there; its loop does it, between two other things."""
    app = session.app
    if app.loop is None or not app.is_running:
        return False

    def end() -> None:
        if app.future is not None and not app.future.done():
            app.exit(exception=leave)

    app.loop.call_soon_threadsafe(end)
    return True


def handle(chat: "Chat", line: str) -> None:
    """Do what a line says; what is wrong is told, and the chat goes on."""
    line = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # what was pasted may be no text
    text = unquoted(line)
    if not text.strip():
        return
    try:
        found = parse(line) if text == line else None
        if found is None:
            chat.ask(text)
        else:
            found[0].run(chat, found[1])
            chat.measure()
    except ReaderGone:
        raise
    except MlxctlError as error:
        chat.screen.say(error.message)
        if error.hint:
            chat.screen.say(f"  {error.hint}")
    except KeyboardInterrupt:
        chat.screen.say("stopped")


def is_open(text: str) -> bool:
    """Whether a block in triple quotes has begun and not ended."""
    begun = text.lstrip()
    return begun.startswith(_QUOTE) and not (len(begun.rstrip()) >= 6 and begun.rstrip().endswith(_QUOTE))


def unquoted(text: str) -> str:
    """The text of a block in triple quotes, or the text itself."""
    block = text.strip()
    if block.startswith(_QUOTE) and block.endswith(_QUOTE) and len(block) >= 6:
        return block[3:-3].strip("\n")
    return text


def _session(chat: "Chat", remember: bool) -> "PromptSession[str]":
    # Its own input and output: sys.stdout is stderr here, and an answer may go into a pipe.
    return PromptSession(
        message=[("class:prompt", ">>> ")],
        prompt_continuation="... ",
        multiline=True,
        history=_history(remember),
        completer=SlashCommands(chat),
        complete_while_typing=False,
        key_bindings=_keys(chat),
        bottom_toolbar=lambda: _bar(chat),
        style=_STYLE,
        output=create_output(_Terminal(chat)),  # type: ignore[arg-type]
        include_default_pygments_style=False,
        enable_suspend=True,
        reserve_space_for_menu=4,
    )


class _Terminal:
    """The stream that the prompt is drawn on: stderr, which is the terminal even where answers go elsewhere."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, chat: "Chat") -> None:
        self._err = chat.screen.err

    def write(self, text: str) -> int:
        self._err.write(text)
        return len(text)

    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        return 2

    def isatty(self) -> bool:
        return os.isatty(2)


def _history(remember: bool) -> History:
    """Lines of this chat and of those before, for the person's eyes alone."""
    if not remember:
        return InMemoryHistory()
    with suppress(OSError, MlxctlError):
        path = paths.state_dir() / "chat_history"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600))
        return _Careful(str(path))
    return InMemoryHistory()


class _Careful(FileHistory):
    """A full disk costs the line in the history, and no more."""

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)

    def load_history_strings(self) -> Any:
        if not Path(str(self.filename)).is_file():
            return []
        return super().load_history_strings()


def _keys(chat: "Chat") -> KeyBindings:
    keys = KeyBindings()
    writing = has_focus(DEFAULT_BUFFER)  # and not what is searched for in the history

    @keys.add(Keys.Vt100MouseEvent)
    def mouse(event: KeyPressEvent) -> None:
        """Colour codes in a paste look like one."""

    @keys.add("enter", filter=writing)
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif is_open(buffer.text) or (chat.multi and not buffer.text.startswith("/")):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=writing)
    def other_enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if chat.multi and not is_open(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("c-j", filter=writing)
    def newline(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-g", filter=writing)
    def editor(event: KeyPressEvent) -> None:
        run_in_terminal(lambda: _edit(chat, event.current_buffer))

    return keys


def _edit(chat: "Chat", buffer: Buffer) -> None:
    """What is being written, in the person's editor."""
    try:
        text = buffer.text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        with chat.keys.released():
            buffer.text = edited(text, chat.environ)
        buffer.cursor_position = len(buffer.text)
    except MlxctlError as error:
        chat.screen.say(error.message)


def _bar(chat: "Chat") -> StyleAndTextTuples:
    """Model, tokens of the context, the last rate, and what of the conversation is in memory."""
    text = " · ".join(part for part in chat.summary() if part)
    width = chat.screen.width
    return [("class:bottom-toolbar", text if len(text) < width else text[: width - 2] + "…")]
