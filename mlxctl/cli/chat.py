"""`mlxctl chat`: a conversation."""

from contextlib import suppress
from typing import Any

import click

from mlxctl import options
from mlxctl.cli.app import App
from mlxctl.cli.options import GroupedOption, TableCommand, flags, parameters, profile_option, unset_option
from mlxctl.cli.streams import Out, divert_prints
from mlxctl.errors import MlxctlError, UsageError

_LEFT_OUT = {"request.prompt", "request.messages", "request.prompt_cache_file", "request.cache_update",
             "request.verbose", "request.dry_run", "request.fail_on_length", "request.escapes",
             "request.batch", "request.batch_size", "request.as_completed", "request.resume",
             "request.param", "request.recursive", "request.truncate", "request.output", "request.tee",
             "request.extract", "request.extract_last", "request.top_logprobs", "prompt.template",
             "output.format"}  # fmt: skip
_ROWS = [row for row in options.options() if row.key not in _LEFT_OUT and row.section != "cache"]
_SESSION = [
    GroupedOption(["--session"], group="Session", metavar="SESSION", help="Go on with the conversation of this name, "
                  "or begin it"),
    GroupedOption(["-c", "--continue", "go_on"], group="Session", is_flag=True, help="Go on with the last "
                  "conversation"),
    GroupedOption(["--no-save"], group="Session", is_flag=True, help="Keep nothing: no conversation, no history, no "
                  "record of its figures"),
    GroupedOption(["--pipeline"], group="Session", is_flag=True, help="Accepted as mlx_lm.chat does; in one process "
                  "it does nothing"),
]  # fmt: skip


@click.command(cls=TableCommand, params=[profile_option(), unset_option(), *_SESSION, *parameters(_ROWS)])
@click.pass_obj
def command(app: App, /, profile: str | None, unset: tuple[str, ...], session: str | None, go_on: bool, no_save: bool,
            pipeline: bool, **params: Any) -> int:  # fmt: skip
    """Talk with a model: /help lists what you can do, Ctrl-D leaves.

    The conversation is kept after every answer (--no-save keeps nothing), and only what is new is computed. Without
    a terminal each line of stdin is a question, and stdout holds the answers.
    """
    from mlxctl.chat import plain, sessions
    from mlxctl.chat.asked import Asked
    from mlxctl.chat.chat import Chat
    from mlxctl.chat.interrupt import Leave

    app.stdout.require()
    if go_on and session is not None:
        raise UsageError("--continue and --session both say which conversation to go on with")
    if no_save and (go_on or session is not None):
        raise UsageError("--no-save keeps nothing, and --session and --continue go on with what is kept: one of them")
    if go_on:
        session = sessions.last()
    interactive = app.stdin.isatty() and app.stderr.isatty()
    # A script that names no session wants none of its questions in the list of a person's.
    keep = not no_save and (interactive or session is not None)
    unlogged = {"request.no_log": True} if no_save else {}
    call = Asked.of_call({**flags(params), **unlogged}, profile, unset)
    if session is None:
        call.resolve(app.environ)  # before anything heavy is imported
    chat = Chat(_screen(app, interactive), app.environ, call, keep=keep)
    divert_prints()
    chat.interrupts.tidy, chat.interrupts.resumed = chat.keys.release, chat.keys.resume
    try:
        chat.interrupts.install()
        if interactive:
            from mlxctl.chat import repl

            chat.interrupts.watch_terminal()
            chat.keys.hold()  # from here on: somebody may type while the model is loaded
            chat.open(session)
            repl.run(chat, remember=not no_save)
        else:
            chat.open(session)
            plain.run(chat, app.stdin.lines())
    except Leave as left:
        with suppress(MlxctlError):
            chat.leave()
        return 128 + left.number
    finally:
        chat.keys.release()
    return chat.status


def _screen(app: App, interactive: bool) -> Any:
    from mlxctl.chat.screen import Screen
    from mlxctl.cli.streams import Err

    drawn = app.stdout.isatty() and app.environ.get("TERM") != "dumb"
    styled = interactive and not app.environ.get("NO_COLOR") and app.environ.get("TERM") != "dumb"
    err = Err(2, app.stderr.encoding, raw=True) if interactive else app.stderr
    out = Out(1, raw=True) if drawn else app.stdout
    return Screen(out, err, interactive, drawn, styled, movable=interactive and app.environ.get("TERM") != "dumb")
