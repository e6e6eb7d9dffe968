"""The option table: consistent in itself, and what is derived from it."""

import json
import math
from typing import Any

import msgspec
import pytest

from mlxctl import options
from mlxctl.options import Option, by_key
from mlxctl.settings import Settings

TABLE = options.options()
NUMBERS = [option for option in TABLE if option.base in (int, float)]


def ids(option: Option) -> str:
    """The name of a parametrized test."""
    return option.key


def refuses(option: Option, value: Any) -> bool:
    """Whether the value is refused, with the message that says what was expected."""
    try:
        options.check(option, value)
    except ValueError as error:
        assert str(error).startswith("expected ") and repr(value) in str(error)
        return True
    return False


@pytest.mark.parametrize("option", TABLE, ids=ids)
def test_defaults_pass_their_own_check(option: Option) -> None:
    """And are not changed by it."""
    assert options.check(option, option.default) == option.default


def test_names_are_unique() -> None:
    """Keys, flags (both ways of a switch, short ones too) and variables."""
    flags = [flag for option in TABLE for flag in (*option.flag.split("/"), option.short) if flag]
    variables = [option.env for option in TABLE if option.env]
    for names in (flags, variables, [option.key for option in TABLE]):
        assert len(names) > 5 and len(set(names)) == len(names)
    assert all(flag.startswith("--") or (flag.startswith("-") and len(flag) <= 3) for flag in flags)
    assert all(name.startswith("MLXCTL_") and name == name.upper() for name in variables)
    assert "MLXCTL_PROFILE" not in variables and "MLXCTL_DEBUG" not in variables


def test_variables_of_the_specification() -> None:
    """SPEC 2 names these two."""
    assert (by_key()["sampler.seed"].env, by_key()["model.path"].env) == ("MLXCTL_SEED", "MLXCTL_MODEL")


def test_nobody_elses_environment_lets_a_model_run_code() -> None:
    """trust_remote_code is a decision about one model."""
    assert by_key()["model.trust_remote_code"].env is None


@pytest.mark.parametrize("option", TABLE, ids=ids)
def test_every_row_is_described(option: Option) -> None:
    """Help without a full stop, and words for what it takes."""
    assert option.help and not option.help.endswith(".") and option.help[0].isupper()
    assert options.describe(option)
    for choice in option.choices:
        assert str(choice) in options.describe(option)


@pytest.mark.parametrize(
    "key, words",
    [
        ("sampler.min_p", "a number from 0 to 1"),
        ("sampler.top_p", "a number above 0 to 1"),
        ("sampler.top_k", "a whole number of at least 0"),
        ("generation.max_tokens", "a whole number of at least -1, not 0"),
        ("output.format", "one of text, json, jsonl, classic"),
        ("model.trust_remote_code", "true or false"),
        ("generation.stop", "a list of texts"),
    ],
)
def test_description(key: str, words: str) -> None:
    """In words a person would use."""
    assert options.describe(by_key()[key]) == words


@pytest.mark.parametrize("option", NUMBERS, ids=ids)
def test_numbers_outside_the_limits_are_refused(option: Option) -> None:
    """Both sides of each limit; NaN and infinity always."""
    step = 1 if option.base is int else 1e-6
    for name, limit in option.limits.items():
        outside = {"ge": limit - step, "gt": limit, "le": limit + step}[name]
        inside = {"ge": limit, "gt": limit + step, "le": limit}[name]
        assert refuses(option, outside) and not refuses(option, inside)
    for value in (*option.forbid, math.nan, math.inf, -math.inf):
        assert refuses(option, value)


@pytest.mark.parametrize(
    "key, good, bad",
    [
        ("sampler.temp", [0, 0.0, 2.5], [-0.1, "0.7", True, None.__class__]),
        ("sampler.top_p", [1, 0.01], [0, 1.01]),
        ("sampler.xtc_threshold", [0, 0.5], [0.51]),
        ("sampler.seed", [0, 2**63 - 1], [-1, 1.0, "1", True]),
        ("generation.max_tokens", [-1, 1], [0, -2, 1.0, "5", True]),
        ("generation.stop", [[], ["a", ""]], ["a", [1], [None], {}]),
        ("kv.kv_bits", [2, 8], [7, 4.0, "4", True]),
        ("kv.kv_group_size", [32, 64, 128], [16, 0]),
        ("logits.logit_bias", [{}, {"a": 1, "id:7": -2.5}], [{"a": "1"}, {"a": math.nan}, {"a": True}, [], {1: 2.0}]),
        ("model.trust_remote_code", [True, False], [1, 0, "true", "yes"]),
        ("prompt.system", ["", "x"], [1, ["x"], True]),
        ("output.format", ["json"], ["JSON", "yaml", 1]),
    ],
)
def test_types_are_never_coerced(key: str, good: list[Any], bad: list[Any]) -> None:
    """A text is no number, a number no text, and true is neither."""
    option = by_key()[key]
    assert [value for value in good if refuses(option, value)] == []
    assert [value for value in bad if not refuses(option, value)] == []


