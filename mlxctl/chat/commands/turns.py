"""Commands about what is said."""

import textwrap
from typing import TYPE_CHECKING

from mlxctl.chat.commands import Command, command, commands, number
from mlxctl.chat.editor import edited
from mlxctl.errors import UsageError

if TYPE_CHECKING:
    from mlxctl.chat.chat import Chat


@command("/help [COMMAND]", completes="commands")
def help(chat: "Chat", words: str) -> None:
    """List the commands, or tell what one does."""
    known = commands()
    if words:
        name = words.removeprefix("/")
        if name not in known:
            raise UsageError(f"/{name}: no such command")
        chat.screen.show(f"{_usage(known[name])}\n{_indented(known[name].help, 2, chat.screen.width)}")
        return
    wide = max(len(_usage(one)) for one in known.values()) + 2
    for one in known.values():
        if wide < chat.screen.width // 2:
            text = _indented(one.help, wide, chat.screen.width)
            chat.screen.show(_usage(one).ljust(wide) + text[wide:])
        else:
            chat.screen.show(f"{_usage(one)}\n{_indented(one.help, 4, chat.screen.width)}")
    chat.screen.show(_indented(_KEYS, 0, chat.screen.width))


_KEYS = (
    'Enter sends; Alt-Enter or Ctrl-J begins a new line, and so does Enter inside """ … """. Tab completes, Ctrl-R '
    "searches what was said before, Ctrl-G opens your editor. Ctrl-C stops an answer, Ctrl-D leaves."
)


def _indented(text: str, by: int, width: int) -> str:
    return textwrap.fill(text, width - 1, initial_indent=" " * by, subsequent_indent=" " * by)


def _usage(one: Command) -> str:
    return f"/{one.name} {one.usage}".rstrip()


@command("/exit")
def exit(chat: "Chat", words: str) -> None:
    """Leave (Ctrl-D, q)."""
    chat.over = True


@command("/clear")
def clear(chat: "Chat", words: str) -> None:
    """Begin a new conversation with the same settings (r)."""
    chat.begin_anew()
    chat.screen.say("a new conversation")


@command("/undo [N]")
def undo(chat: "Chat", words: str) -> None:
    """Take back the last question and its answer, or the last N, and before that what /read brought; the question
    stands ready to be changed."""
    if chat.conversation.attached and not words:
        chat.conversation.attached = ""
        chat.save()
        chat.screen.say("what was read is taken back")
        return
    chat.draft = chat.conversation.undo(number("/undo", words, 1))
    chat.save()
    left = sum(said.role == "user" for said in chat.conversation.said)
    chat.screen.say(
        f"taken back, {left} {'question is' if left == 1 else 'questions are'} left; Ctrl-C clears the line"
    )


@command("/regen")
def regen(chat: "Chat", words: str) -> None:
    """Answer the last question anew."""
    if chat.settings.sampler.temp == 0 and chat.conversation.said:
        chat.screen.say("at temperature 0 the answer is the same: /set temp 0.7 changes that")
    chat.turn(chat.conversation.again(chat.interrupts.asked))


@command("/continue")
def go_on(chat: "Chat", words: str) -> None:
    """Go on with an answer that was cut."""
    chat.turn(chat.conversation.go_on(chat.interrupts.asked))


@command("/edit [N]")
def edit(chat: "Chat", words: str) -> None:
    """Change your last question in your editor, or the Nth, and ask it; what came after it is taken back."""
    asked = [place for place, said in enumerate(chat.conversation.said) if said.role == "user"]
    if not asked:
        raise UsageError("nothing was asked yet")
    which = number("/edit", words, len(asked))
    if which > len(asked):
        raise UsageError(f"/edit: there are {len(asked)} questions")
    place = asked[which - 1]
    before = chat.conversation.said[place].content
    with chat.keys.released():
        text = edited(before, chat.environ)
    if text == before or not text.strip():
        chat.screen.say("nothing was changed")
        return
    chat.screen.show(f">>> {text}")
    chat.turn(chat.conversation.ask(text, chat.interrupts.asked, at=place))


@command("/copy")
def copy(chat: "Chat", words: str) -> None:
    """Put the last answer on the clipboard."""
    from mlxctl.chat.clipboard import put

    answers = [said.content for said in chat.conversation.said if said.role == "assistant"]
    if not answers:
        raise UsageError("there is no answer to copy")
    chat.screen.say(put(answers[-1], chat.environ, chat.screen))


@command("/multi")
def multi(chat: "Chat", words: str) -> None:
    """Turn on or off that Enter begins a new line and Alt-Enter sends."""
    chat.multi = not chat.multi
    chat.screen.say("Alt-Enter sends, Enter begins a new line" if chat.multi else "Enter sends")
