"""`mlxctl generate`: mlx_lm.generate's argv, defaults, stdout and exit statuses.

The arguments are read by argparse, as upstream's are, so that its habits hold: several values for one flag,
prefixes of long flags, negative numbers.
"""

import argparse
import json
from typing import Any

import click

from mlxctl import options, profiles
from mlxctl.cli import inputs
from mlxctl.cli.answer import answer
from mlxctl.cli.app import App
from mlxctl.errors import ExitStatus, MlxctlError, UsageError
from mlxctl.options import Option

# Where upstream's defaults are not the table's.
DEFAULTS: dict[str, Any] = {
    "request.prompt": "hello",
    "generation.max_tokens": 100,
    "output.format": "classic",
    "model.dtype": "native",
    "request.escapes": True,
    "request.allow_special": True,
}
_VERBOSE = "request.verbose"


def make_parser(*, defaults: bool = True) -> argparse.ArgumentParser:
    """The parser of mlx_lm.generate, and --profile. defaults=False: hold only what was given."""
    parser = argparse.ArgumentParser(
        prog="mlxctl generate",
        description="Do what mlx_lm.generate does, flag for flag.",
        argument_default=None if defaults else argparse.SUPPRESS,
    )
    for row in options.options():
        if row.upstream:
            parser.add_argument(row.flag, *([row.short] if row.short else []), **_argument(row, defaults))
    parser.add_argument("-P", "--profile", metavar="NAME", help="Named settings, under the flags")
    return parser


def _argument(row: Option, defaults: bool) -> dict[str, Any]:
    default: dict[str, Any] = {"default": _default(row)} if defaults else {}
    text = {"help": row.help.replace("%", "%%")}
    if row.key == _VERBOSE:
        return {"type": options.upstream_bool, **default, **text}
    if row.base is bool:
        return {"action": "store_true", **default, **text}
    kind = type(row.choices[0]) if row.choices else row.base
    if kind is list:
        return {"nargs": "+", "type": str, **default, **text}
    return {"type": kind, **default, **text} if kind in (int, float) else {**default, **text}


def _default(row: Option) -> Any:
    if row.key == _VERBOSE:
        return True
    return {list: (), dict: None}.get(row.base, DEFAULTS.get(row.key, row.default))


class ArgparseCommand(click.Command):
    """Leaves its arguments to argparse."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            make_parser().parse_args(args)
        except SystemExit as left:
            ctx.exit(int(left.code or 0))
        ctx.params["given"] = vars(make_parser(defaults=False).parse_args(args))
        ctx.args = []
        return []


@click.command(cls=ArgparseCommand, add_help_option=False)
@click.pass_obj
def command(app: App, given: dict[str, Any]) -> int:
    """Do what mlx_lm.generate does, flag for flag."""
    try:
        resolved = _resolve(given)
        asked = inputs.as_upstream(resolved.settings, app)
        return answer(app, resolved, lambda: asked)
    except MlxctlError as error:
        # Upstream ends with 1 whatever goes wrong after its arguments are read.
        if error.exit_status < ExitStatus.LENGTH:
            error.exit_status = ExitStatus.FAULT
        raise


def _resolve(given: dict[str, Any]) -> profiles.Resolved:
    """Flags over the profile, if one is named; MLXCTL_ variables and default.toml are not upstream's."""
    profile = given.pop("profile", None)
    by_dest = {row.flag_name[2:].replace("-", "_"): row for row in options.options() if row.upstream}
    flags = {by_dest[dest].key: _utf8(by_dest[dest], value) for dest, value in given.items()}
    config = "request.chat_template_config"
    if config in flags:
        flags[config] = _template_config(flags[config])
    return profiles.resolve_as_upstream(flags, profile, DEFAULTS)


def _utf8(row: Option, value: Any) -> Any:
    try:
        if isinstance(value, list):
            return [options.as_text(row, item) for item in value]
        return options.as_text(row, value) if isinstance(value, str) else value
    except ValueError as error:
        raise UsageError(f"{row.flag_name}: {error}") from None


def _template_config(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--chat-template-config: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"--chat-template-config: expected a JSON object, got {text!r}")
    return found
