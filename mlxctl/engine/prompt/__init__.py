"""The prompt: messages rendered by the chat template and encoded, and what is wrong with that template."""

from mlxctl.engine.prompt.confined import Confined, confined, render_confined
from mlxctl.engine.prompt.lint import Finding, codes, examined, lint
from mlxctl.engine.prompt.render import (
    OpenTurn,
    Rendered,
    common,
    least_tokens,
    notices,
    open_turn,
    pieces,
    render,
    stable_length,
    unread_notices,
)
from mlxctl.engine.prompt.template import Argument, arguments, source, template_hash, unread_arguments

__all__ = ["Argument", "Confined", "Finding", "OpenTurn", "Rendered", "arguments", "codes", "common", "confined",
           "examined", "least_tokens", "lint", "notices", "open_turn", "pieces", "render", "render_confined", "source",
           "stable_length", "template_hash", "unread_arguments", "unread_notices"]  # fmt: skip
