"""Profiles under random input: layers against a simple model, keys that do not exist, text that comes back, bytes
that are no profile at all."""

import json
import math
import string
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Forked
from forked import Server
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mlxctl import options, profiles, rules
from mlxctl.options import Option
from mlxctl.profiles.files import examine

# These have tests of their own: names of files, two forms of one thing, and grammars, which must be some.
APART = {"prompt.system_file", "prompt.files", "prompt.system", "model.adapter_path", "generation.json_schema",
         "generation.regex", "generation.grammar"}  # fmt: skip
ROWS = [row for row in options.options() if row.in_profile and row.key not in APART]
TEXT = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"], exclude_characters="\x7f"), max_size=8)


def valid(row: Option) -> st.SearchStrategy[Any]:
    """Values that a setting takes."""
    if row.choices:
        return st.sampled_from(row.choices)
    low, high = row.limits.get("ge", row.limits.get("gt")), row.limits.get("le")
    kinds: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        str: TEXT.filter(lambda text: not text.startswith((".", "~"))),
        list: st.lists(TEXT, max_size=3),
        dict: st.dictionaries(TEXT, st.floats(-100, 100), max_size=3),
        int: st.integers(-(2**40) if low is None else int(low), 2**40 if high is None else int(high)),
        float: st.floats(low, high, exclude_min="gt" in row.limits, allow_nan=False, allow_infinity=False),
    }
    return kinds[row.base].filter(lambda value: value not in row.forbid if not isinstance(value, list | dict) else True)


def toml(value: Any) -> str:
    """A value on one line of TOML; JSON's forms are TOML's, but for tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)} = {toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def setting() -> st.SearchStrategy[dict[str, Any]]:
    """Some settings, by key."""
    return st.lists(st.sampled_from(ROWS), max_size=6, unique_by=lambda row: row.key).flatmap(
        lambda rows: st.fixed_dictionaries({row.key: valid(row) for row in rows})
    )


@dataclass(frozen=True)
class Stack:
    """Layers, the strongest first; profiles too."""

    flags: Mapping[str, Any]
    variables: Mapping[str, Any]
    profiles: Sequence[Mapping[str, Any]]
    unset: Sequence[str]


STACKS = st.builds(
    Stack,
    setting(),
    setting().map(lambda found: {key: value for key, value in found.items() if options.by_key()[key].env}),
    st.lists(setting(), min_size=1, max_size=4),
    st.lists(st.sampled_from([row.key for row in ROWS]), max_size=3),
)


def write_chain(folder: Path, layers: Sequence[Mapping[str, Any]]) -> None:
    """p0.toml extends p1.toml, and so on; one key a line, the first on line 2."""
    for number, layer in enumerate(layers):
        last = number == len(layers) - 1
        first = "# no parent" if last else f'extends = "./p{number + 1}.toml"'
        lines = [f"{key} = {toml(value)}" for key, value in layer.items()]
        (folder / f"p{number}.toml").write_text("\n".join([first, *lines]) + "\n", encoding="utf-8")


def expected(stack: Stack, row: Option, folder: Path) -> tuple[Any, str]:
    """What SPEC 2 says, in the plainest words: (value, origin)."""
    if row.key in stack.flags:
        return stack.flags[row.key], f"flag {row.flag_name}"
    if row.key in stack.variables:
        return stack.variables[row.key], f"variable {row.env}"
    for number, layer in enumerate(stack.profiles):
        if row.key in layer:
            if row.key in stack.unset:
                return row.default, "--unset"
            return layer[row.key], f"{folder}/p{number}.toml:{list(layer).index(row.key) + 2}"
    return row.default, "default"


def as_variable(value: Any) -> str:
    """The text of a variable."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@settings(max_examples=300, deadline=None)
