"""The JSON Schema of a profile, for editors: made from the option table, as everything else is."""

import json
from typing import Any

import msgspec

from mlxctl import options
from mlxctl.options import Option
from mlxctl.profiles.files import TABLES, TOP

_TEMPLATE = {"type": "object", "description": "Free keys, handed to the model's chat template"}


def schema_text() -> str:
    """The schema as JSON, laid out to be read."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema() -> dict[str, Any]:
    """JSON Schema (draft 7, which editors know) of a parsed profile.

    What it cannot say: that a number is finite, and that 1.0 is no whole number.
    """
    tables = {name: _TEMPLATE if name == "template" else _table(name) for name in TABLES}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "mlxctl profile",
        "type": "object",
        "properties": {**{key: {"type": "string", "description": text} for key, text in TOP.items()}, **tables},
        "additionalProperties": False,
    }


def _table(section: str) -> dict[str, Any]:
    keys = {option.name: _value(option) for option in options.options() if option.section == section}
    return {"type": "object", "properties": keys, "additionalProperties": False}


def _value(option: Option) -> dict[str, Any]:
    made = msgspec.json.schema(option.type)
    kinds = [kind for kind in made.pop("anyOf", []) if kind != {"type": "null"}]  # TOML has no null
    made |= kinds[0] if kinds else {}
    if None in made.get("enum", []):
        made["enum"] = [value for value in made["enum"] if value is not None]
    return made if option.default is None else {**made, "default": option.default}
