"""`mlxctl run`: one answer, streamed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mlxctl import options, profiles
from mlxctl.cli.app import App
from mlxctl.cli.options import GroupedOption, TableCommand, flags, parameters, profile_option, unset_option
from mlxctl.errors import ExitStatus, UsageError
from mlxctl.profiles import Resolved

if TYPE_CHECKING:
    from mlxctl.profiles.new import NewProfile

_SAVE = GroupedOption(["--save-profile"], group="Profile", metavar="NAME", help="When the answer is there, keep the "
                      "flags as a new profile")  # fmt: skip


ROWS = [row for row in options.options() if row.section != "chat"]


@click.command(cls=TableCommand, params=[profile_option(), unset_option(), _SAVE, *parameters(ROWS)])
@click.argument("words", nargs=-1, metavar="[PROMPT]...")
@click.pass_obj
def command(app: App, /, words: tuple[str, ...], save_profile: str | None, **params: Any) -> int:
    """Answer one prompt; the answer streams to stdout.

    The prompt is made of -f files, then stdin, then the question ("-" names stdin). Settings come from flags, then
    MLXCTL_ variables, then the profile, then the defaults.
    """
    return one_answer(app, words, save_profile, params)


def one_answer(app: App, words: Sequence[str], save_profile: str | None, params: dict[str, Any]) -> int:
    """What `run` does with its arguments."""
    from mlxctl.cli import inputs
    from mlxctl.cli.answer import answer

    resolved = settle(app, **params)
    if resolved.settings.request.batch is not None:
        from mlxctl.cli.batch import run_batch

        if save_profile is not None:
            raise UsageError("--save-profile: --batch answers many prompts")
        return run_batch(app, resolved, words)
    saved = _plan(save_profile, resolved) if save_profile is not None else None
    parts = inputs.gather(resolved.settings, words, app)
    status = answer(app, resolved, lambda: inputs.finish(parts, app))
    if saved is not None and status in (ExitStatus.OK, ExitStatus.LENGTH):
        keep(app, saved)
    return status


def keep(app: App, planned: "NewProfile") -> None:
    """Write a new profile, and tell the person of it."""
    planned.write()
    for note in planned.notes:
        app.say(note)
    app.say(f'saved as {planned.path}, for: mlxctl run -P {planned.called} "…"')


def settle(app: App, /, profile: str | None, unset: Sequence[str], **params: Any) -> Resolved:
    """The settings that a command line of `run` means. Raises UsageError for what no run could use."""
    resolved = profiles.resolve(flags(params), app.environ, profile, unset)
    list(profiles.enforce(resolved))  # what it warns of, the run will say
    return resolved


def settle_line(app: App, args: list[str]) -> Resolved:
    """The same for arguments that somebody gave as a text."""
    params = command.make_context("mlxctl run", args, obj=app, help_option_names=[]).params
    return settle(app, **{name: value for name, value in params.items() if name not in ("words", "save_profile")})


def _plan(name: str, resolved: Resolved) -> "NewProfile":
    """See that the profile can be written before an hour's answer."""
    from mlxctl.profiles.new import plan

    if resolved.settings.request.dry_run:
        raise UsageError("--save-profile: --dry-run answers nothing", hint='mlxctl profile new NAME --from "run …"')
    return plan(name, resolved)