@given(STACKS)
def test_layers_are_as_a_simple_model_says(stack: Stack) -> None:
    """Value and origin of every setting, for random stacks of flags, variables and a chain of profiles."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_chain(folder, stack.profiles)
        environ = {options.by_key()[key].env or "": as_variable(value) for key, value in stack.variables.items()}
        found = profiles.resolve(stack.flags, environ, str(folder / "p0.toml"), stack.unset)
        for row in ROWS:
            value = found.values[row.key]
            assert (value.value, value.origin) == expected(stack, row, folder), row.key
            made = getattr(getattr(found.settings, row.section), row.name)
            assert made == value.value


NAMES = st.text(string.ascii_lowercase + "_", min_size=1, max_size=12)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["", *sorted({row.section for row in ROWS})]), NAMES)
def test_any_key_that_is_not_in_the_table_is_refused(section: str, name: str) -> None:
    """In every table and at the top, with file, line and key; a key that is in the table is not called unknown."""
    key = f"{section}.{name}" if section else name
    tables = {row.section for row in options.options() if row.in_profile} | {"template", "extends", "description"}
    known = key in tables or any(row.key == key for row in options.options() if row.in_profile)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "p.toml")
        path.write_text(f"\n\n{key} = 1\n")
        _, faults = examine(path)
    assert any(fault.startswith(f"{path}:3: {key}: no such key") for fault in faults) is not known


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([row for row in ROWS if row.base in (bool, int, float) or row.choices]), st.data())
def test_a_value_of_another_type_is_refused(row: Option, data: st.DataObject) -> None:
    """A text never becomes a number, a number never a text; only a whole number may stand for a float."""
    value = data.draw(valid(row))
    wrong = json.dumps(str(value)) if row.base in (bool, int, float) or not isinstance(value, str) else "1"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "p.toml")
        path.write_text(f"{row.key} = {wrong}\n", encoding="utf-8")
        (fault,) = examine(path)[1]
        assert f":1: {row.key}: expected " in fault


@pytest.fixture(scope="module")
def quick(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Forked:
    """The program, without its imports each time, in a folder of its own."""
    folder = tmp_path_factory.mktemp("properties")
    (folder / ".git").mkdir()
    return Forked("mlxctl", server, folder)


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALAR = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT
    | st.datetimes()
    | st.dates()
    | st.times()
)
FREE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3), max_leaves=8
)


@settings(max_examples=100, deadline=None)
@example([{}], {"": ["\x85"]}, "", [])
@example([{}], {"": [{"": False, "000:": False, "0" * 40: "0" * 80}]}, "", [])  # too long for a line: tables
@example([{}], {"a": [{"b": "0" * 120}, {}], "c": {"d": [{"e": "0" * 120}]}}, "", [])
@given(
    st.lists(setting(), min_size=1, max_size=3),
    st.dictionaries(ANY_TEXT, FREE, max_size=3),
    ANY_TEXT,
    st.lists(st.sampled_from(["rules.txt", "sub/more.txt", "ünï.txt"]), max_size=2),
)
def test_what_show_prints_is_a_profile_that_shows_the_same(
    quick: Forked, layers: list[dict[str, Any]], template: dict[str, Any], system: str, files: list[str]
) -> None:
    """show, with and without origins, then validate and show again: whatever the values, free keys included."""
    import tomli_w

    assume(template.keys().isdisjoint(rules.RESERVED))
    assume(not any("" in layer.get("generation.stop", []) for layer in layers))
    layers = [{key: value for key, value in layer.items() if value != "" and not tiny(value)} for layer in layers]
    with tempfile.TemporaryDirectory(dir=quick.cwd) as name:
        folder = Path(name)
        (folder / "sub").mkdir()
        for file in ("rules.txt", "sub/more.txt", "ünï.txt"):
            (folder / file).write_text("x")
        rest = tomli_w.dumps({"template": template, "prompt": {"system": system, "files": files}})
        # Dotted keys before, tables after: no table may be named twice.
        own = {key: value for key, value in layers[0].items() if not key.startswith("prompt.")}
        write_chain(folder, [own, *layers[1:]])
        with (folder / "p0.toml").open("a", encoding="utf-8") as file:
            file.write(rest)
        first = quick("profile", "show", f"{folder}/p0.toml", "--format", "json")
        assert first.code == 0, first.err
        for extra in ((), ("--origin",)):
            shown = quick("profile", "show", f"{folder}/p0.toml", *extra)
            assert shown.code == 0, shown.err
            (folder / "shown.toml").write_text(shown.out, encoding="utf-8")
            checked = quick("profile", "validate", f"{folder}/shown.toml")
            assert (checked.code, checked.out) == (0, ""), shown.out
            again = quick("profile", "show", f"{folder}/shown.toml", "--format", "json")
            before, after = (json.loads(done.out)["settings"] for done in (first, again))
            assert extra or after == before
            assert all(after[section][key] == value for section in before for key, value in before[section].items())


def tiny(value: Any) -> bool:
    """A number that the rules refuse as too small."""
    return isinstance(value, float) and 0 < abs(value) < 1e-6 and math.isfinite(value)


TOML_ISH = st.lists(
    st.sampled_from(["[", "]", "{", "}", "=", ".", ",", '"', "'", '"""', "\n", "\r\n", "#", " ", "sampler", "temp", "0",
                     "-1", "1e999", "0x", "nan", "1979-05-27T07:32:00Z", "\\u0000", "\\", "template", "extends", "\0",
                     "\ufeff", "💥", "prompt", "files", "system_file", "../x", "description", "true"]),
    max_size=40,
).map("".join)  # fmt: skip
HOSTILE = [
    b"a = " + b"[" * 100_000,
    b"a = " + b"{x=" * 50_000,
    b"template" + b".a" * 100_000 + b" = 1",
    b"[" + b"a." * 100_000 + b"a]",
    b"[template]\nx = " + b"[" * 900 + b"]" * 900,
    b"[template]\nx = " + b"9" * 10_000,
    b"[template]\nx = 0x" + b"f" * 100_000,
    b"[sampler]\nseed = " + b"9" * 5000,
    b"x" * 2_000_000,
    b"# " + b"x" * 3_000_000,
    b'description = "' + b"x" * 1_000_000 + b'"',
    bytes(range(256)) * 100,
    b"\x7fELF\x02\x01\x01" + b"\0" * 4096,
    b"\xff\xfed\0e\0s\0c\0",
    b"\0" * 100_000,
    b"[template]\nx = nan\ny = inf\nz = 1979-05-27T07:32:00.999999-07:00",
    b"\r",
    b"[prompt]\nfiles = ['a\\u0000b']",
    b'[prompt]\nfiles = ["a\\u0000b"]',
    b'extends = "a\\u0000b"',
    b'extends = "' + b"x" * 100_000 + b'"',
    b'extends = "./' + b"x" * 100_000 + b'"',
    b'extends = "~nobody-of-this-name/x.toml"',
    b'[prompt]\nsystem_file = "' + b"x" * 100_000 + b'"',
]


def neither_crashes_nor_lies(quick: Forked, data: bytes) -> None:
    """validate and show end with 0 or 2, agree on it, and say what is wrong."""
    path = quick.cwd / "any.toml"
    path.write_bytes(data)
    checked = quick("profile", "validate", "any.toml")
    assert checked.code in (0, 2), checked.err
    assert (checked.code == 2) == bool(checked.out)
    assert all(line.startswith(str(path)) for line in checked.out.splitlines())
    shown = quick("profile", "show", "any.toml")
    assert shown.code in (0, checked.code), shown.err
    assert "Traceback" not in checked.err + shown.err


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | TOML_ISH.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_input_gives_anything_but_0_or_2(quick: Forked, data: bytes) -> None:
    """Random bytes, and heaps of what TOML is made of."""
    neither_crashes_nor_lies(quick, data)


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: repr(bytes(data[:24])))
def test_hostile_files(quick: Forked, data: bytes) -> None:
    """Huge, deeply nested, binary."""
    neither_crashes_nor_lies(quick, data)