@pytest.mark.parametrize(
    "key, text, value",
    [
        ("sampler.temp", "0.7", 0.7),
        ("generation.max_tokens", "-1", -1),
        ("kv.kv_bits", "4", 4),
        ("model.quantize_activations", "True", True),
        ("model.quantize_activations", "off", False),
        ("generation.stop", "###", ["###"]),
        ("generation.stop", '["a", "b"]', ["a", "b"]),
        ("generation.stop", "", [""]),
        ("logits.logit_bias", '{"a": 1.5}', {"a": 1.5}),
        ("prompt.system", "[text]", "[text]"),
        ("prompt.system", "", ""),
    ],
)
def test_texts_of_flags_and_variables_are_read(key: str, text: str, value: Any) -> None:
    """As the kind of the option."""
    found = options.check(by_key()[key], options.parse(by_key()[key], text))
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("text", ["[END]", "[", "[/INST]", "[1]"])
def test_a_text_in_brackets_is_a_text(text: str) -> None:
    """ "[/INST]" is a likely stop string, and no JSON list of texts."""
    assert options.parse(by_key()["generation.stop"], text) == [text]


@pytest.mark.parametrize(
    "key, text",
    [
        ("sampler.temp", ""),
        ("sampler.temp", "warm"),
        ("sampler.seed", "1.5"),
        ("kv.kv_bits", "four"),
        ("model.quantize_activations", "maybe"),
        ("logits.logit_bias", "a"),
    ],
)
def test_texts_that_cannot_be_read(key: str, text: str) -> None:
    """The message says what was expected and what came."""
    with pytest.raises(ValueError, match=r"^expected ") as caught:
        options.parse(by_key()[key], text)
    assert repr(text) in str(caught.value)


def test_settings_are_plain_data() -> None:
    """They go through JSON and come back: an engine in another process can be sent them."""
    values = {"sampler.temp": 0.5, "generation.stop": ["#"], "template.x": {"y": 1}, "kv.kv_bits": 4}
    made = options.build(values, profile="p")
    assert msgspec.json.decode(msgspec.json.encode(made), type=Settings) == made
    assert (made.sampler.temp, made.template, made.profile) == (0.5, {"x": {"y": 1}}, "p")
    assert made != Settings() == options.build({})


def test_limits_stand_in_the_json_schema() -> None:
    """Editors use it."""
    import jsonschema

    schema = msgspec.json.schema(Settings)
    for sampler, valid in (({"temp": 0.5}, True), ({"temp": -1}, False), ({"top_p": 0}, False), ({"tmp": 1}, False)):
        found = list(jsonschema.Draft202012Validator(schema).iter_errors({"sampler": sampler}))
        assert (found == []) == valid, json.dumps(sampler)
    found = list(jsonschema.Draft202012Validator(schema).iter_errors({"generation": {"max_tokens": 0}}))
    assert found


def test_template_arguments_are_layered() -> None:
    """[template], then --chat-template-config, then --think."""
    values: dict[str, Any] = {"template.a": 1, "template.enable_thinking": 1, "request.chat_template_config": {"a": 2}}
    assert options.build(values).template_arguments == {"a": 2, "enable_thinking": 1}
    assert options.build({**values, "request.think": False}).template_arguments == {"a": 2, "enable_thinking": False}


def test_run_takes_every_flag_of_upstream() -> None:
    """With the same names, short ones too."""
    from mlx_lm.generate import setup_arg_parser

    from mlxctl.cli.run import command

    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    theirs = {name for action in setup_arg_parser()._actions for name in action.option_strings}
    assert len(theirs) > 20 and theirs - known - {"-h", "--help"} == set()


def test_generate_has_upstreams_defaults() -> None:
    """Flag for flag: what the library's parser holds when nothing was given."""
    from mlx_lm.generate import setup_arg_parser

    from mlxctl.cli.generate import make_parser

    theirs = vars(setup_arg_parser().parse_args([]))
    found = vars(make_parser().parse_args([]))
    assert {name: found.get(name, "missing") for name in theirs} == theirs


@pytest.mark.parametrize(
    "args",
    [
        ["--extra-eos-token", "A", "B"],
        ["--image", "a.png", "b.png", "-p", "x"],
        ["--max-tok", "5"],
        ["--temp", "-1"],
        ["-qa"],
        *[["--verbose", text] for text in ("0", "False", "f", "F", "no", "True", "FALSE")],
    ],
)
def test_generate_reads_arguments_as_upstream(args: list[str]) -> None:
    """Several values for one flag, prefixes, negative numbers, and a --verbose of its own mind."""
    from mlx_lm.generate import setup_arg_parser

    from mlxctl.cli.generate import make_parser

    theirs = vars(setup_arg_parser().parse_args(args))
    found = vars(make_parser().parse_args(args))
    assert {name: found.get(name, "missing") for name in theirs} == theirs
