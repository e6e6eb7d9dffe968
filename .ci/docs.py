"""Write the parts of README that are made from the code, between `<!-- NAME -->` and `<!-- end NAME -->`.

`docs.py` rewrites them, `docs.py --check` fails when they are stale.
"""

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from mlxctl import options
from mlxctl.errors import ExitStatus
from mlxctl.events import SCHEMA, Done

README = Path(__file__).parent.parent / "README.md"


def options_table() -> str:
    """A row a setting: flag, profile key, variable, what it takes, default, help."""
    rows = ["| flag | key in a profile | variable | takes | default |  |", "|---|---|---|---|---|---|"]
    for row in options.options():
        flag = ", ".join(f"`{name}`" for name in (row.short, *row.flag.split("/")) if name)
        key = f"`{row.key}`" if row.in_profile else ""
        variable = f"`{row.env}`" if row.env else ""
        default = "" if row.default in (None, [], {}) else f"`{json.dumps(row.default)}`"
        cells = (flag, key, variable, options.describe(row), default, row.help)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def exit_statuses() -> str:
    """A row a status."""
    return "\n".join(["| status | meaning |", "|---|---|", *(f"| {s.value} | {s.meaning} |" for s in ExitStatus)])


def run_schema() -> str:
    """The JSON Schema of a run object."""
    schema = msgspec.json.schema(Done)
    for part in schema["$defs"].values():
        part["description"] = inspect.cleandoc(part["description"])  # msgspec's releases differ in it
    done = schema["$defs"]["Done"]
    done["properties"] = {"schema": {"const": SCHEMA}, **done["properties"]}
    done["required"] = ["schema", *done["required"]]
    return "```json\n" + json.dumps(schema, indent=1) + "\n```"


BLOCKS: dict[str, Callable[[], str]] = {
    "options": options_table,
    "exit statuses": exit_statuses,
    "run schema": run_schema,
}


def fill(text: str) -> str:
    """README with fresh blocks."""
    for name, make in BLOCKS.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
        if start not in text or end not in text:
            raise SystemExit(f"README.md has no block {name!r}")
        before, _, rest = text.partition(start)
        text = before + start + make() + "\n" + end + rest.partition(end)[2]
    return text


def main() -> None:
    text = README.read_text(encoding="utf-8")
    fresh = fill(text)
    if "--check" not in sys.argv[1:]:
        README.write_text(fresh, encoding="utf-8")
    elif fresh != text:
        raise SystemExit("README.md is stale: run `make docs`")


if __name__ == "__main__":
    main()
