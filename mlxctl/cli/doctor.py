"""`mlxctl doctor`: what may be wrong here, and the mend."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from mlxctl import options
from mlxctl.cli.app import App
from mlxctl.cli.options import GroupedOption, TableCommand, parameters, profile_option, unset_option
from mlxctl.cli.run import settle
from mlxctl.cli.streams import divert_prints
from mlxctl.cli.template_view import coloured
from mlxctl.doctor import Patient, Row, examine
from mlxctl.errors import ExitStatus, UsageError
from mlxctl.output.json import encode
from mlxctl.terminal import harmless

_ROWS = [row for row in options.options() if row.key in ("model.path", "model.revision", "model.extra_eos_token")]
_FORMAT = GroupedOption(["--format", "form"], group="Output", type=click.Choice(["text", "json"]), default="text",
                        help="Lines, or a JSON object")  # fmt: skip


@click.command(cls=TableCommand, params=[_FORMAT, profile_option(), unset_option(), *parameters(_ROWS)])
@click.pass_obj
def command(app: App, /, form: str, **params: Any) -> int:
    """Look at what answers depend on: versions, device, memory, folders, profiles, caches, and the chosen model.

    Each row is ok, a warning, or fails; then it says what mends it. The network is never used. The exit status is that
    of the first row that fails, 0 where none does.
    """
    from mlxctl.engine.loader import go_offline

    environ = dict(app.environ)  # as it was set, not as it is for this process
    go_offline()
    divert_prints()
    rows = []
    for row in _rows(app, environ, params):
        rows.append(row)
        if form == "text":
            app.stdout.draw(_line(app, row))
    if form == "json":
        report = {
            "schema": "mlxctl.doctor/1",
            "ok": not any(row.status for row in rows),
            "rows": list(map(asdict, rows)),
        }
        app.stdout.write(encode(report) + "\n")
    return next((row.status for row in rows if row.status), ExitStatus.OK)


def _rows(app: App, environ: dict[str, str], params: dict[str, Any]) -> Iterator[Row]:
    """Those of the settings first: what else is found depends on them."""
    settings = None
    try:
        settings = settle(app, **params).settings
    except UsageError as error:
        yield Row("settings", "fail", error.message, error.hint, error.exit_status)
    yield from examine(Patient(settings, environ))


def _line(app: App, row: Row) -> str:
    mend = f"{'':<22}{harmless(row.mend)}\n" if row.mend else ""
    return f"{coloured(app, row.state)}{'':<{9 - len(row.state)}}{row.check:<13}{harmless(row.found)}\n{mend}"
