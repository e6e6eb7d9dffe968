"""--json-schema, --regex and --grammar, through the program."""

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from conftest import Program
from schemas import SCHEMAS

Tiny = Callable[[str], str]
HOT = ("--temp", "1", "--seed", "1", "--no-stats")
LARK = 'start: "on " ("monday" | "friday") " at " /[0-9]{1,2}/ " h"\n'
GBNF = 'root ::= "on " day " at " [0-9] [0-9]? " h"\nday ::= "monday" | "friday"\n'


@pytest.fixture
def run(mlxctl: Program, tiny: Tiny) -> Callable[..., Any]:
    return lambda *args, model="llama", **kwargs: mlxctl(
        "run", "--model", tiny(model), "Answer.", *HOT, *args, **kwargs
    )


@pytest.mark.parametrize("how", ["file", "text", "fields"])
def test_schema(how: str, run: Callable[..., Any], mlxctl: Program) -> None:
    """In a file, as JSON, and as fields; stdout holds JSON and nothing else."""
    schema = SCHEMAS["array of objects"]
    (mlxctl.cwd / "point.json").write_text(json.dumps(schema))
    given = {"file": "point.json", "text": json.dumps(schema), "fields": "ok bool, n bool"}[how]
    done = run("--json-schema", given)
    assert (done.code, done.err) == (0, ""), done
    found = json.loads(done.out)
    if how == "fields":
        assert set(found) == {"ok", "n"}
    else:
        jsonschema.validate(found, schema)


@pytest.mark.parametrize("text", [LARK, GBNF])
def test_grammar(text: str, run: Callable[..., Any], mlxctl: Program) -> None:
    """Lark and GBNF are told apart."""
    (mlxctl.cwd / "when.txt").write_text(text)
    done = run("--grammar", "when.txt")
    assert re.fullmatch(r"on (monday|friday) at [0-9]{1,2} h\n", done.out), done


def test_in_a_profile(run: Callable[..., Any], mlxctl: Program) -> None:
    """The file is meant from the profile's folder, and must lie in it."""
    folder = mlxctl.cwd / "profiles"
    folder.mkdir()
    (folder / "point.json").write_text(json.dumps(SCHEMAS["fields"]))
    (folder / "point.toml").write_text('[generation]\njson_schema = "./point.json"\n')
    done = run("-P", "point", "--format", "json", "-m", "400")
    assert done.code == 0, done
    answer = json.loads(done.out)
    assert answer["stop"] == {"kind": "grammar"} and answer["finish_reason"] == "stop"
    jsonschema.validate(json.loads(answer["text"]), SCHEMAS["fields"])
    (folder / "point.toml").write_text('[generation]\njson_schema = "../../secret.json"\n')
    done = run("-P", "point")
    assert done.code == 2 and "point.toml:2" in done.err and "folder" in done.err


def test_tokens_make_up_the_answer(run: Callable[..., Any]) -> None:
    done = run("--json-schema", "a bool, b bool", "--format", "jsonl")
    events = [json.loads(line) for line in done.out.splitlines()]
    text = "".join(event["text"] for event in events if event["event"] == "token")
    assert text == events[-1]["text"] and set(json.loads(text)) == {"a", "b"}


def test_incomplete(run: Callable[..., Any]) -> None:
    """It is said, and the status tells it where that is asked for."""
    done = run("--json-schema", "name", "-m", "3")
    assert done.code == 0 and "the answer is incomplete" in done.err
    assert run("--json-schema", "name", "-m", "3", "--fail-on-length").code == 10
    cut = run("--json-schema", "ok bool", "--stop", "}", "--fail-on-length")  # not by the limit
    assert cut.code == 10 and "the answer is incomplete" in cut.err
    assert json.loads(run("--json-schema", "name", "-m", "3", "--format", "json").out)["stop"]["incomplete"] is True
    assert "incomplete" not in json.loads(run("--json-schema", "ok bool", "--format", "json").out)["stop"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--json-schema", "{"), "json_schema:1:2: not JSON"),
        (("--json-schema", '{\n "type": tru'), "json_schema:2:10: not JSON"),
        (("--json-schema", "[1]"), "a JSON schema is an object"),
        (("--json-schema", "nowhere.json"), "nowhere.json: No such file"),
        (("--json-schema", '{"type": "intger"}'), "$.type: 'intger' is not"),
        (("--json-schema", '{"properties": {"a b": {"minLength": "x"}}}'), "$.properties['a b'].minLength"),
        (("--json-schema", '{"not": {}}'), 'Unimplemented keys: ["not"]'),
        (("--json-schema", '{"$ref": "#/nowhere"}'), "json_schema: "),
        (("--json-schema", "a thing"), "'a thing' is no field"),
        (("--json-schema", "a,,b"), "'' is no field"),
        (("--regex", "("), "regex: "),
        (("--grammar", "nowhere"), "nowhere: No such file"),
        (("--grammar", "bad.txt"), "grammar bad.txt: "),
        (("--regex", "a", "--json-schema", "b"), "json_schema and regex: an answer can be held to one"),
    ],
)
def test_a_fault_is_told_before_the_model_loads(args: tuple[str, ...], words: str, mlxctl: Program) -> None:
    (mlxctl.cwd / "bad.txt").write_text("start: nothing of the kind ::= (\n")
    done = mlxctl("run", "--model", "./no-such-model", "hi", *args)
    assert (done.code, done.out) == (2, "") and words in done.err, done.err
    assert len(done.err.splitlines()) == 1 and "Traceback" not in done.err


