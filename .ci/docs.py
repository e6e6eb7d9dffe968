"""Write what is made from the code: parts of README, between `<!-- NAME -->` and `<!-- end NAME -->`, the JSON
Schema of profiles, and the completion scripts.

`docs.py` rewrites them, `docs.py --check` fails when they are stale.
"""

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from completions import scripts
from mlxctl import options
from mlxctl.chat.commands import commands
from mlxctl.engine import prompt
from mlxctl.errors import ExitStatus
from mlxctl.events import SCHEMA, Done
from mlxctl.profiles.schema import schema_text

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


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


def chat_commands() -> str:
    """A row a slash-command."""
    known = commands().values()
    rows = [(f"/{one.name} {one.usage}".rstrip(), one.help) for one in known]
    return "\n".join(
        ["| command | |", "|---|---|", *(f"| `{usage.replace('|', chr(92) + '|')}` | {text} |" for usage, text in rows)]
    )


def exit_statuses() -> str:
    """A row a status."""
    return "\n".join(["| status | meaning |", "|---|---|", *(f"| {s.value} | {s.meaning} |" for s in ExitStatus)])


def lint_codes() -> str:
    """A row a code."""
    rows = (f"| `{code}` | {severity} | {text} |" for code, (severity, text) in prompt.codes().items())
    return "\n".join(["| code | severity | |", "|---|---|---|", *rows])


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
    "commands": chat_commands,
    "lint codes": lint_codes,
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


def generated() -> dict[Path, str]:
    """The text of every file that is made from the code, in part or whole."""
    readme = {README: fill(README.read_text(encoding="utf-8"))}
    completions = {ROOT / "completions" / name: text for name, text in scripts().items()}
    return {**readme, ROOT / "profiles" / "schema.json": schema_text(), **completions}


def main() -> None:
    texts = generated()
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]
    if "--check" in sys.argv[1:] and stale:
        raise SystemExit(f"stale: {', '.join(path.name for path in stale)}: run `make docs`")
    for path in stale:
        path.write_text(texts[path], encoding="utf-8")


if __name__ == "__main__":
    main()
