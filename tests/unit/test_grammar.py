"""Answers held to a grammar: whatever a model would say by itself, what it ends is of the grammar."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import msgspec
import pytest
from schemas import SCHEMAS, fields

from mlxctl import Engine, Settings
from mlxctl.errors import UsageError
from mlxctl.events import Done, Token
from mlxctl.settings import KV, Generation, Logits, Model, Prompt, Sampler

Tiny = Callable[[str], str]
ASK = [{"role": "user", "content": "Answer."}]
# Kinds of models that say noise, each with other caches; "moe" thinks first, "mamba" has no template.
KINDS = ["llama", "stopper", "quant", "spm", "sliding", "moe", "mamba", "hybrid", "chunked", "lists", "pairs"]


def answer(engine: Engine, messages: Any = ASK, *, seed: int = 1, **sections: Any) -> tuple[Done, list[Any]]:
    """An answer with other settings, and the events on the way to it."""
    sections = {"sampler": Sampler(temp=1.0, seed=seed), **sections}
    *events, done = engine.stream(messages, settings=msgspec.structs.replace(engine.settings, **sections))
    assert isinstance(done, Done)
    return done, events


def held(schema: Any, **more: Any) -> Generation:
    return Generation(json_schema=json.dumps(schema), **{"max_tokens": 400, **more})


def valid(schema: Any, text: str) -> bool:
    """Whether a text is JSON that the schema takes, formats included."""
    kind = jsonschema.validators.validator_for(schema)
    return bool(kind(schema, format_checker=kind.FORMAT_CHECKER).is_valid(json.loads(text)))


@pytest.fixture(scope="module")
def engines(tiny: Tiny) -> Iterator[Callable[[str], Engine]]:
    """Models in memory, by their kind."""
    loaded: dict[str, Engine] = {}

    def one(kind: str) -> Engine:
        if kind not in loaded:
            loaded[kind] = Engine.load(Settings(model=Model(path=tiny(kind))))
        return loaded[kind]

    yield one
    loaded.clear()


@pytest.mark.parametrize("name", list(SCHEMAS))
def test_schemas(engines: Callable[[str], Engine], name: str) -> None:
    """Noise at temperature 1, three times: what ends is valid, and most of it ends."""
    ended = 0
    for seed in (1, 2, 3):
        done, events = answer(engines("llama"), seed=seed, generation=held(SCHEMAS[name]))
        assert "".join(event.raw for event in events if isinstance(event, Token)) == done.text
        if done.finish_reason == "stop":
            ended += 1
            assert done.stop["kind"] in ("grammar", "eos") and valid(SCHEMAS[name], done.text), done.text
        else:  # a number may be whole wherever it is cut
            assert done.is_incomplete or valid(SCHEMAS[name], done.text)
    endless = name in ("integer", "number", "types", "negative", "from alone", "others of a type", "recursion")
    assert ended or endless or name.startswith(("real", "recursion")), name


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model(engines: Callable[[str], Engine], kind: str) -> None:
    schema = fields(ok={"type": "boolean"}, word={"type": "string", "maxLength": 8})
    for temp in (0.0, 1.0):
        done, _ = answer(engines(kind), sampler=Sampler(temp=temp, seed=2), generation=held(schema))
        assert done.finish_reason == "stop" and valid(schema, done.text), done.text


@pytest.mark.demo
def test_the_demo_model(demo_cache: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real model, which would rather talk, on one schema of each sort."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(demo_cache))
    engine = Engine.load(Settings(model=Model(path="builtin:smollm2-135m")))
    ask = [{"role": "user", "content": "Give me an example."}]
    prefix = None
    short = ["boolean", "from to", "pattern", "date", "const object", "fields", "tuple", "ref", "unicode names"]
    for name in short:
        # What a run leaves is where the next begins, so that the prompt is read once.
        settings = msgspec.structs.replace(engine.settings, generation=held(SCHEMAS[name], max_tokens=60))
        *_, done = engine.stream(ask, settings=settings, prefixes=[prefix] if prefix else [])
        assert isinstance(done, Done) and engine.running is not None
        assert done.finish_reason == "stop" and valid(SCHEMAS[name], done.text), (name, done.text)
        prefix = engine.running.hand_over()


# With everything else


def test_penalties_and_bans_bring_nothing_back(engines: Callable[[str], Engine]) -> None:
    """They are there, and the grammar has the last word."""
    schema = {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 3, "maxItems": 3}
    logits = Logits(repetition_penalty=5.0, logit_bias={"x": 100.0})
    done, _ = answer(engines("llama"), logits=logits, generation=held(schema))
    assert valid(schema, done.text)


def test_a_ban_that_leaves_nothing_is_told(engines: Callable[[str], Engine]) -> None:
    """Every letter that could begin the answer is banned: an error, and no answer without the grammar."""
    from mlxctl.errors import MlxctlError

    with pytest.raises(MlxctlError, match="grammar"):
        answer(engines("llama"), logits=Logits(ban=["a", "b"]), generation=Generation(regex="[ab]", max_tokens=5))


def test_quantized_and_bounded_caches(engines: Callable[[str], Engine]) -> None:
    schema = fields(word={"type": "string", "maxLength": 8})
    quantized = KV(kv_bits=8, kv_group_size=32, quantized_kv_start=0)
    done, _ = answer(engines("llama"), kv=quantized, generation=held(schema))
    assert done.timing.kv_layers_quantized == 2 and valid(schema, done.text)


@pytest.mark.parametrize("drafted", [1, 3, 7])
def test_a_draft_model(tiny: Tiny, drafted: int) -> None:
    """What it proposes is held to the grammar, too, and taken back where the model says otherwise."""
    model = Model(path=tiny("llama"), draft_model=tiny("llama-draft"), num_draft_tokens=drafted)
    engine = Engine.load(Settings(model=model))
    for name in ("fields", "array of objects", "pattern", "recursion by a name", "unicode constant"):
        for seed in range(3):
            done, _ = answer(engine, seed=seed, generation=held(SCHEMAS[name]))
            if done.finish_reason == "stop":
                assert valid(SCHEMAS[name], done.text), done.text
    assert done.timing.draft_tokens


def test_thinking_is_free(engines: Callable[[str], Engine]) -> None:
    """The model thinks as it likes, does not end with that, and then keeps to the grammar."""
    done, events = answer(engines("moe"), generation=held(SCHEMAS["fields"]))
    assert done.thinking == " Let me think" and valid(SCHEMAS["fields"], done.text)
    assert "".join(event.raw for event in events if isinstance(event, Token)).startswith("<think> Let me think</think>")
    none, _ = answer(engines("moe"), generation=held(SCHEMAS["fields"]), template={"enable_thinking": False})
    assert none.thinking is None and valid(SCHEMAS["fields"], none.text)


def test_the_same_answer_from_a_cache(engines: Callable[[str], Engine]) -> None:
    """At temperature 0 the grammar sees the same, whatever of the prompt was processed before."""
    engine = engines("llama")
    greedy, generation = Sampler(temp=0.0), held(SCHEMAS["fields"])
    first, _ = answer(engine, sampler=greedy, generation=generation)
    assert engine.running is not None
    prefix = engine.running.hand_over()
    assert prefix is not None
    settings = msgspec.structs.replace(engine.settings, sampler=greedy, generation=generation)
    *_, again = engine.stream(ASK, settings=settings, prefixes=[prefix])
    assert isinstance(again, Done)
    assert again.timing.cached_tokens and again.text == first.text


def test_an_answer_that_was_begun(engines: Callable[[str], Engine]) -> None:
    """The whole is held to the grammar, what was begun included; another beginning is refused."""
    schema = fields(ok={"type": "boolean"})
    said = [*ASK, {"role": "assistant", "content": '{"o'}]
    done, _ = answer(engines("llama"), said, generation=held(schema))
    assert valid(schema, '{"o' + done.text)
    with pytest.raises(UsageError, match="begun"):
        answer(engines("llama"), [*ASK, {"role": "assistant", "content": "Well"}], generation=held(schema))
    with pytest.raises(UsageError, match="prefill_response"):  # what comes would be half of what the grammar is of
        answer(engines("llama"), prompt=Prompt(prefill_response='{"ok":'), generation=held(schema))


def test_a_stop_text_and_a_limit_leave_it_incomplete(engines: Callable[[str], Engine]) -> None:
    for generation in (held(SCHEMAS["fields"], stop=["name"]), held(SCHEMAS["fields"], max_tokens=3)):
        done, _ = answer(engines("llama"), generation=generation)
        assert done.is_incomplete and done.stop["kind"] in ("string", "length")


@pytest.mark.parametrize("regex", ["[a-c]{3}-[0-9]{2}", "(yes|no)", "[^a]{2,4}", "ö+[🙂é]{1,3}!", r"\d{3}\.\d"])
def test_regex(engines: Callable[[str], Engine], regex: str) -> None:
    for seed in (1, 2):
        done, _ = answer(engines("llama"), seed=seed, generation=Generation(regex=regex, max_tokens=100))
        if done.finish_reason == "stop":
            assert re.fullmatch(regex, done.text), done.text


# What settings mean


def test_fields(engines: Callable[[str], Engine]) -> None:
    """A short way to write an object."""
    from mlxctl.grammars import schema

    assert schema("name, age int, ok bool, x float: how far, y: why") == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "ok": {"type": "boolean"},
                       "x": {"type": "number", "description": "how far"},
                       "y": {"type": "string", "description": "why"}},
        "required": ["name", "age", "ok", "x", "y"], "additionalProperties": False,
    }  # fmt: skip
    assert list(schema("name: first, and last\nage int")["properties"]) == ["name", "age"]  # type: ignore[index]


def test_one_of_is_told(engines: Callable[[str], Engine]) -> None:
    from mlxctl import rules

    settings = Settings(generation=held(SCHEMAS["one of by a constant"]))
    assert any("oneOf is held to as anyOf" in finding.message for finding in rules.for_settings(settings))
    assert not list(rules.for_settings(Settings(generation=held(SCHEMAS["any of"]))))
