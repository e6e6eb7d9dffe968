"""From the option table to click: parameters, values with their keys, help in groups."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import click

from mlxctl import options
from mlxctl.options import Option

_GROUPS = {"kv": "KV cache", "request": "This run"}
_OPTIONAL_VALUE = {"output.stats": "always"}  # what the flag alone means


class TableType(click.ParamType):  # type: ignore[type-arg] # generic only in click 8.5
    """Reads the text of a flag as the table says, and checks its range."""

    name = "value"

    def __init__(self, option: Option) -> None:
        self.option = option

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        if self.option.choices:
            return "[" + "|".join(map(str, self.option.choices)) + "]"
        return self.option.metavar or {int: "N", float: "X"}.get(self.option.base, "TEXT")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            if self.option.base is list:
                return options.as_text(self.option, value)  # one text; the flag is repeated for more
            if self.option.metavar == "TOKEN=BIAS":
                return _pair(self.option, options.as_text(self.option, value))
            if self.option.metavar == "NAME=TEXT":
                return _named(options.as_text(self.option, value))
            if self.option.key == "request.verbose":
                return options.upstream_bool(value)
            return options.parse(self.option, value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _pair(option: Option, text: str) -> tuple[str, float]:
    token, _, bias = text.rpartition("=")
    try:
        return token, options.check(option, {token: float(bias)})[token]
    except ValueError:
        raise ValueError(f"expected TOKEN=BIAS with a number, got {text!r}") from None


def _named(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise ValueError(f"expected NAME=TEXT, got {options.shown(text)}")
    return name, value


class TableCommand(click.Command):
    """A command whose options stand in the table: its help is grouped as the table is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, _settle_optional(args))
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click forgets where it was when a value is missing
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = (p for p in self.get_params(ctx) if isinstance(p, click.Option))
        rows = [(getattr(p, "group", "Other"), p.get_help_record(ctx)) for p in shown]
        for group, records in groupby(rows, key=lambda row: row[0]):
            with formatter.section(group):
                formatter.write_dl([record for _, record in records if record is not None])


class GroupedOption(click.Option):
    """A click option that knows its group in the help."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


class TableOption(GroupedOption):
    """A click option that remembers its row."""

    def __init__(self, *args: Any, row: Option, **kwargs: Any) -> None:
        super().__init__(*args, group=_GROUPS.get(row.section, row.section.capitalize()), **kwargs)
        self.row = row


def profile_option() -> click.Parameter:
    """-P, of every command that takes settings."""
    return GroupedOption(["-P", "--profile"], group="Profile", metavar="PROFILE", help="Named settings: a profile, "
                         "or the path of one")  # fmt: skip


def unset_option() -> click.Parameter:
    """--unset, of the same commands."""
    return GroupedOption(["--unset"], group="Profile", metavar="KEY", multiple=True, help="Do without the profile's "
                         "value for KEY, such as temp or sampler.temp (repeatable)")  # fmt: skip


def parameters(rows: Iterable[Option]) -> list[click.Parameter]:
    """click options for rows of the table."""
    return [option for row in rows if row.flag for option in _for_row(row)]


def flags(params: dict[str, Any]) -> dict[str, Any]:
    """The values of the flags that were given, by key."""
    given = {name.replace("__", "."): value for name, value in params.items() if "__" in name}
    return {key: _gather(options.by_key()[key], value) for key, value in given.items() if value not in (None, ())}


def _gather(row: Option, value: Any) -> Any:
    if isinstance(value, tuple):
        return dict(value) if row.base is dict else list(value)
    return value


def _for_row(row: Option) -> list[TableOption]:
    name = row.key.replace(".", "__")
    common: dict[str, Any] = {"row": row, "default": None, "help": _help(row)}
    short = [row.short] if row.short else []
    if row.key in _OPTIONAL_VALUE:
        yes, no = row.flag.split("/")
        off = {**common, "help": "No timing on stderr"}
        return [
            TableOption([yes, name], type=TableType(row), is_flag=False, flag_value=_OPTIONAL_VALUE[row.key], **common),
            TableOption([no, name], flag_value="never", **off),
        ]
    if row.base is bool and row.key != "request.verbose":
        # Whatever a variable or a profile may turn on, a flag can turn off.
        flag = f"{row.flag}/--no-{row.flag[2:]}" if "/" not in row.flag and (row.in_profile or row.env) else row.flag
        if "/" not in flag:
            common["flag_value"] = True
        return [TableOption([flag, *short, name], is_flag=True, **common)]
    many = _is_repeated(row)
    return [TableOption([row.flag, *short, name], type=TableType(row), multiple=many, **common)]


def _is_repeated(row: Option) -> bool:
    return row.base is list or row.metavar in ("TOKEN=BIAS", "NAME=TEXT")


def _help(row: Option) -> str:
    repeat = " (repeatable)" if _is_repeated(row) else ""
    shown = row.base is not bool and row.default not in (None, [], {})
    default = f"  [default: {row.default}]" if shown else ""
    return row.help + repeat + default


def _settle_optional(args: Sequence[str]) -> list[str]:
    """Keep `--stats "a question"` from taking the question for its value: click would."""
    settled: list[str] = []
    choices = {options.by_key()[key].flag_name: (options.by_key()[key].choices, value)
               for key, value in _OPTIONAL_VALUE.items()}  # fmt: skip
    end = args.index("--") if "--" in args else len(args)
    for place, arg in enumerate(args):
        following = args[place + 1] if place + 1 < len(args) else None
        if place < end and arg in choices and following not in choices[arg][0]:
            arg = f"{arg}={choices[arg][1]}"
        settled.append(arg)
    return settled