def test_a_fault_in_a_profile_has_its_place(mlxctl: Program) -> None:
    (mlxctl.cwd / "bad.toml").write_text('[generation]\nregex = "("\n')
    for args in (("run", "-P", "./bad.toml", "hi"), ("profile", "validate", "./bad.toml")):
        done = mlxctl(*args)
        assert done.code == 2 and "bad.toml:2: regex: " in done.err + done.out, done


def test_without_the_library(run: Callable[..., Any], mlxctl: Program) -> None:
    """An answer is never silently free: what is missing is named with its mend."""
    hidden = mlxctl.cwd / "hidden"
    hidden.mkdir()
    (hidden / "llguidance.py").write_text("raise ImportError('hidden')\n")
    done = run("--json-schema", "a", env={"PYTHONPATH": str(hidden)})
    assert (done.code, done.out) == (2, "") and 'pip install "mlxctl[grammar]"' in done.err


def test_generate_holds_to_a_profile_too(mlxctl: Program, tiny: Tiny) -> None:
    (mlxctl.cwd / "held.toml").write_text('[generation]\nregex = "[ab]{4}"\n[output]\nformat = "text"\n')
    done = mlxctl("generate", "--model", tiny("llama"), "--profile", "./held.toml", "-p", "hi")
    assert re.fullmatch(r"[ab]{4}\n", done.out), done
    (mlxctl.cwd / "held.toml").write_text('[generation]\nregex = "("\n')
    done = mlxctl("generate", "--model", tiny("llama"), "--profile", "./held.toml", "-p", "hi")
    assert done.code != 0 and done.out == "", done


def test_in_a_chat(mlxctl: Program, tiny: Tiny) -> None:
    done = mlxctl("chat", "--model", tiny("llama"), "--regex", "[ab]{3}", "--temp", "1", input="one\ntwo\n")
    assert re.fullmatch(r"([ab]{3}\n){2}", done.out), done


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("--json-schema", '{"const": "a<|im_end|>b"}'), '"a<|im_end|>b"'),
        (("--json-schema", '{"enum": ["<|im_start|>"]}'), '"<|im_start|>"'),
        (("--grammar", 'start: "<|im_end|>"'), "<|im_end|>"),
    ],
)
def test_what_a_grammar_spells_is_text(args: tuple[str, ...], text: str, run: Callable[..., Any]) -> None:
    """And no special token, which would end the answer, or open a turn in it."""
    done = run(*args, "--format", "json")
    answer = json.loads(done.out)
    assert (done.code, answer["text"]) == (0, text), done.err
    assert answer["timing"]["generation_tokens"] > 5


@pytest.mark.parametrize(
    "args",
    [("--json-schema", '{"$ref": "#"}'), ("--regex", "[^\\x00-\\x{10FFFF}]"), ("--grammar", "root ::= root"),
     ("--grammar", 'start: a\na: a "x" | a\n')],
)  # fmt: skip
def test_what_no_text_satisfies_is_refused(args: tuple[str, ...], mlxctl: Program) -> None:
    """Before anything is loaded, in words."""
    done = mlxctl("run", "--model", "./nowhere", *args, "hi")
    assert (done.code, done.out) == (2, "") and "no text is of it" in done.err, done.err


def test_nothing_is_left_to_sample(run: Callable[..., Any]) -> None:
    done = run("--regex", "a", "--ban", "a")
    assert done.code == 2 and "--ban" in done.err, done


@pytest.mark.parametrize("text", ["name, name", "true", "tags[]", "-", "age: int", "a/b c"])
def test_what_is_no_field(text: str, mlxctl: Program) -> None:
    assert mlxctl("run", "--model", "./nowhere", "--json-schema", text, "hi").code == 2


def test_a_file_that_could_be_a_field(run: Callable[..., Any], mlxctl: Program) -> None:
    """It is not guessed which is meant."""
    (mlxctl.cwd / "person").write_text('{"type": "boolean"}')
    done = run("--json-schema", "person")
    assert done.code == 2 and "./person" in done.err
    assert run("--json-schema", "./person").out.strip() in ("true", "false")
    assert json.loads(run("--json-schema", "person str", "-m", "200").out)


def test_a_pipe_is_read_once(mlxctl: Program, tiny: Tiny) -> None:
    script = f'{mlxctl.path} run --model {tiny("llama")} --json-schema <(echo \'{{"type": "boolean"}}\') hi'
    done = subprocess.run(["bash", "-c", script], env=mlxctl.env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("true", "false")
