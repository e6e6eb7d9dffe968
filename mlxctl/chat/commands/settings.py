"""Commands about settings."""

import json
from typing import TYPE_CHECKING, Any

from mlxctl import options
from mlxctl.chat.answer import MODES
from mlxctl.chat.asked import Asked
from mlxctl.chat.commands import command, one_of
from mlxctl.errors import UsageError, did_you_mean, nearest
from mlxctl.options import Option
from mlxctl.output.json import encode

if TYPE_CHECKING:
    from mlxctl.chat.chat import Chat

# What a chat does not read, or has another command for.
_NOT_HERE = {
    "model.path": "/model changes the model", "output.format": "a chat has but one way to write answers",
    "cache.auto": "a session keeps its own", "cache.name": "a session keeps its own",
    "cache.max_bytes": "a session keeps its own",
    "prompt.files": "/read brings a file in", "prompt.system_file": "/system sets the system prompt",
    "output.thinking": "/think says what is shown",
}  # fmt: skip


_OTHERS_SAY = {"temperature": "temp", "num_ctx": "max_kv_size", "num_predict": "max_tokens", "repeat_penalty":
               "repetition_penalty"}  # fmt: skip


def settable() -> dict[str, Option]:
    """The settings that /set takes, by key."""
    return {row.key: row for row in options.options() if row.section != "request" and row.key not in _NOT_HERE}


def find(name: str) -> Option:
    """A setting by key, or by the part of it after the point. Raises UsageError."""
    rows = settable()
    if name in _NOT_HERE or (name and any(key.endswith(f".{name}") for key in _NOT_HERE)):
        key = next(key for key in _NOT_HERE if key == name or key.endswith(f".{name}"))
        raise UsageError(f"{key}: {_NOT_HERE[key]}")
    short = {key.partition(".")[2]: key for key in rows}
    spelled = _OTHERS_SAY.get(name, name.replace("-", "_"))
    key = spelled if spelled in rows else short.get(spelled, "")
    if key not in rows:
        raise UsageError(f"{name}: no such setting{did_you_mean(nearest(name, [*short, *rows]))}")
    return rows[key]


@command("/set KEY [VALUE]", completes="settings")
def set(chat: "Chat", words: str) -> None:
    """Change a setting for the answers to come: /set temp 0.7. Without a value: tell it."""
    name, _, text = words.partition(" ")
    if name.startswith("template.") and len(name) > len("template."):
        chat.set({"request.chat_template_config": {**_asked(chat), name[9:]: _json(text)}})
        chat.screen.say(f"{name} = {encode(_asked(chat)[name[9:]])}")
        _tell_unread(chat)
        return
    row = find(name)
    if not text.strip():
        now = chat.resolved.values[row.key]
        chat.screen.say(f"{row.key} = {encode(now.value)}  # {_origin(chat, row.key)}; takes {options.describe(row)}")
        return
    try:
        value = options.parse(row, _unquoted(text.strip()))
    except ValueError as error:
        raise UsageError(f"{row.key}: {error}") from None
    chat.set({row.key: value})
    chat.screen.say(f"{row.key} = {encode(value)}")


def _unquoted(text: str) -> str:
    """What stands between quotes, where they are those of a JSON string."""
    value = _json(text) if text.startswith('"') else text
    return value if isinstance(value, str) else text


def _tell_unread(chat: "Chat") -> None:
    """What the template does not read is told now, and not again with every answer."""
    for notice in chat.engine.unread(chat.settings):
        chat.say_once(notice)


def _asked(chat: "Chat") -> dict[str, Any]:
    """Arguments of the template that were set by flag or here."""
    return dict(chat.asked.values.get("request.chat_template_config", {}))


def _json(text: str) -> Any:
    """A value as JSON, or else as text."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        if text.lstrip().startswith(("{", "[")):
            raise UsageError(f"{text[:60]}: no JSON") from None
        return text
    return value


@command("/unset KEY", completes="settings")
def unset(chat: "Chat", words: str) -> None:
    """Take back what /set or a flag said; where none did, do without the profile's value."""
    if words.startswith("template."):
        asked = _asked(chat)
        if words[9:] not in asked:
            raise UsageError(f"{words}: was not set here")
        del asked[words[9:]]
        chat.set({"request.chat_template_config": asked})
        return
    row = find(words)
    said, now = chat.asked, chat.resolved.values[row.key]
    if row.key in said.values:
        chat.set({}, unset=[row.key])
    elif now.layer == "profile":
        chat.change(Asked(said.values, said.profile, [*said.unset, row.key]))
    else:
        raise UsageError(f"{row.key}: was set by nobody; it is {encode(now.value)}")
    chat.screen.say(f"{row.key} = {encode(chat.resolved.values[row.key].value)}")


def _origin(chat: "Chat", key: str) -> str:
    return "set for this chat" if key in chat.asked.values else chat.resolved.values[key].origin


@command("/settings")
def settings(chat: "Chat", words: str) -> None:
    """Show the settings that are not the defaults, and where each comes from."""
    values = sorted(chat.resolved.values.items())
    found = [(key, value) for key, value in values if value.layer != "default" and value.value is not None]
    for key, value in found:
        chat.screen.show(f"{key} = {encode(value.value)}  # {_origin(chat, key)}")
    if not found:
        chat.screen.say("all are the defaults")


@command("/profile [NAME]", completes="profiles")
def profile(chat: "Chat", words: str) -> None:
    """Go on under a profile; what was set by hand stays. Alone: tell which one is in use."""
    if not words:
        chat.screen.say(f"profile {chat.settings.profile}" if chat.settings.profile else "no profile")
        return
    chat.change(Asked(chat.asked.values, words, chat.asked.unset))
    chat.screen.say(f"profile {words}")


@command("/model [NAME]", completes="models")
def model(chat: "Chat", words: str) -> None:
    """Go on with another model; it reads the conversation anew. Alone: tell which one answers."""
    if words:
        chat.set({"model.path": words})
    chat.screen.say(f"model {chat.settings.model_id} ({chat.engine.traits['dtype']})")


@command("/system [TEXT]")
def system(chat: "Chat", words: str) -> None:
    """Set the system prompt; the conversation stays. Alone: show it."""
    if words:
        chat.set({"prompt.system": words}, unset=["prompt.system_file"])
        chat.screen.say("the system prompt is set; /unset system takes it back")
        return
    text = chat.settings.prompt.system
    chat.screen.show(text) if text else chat.screen.say("none is set; the template may have one (/template)")


@command("/think [show|fold|hide|on|off]", completes="thinking")
def think(chat: "Chat", words: str) -> None:
    """Show the model's thinking, fold it to a line, or hide it; on and off ask the model to think, or not to."""
    if words in ("on", "off"):
        chat.set({"request.think": words == "on"})
    elif words:
        chat.thinking = one_of("/think", words, (*MODES, "on", "off"))
    _tell_unread(chat)
    asked = {None: "as the model likes", True: "asked for", False: "asked not to be"}[chat.settings.request.think]
    chat.screen.say(f"thinking: {chat.thinking}; {asked}")
