"""`mlxctl run`: one answer, streamed."""

from typing import Any

import click

from mlxctl import options, profiles, rules
from mlxctl.cli.app import App
from mlxctl.cli.options import TableCommand, flags, parameters, profile_parameters


@click.command(cls=TableCommand, params=[*profile_parameters(), *parameters(options.options())])
@click.argument("words", nargs=-1, metavar="[PROMPT]...")
@click.pass_obj
def command(app: App, /, words: tuple[str, ...], profile: str | None, unset: tuple[str, ...], **params: Any) -> int:
    """Answer one prompt; the answer streams to stdout.

    The prompt is made of -f files, then stdin, then the question ("-" names stdin). Settings come from flags, then
    MLXCTL_ variables, then the profile, then the defaults.
    """
    from mlxctl.cli import inputs
    from mlxctl.cli.answer import answer

    given = flags(params)
    verbose = given.get("request.verbose")
    if verbose is not None:
        given.setdefault("output.format", "classic" if verbose else "text")
    resolved = profiles.resolve(given, app.environ, profile, unset)
    rules.enforce(rules.for_settings(resolved.settings), resolved.settings, say=lambda message: None)  # said later
    parts = inputs.gather(resolved.settings, words, app)
    return answer(app, resolved, lambda: inputs.finish(parts, app))
