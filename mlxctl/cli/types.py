"""What click reads from the text of options that stand in no table."""

import re
import time
from datetime import datetime

import click

from mlxctl import options

MOST = 2**63 - 1  # the largest number of a run
_AGES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Size(click.ParamType):  # type: ignore[type-arg] # generic only in click 8.5
    """Bytes: 500000, 500MB, 2.5GB."""

    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return options.size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Age(click.ParamType):  # type: ignore[type-arg]
    """Seconds: 90m, 12h, 30d, 2w."""

    name = "AGE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = age(str(value))
        if found is None:
            self.fail(f"expected an age such as 12h, 30d or 2w, got {options.shown(value)}", param, ctx)
        return found


class Since(click.ParamType):  # type: ignore[type-arg]
    """A time in seconds since 1970: an age, a date, or a date and time, which is local where it names no zone."""

    name = "WHEN"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        if (back := age(text)) is not None:
            return time.time() - back
        try:
            return datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError, OSError):
            self.fail(f"expected an age such as 12h or 7d, or a date such as 2026-05-31, got {options.shown(text)}",
                      param, ctx)  # fmt: skip


def age(text: str) -> int | None:
    """Seconds in a text such as 90m; None where it is none."""
    found = re.fullmatch(r"([0-9]{1,9})([smhdw])", text)
    return int(found[1]) * _AGES[found[2]] if found else None
