"""The JSON Schema of profiles, held against a JSON Schema validator and against the program's own verdict."""

import json
from pathlib import Path

import pytest
import tomli
from conftest import REPO, Program
from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError

from mlxctl import options, profiles
from mlxctl.profiles.files import examine

SCHEMA = json.loads((REPO / "profiles" / "schema.json").read_text(encoding="utf-8"))
SHIPPED = sorted((REPO / "profiles").glob("*.toml"))
GOOD = [
    "",
    "extends = 'a'\ndescription = 'b'",
    "[sampler]\ntemp = 1\nseed = 0",
    "[sampler]\ntemp = 0.7",
    "[kv]\nkv_bits = 4\nkv_group_size = 32",
    "[logits]\nlogit_bias = {'id:7' = -1}\nban = ['x']",
    "[generation]\nmax_tokens = -1\nstop = []",
    "[template]\nanything = {deep = [1, 'x']}",
    "[output]\nformat = 'json'",
]
BAD = [
    "temp = 1",
    "extend = 'a'",
    "extends = 1",
    "description = ['x']",
    "sampler = 1",
    "[request]\nprompt = 'x'",
    "[sampler]\ntmp = 1",
    "[sampler]\ntemp = '0.7'",
    "[sampler]\ntemp = true",
    "[sampler]\ntemp = -1",
    "[sampler]\ntop_p = 0",
    "[sampler]\ntop_p = 1.1",
    "[sampler]\ntop_k = 1.5",
    "[sampler]\ntop_k = -1",
    "[sampler]\nseed = -1",
    "[sampler]\nxtc_threshold = 0.6",
    "[logits]\nrepetition_penalty = 0",
    "[logits]\nlogit_bias = {a = 'x'}",
    "[logits]\nban = 'x'",
    "[generation]\nmax_tokens = 0",
    "[generation]\nmax_tokens = -2",
    "[generation]\nstop = [1]",
    "[kv]\nkv_bits = 7",
    "[kv]\nkv_bits = '4'",
    "[kv]\nmax_kv_size = 7",
    "[output]\nformat = 'JSON'",
    "[model]\ntrust_remote_code = 'yes'",
    "[model]\ndtype = 'float64'",
    "template = []",
]


def schema_faults(text: str) -> list[ValidationError]:
    """What the validator says."""
    return list(Draft7Validator(SCHEMA).iter_errors(tomli.loads(text)))


def own_faults(text: str, folder: Path) -> list[str]:
    """What we say."""
    path = folder / "p.toml"
    path.write_text(text, encoding="utf-8")
    return examine(path)[1]


def test_the_schema_is_one() -> None:
    """By the meta-schema; every key of the table is described, and there is no other."""
    Draft7Validator.check_schema(SCHEMA)
    rows = {(row.section, row.name): row for row in options.options() if row.in_profile}
    tables = {name: table for name, table in SCHEMA["properties"].items() if "properties" in table}
    described = {(name, key): value for name, table in tables.items() for key, value in table["properties"].items()}
    assert described.keys() == rows.keys()
    assert all(value["description"] == rows[key].help for key, value in described.items())
    assert not any(table["additionalProperties"] for table in [SCHEMA, *tables.values()])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_profiles(path: Path) -> None:
    """Each names the schema in its first line, passes it and our own check, and says what it is for."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("#:schema ./schema.json\n# ")
    assert schema_faults(text) == []
    report = profiles.check(path)
    assert (report.faults, report.warnings) == ([], [])
    assert report.profile[0].description
    assert text.count("\n# ") >= 2


def test_the_shipped_profiles_are_the_ones_promised() -> None:
    """By name."""
    names = {path.stem for path in SHIPPED}
    assert names == {"chat", "code", "creative", "demo", "deterministic", "json", "long-context", "reasoning"}


@pytest.mark.parametrize("text", GOOD)
def test_good_ones_pass_both(text: str, tmp_path: Path) -> None:
    """The schema and the program agree."""
    assert schema_faults(text) == [] and own_faults(text, tmp_path) == []


@pytest.mark.parametrize("text", BAD)
def test_broken_ones_fail_both(text: str, tmp_path: Path) -> None:
    """The schema and the program agree."""
    assert schema_faults(text) and own_faults(text, tmp_path)


def test_the_command_prints_it(mlxctl: Program) -> None:
    """As the file holds it; every default in it is a value its key takes."""
    done = mlxctl("profile", "schema")
    assert (done.code, done.err) == (0, "") and json.loads(done.out) == SCHEMA
    for table in SCHEMA["properties"].values():
        for value in table.get("properties", {}).values():
            if "default" in value:
                assert Draft7Validator(value).is_valid(value["default"])
