"""SPEC 7: what is refused or warned of, and that it happens before anything costs time."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Program, Result
from models import END_OF_TEXT, HEAD_DIM, IM_END, STOPPER_REPLY, THIRD_EOS, VOCABULARY

Tiny = Callable[[str], str]
NOWHERE = "/nonexistent/model"  # a rule that needs no model speaks before anyone looks for this one
HEAVY = re.compile(r"\b(mlx\.core|mlx_lm|transformers|numpy)\b")
KV = ("--kv-bits", "8", "--kv-group-size", "32")


def said(result: Result) -> list[str]:
    """The lines on stderr that are not the interpreter's import times."""
    return [line for line in result.err.splitlines() if not line.startswith("import time:")]


def refused(result: Result, *words: str) -> None:
    """Exit 2, nothing on stdout, one or two lines on stderr that hold the words."""
    lines = said(result)
    assert (result.code, result.out) == (2, ""), lines
    assert 1 <= len(lines) <= 2 and "Traceback" not in result.err, lines
    assert [word for word in words if word not in "\n".join(lines)] == [], lines


def run_object(result: Result) -> dict[str, Any]:
    """The JSON that a run printed."""
    assert result.code == 0 and "Traceback" not in result.err, result.err
    found: dict[str, Any] = json.loads(result.out)
    return found


def copy_of(kind: str, tiny: Tiny, folder: Path, *, weights: bool = True, **eos: int | None) -> str:
    """A copy of a model; without weights if so asked, with other end tokens: config=…, generation_config=…."""
    shutil.copytree(tiny(kind), folder)
    if not weights:
        (folder / "model.safetensors").unlink()
    for name, id in eos.items():
        path = folder / f"{name}.json"
        content = json.loads(path.read_text()) | {"eos_token_id": id}
        path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    return str(folder)


OUT_OF_RANGE = {
    "--temp": ["-1", "-0.001", "nan", "inf", "-inf", "warm"],
    "--top-p": ["0", "-0.1", "1.1", "nan"],
    "--top-k": ["-1", "1.5"],
    "--min-p": ["-0.1", "1.1", "nan"],
    "--min-tokens-to-keep": ["0"],
    "--xtc-probability": ["-0.1", "1.1", "nan"],
    "--xtc-threshold": ["-0.1", "0.6", "nan"],
    "--seed": ["-1", "x"],
    "--max-tokens": ["0", "-2", "-7", "1.5", "many"],
    "--max-kv-size": ["0", "-1"],
    "--kv-bits": ["0", "1", "7", "16"],
    "--kv-group-size": ["0", "48"],
    "--quantized-kv-start": ["-1"],
    "--num-draft-tokens": ["0", "-1"],
    "--prefill-step-size": ["0", "-5"],
    "--repetition-penalty": ["0", "-1", "nan", "inf"],
    "--repetition-context-size": ["0", "-3"],
    "--presence-penalty": ["nan"],
    "--frequency-penalty": ["inf"],
    "--logit-bias": ["a", "a=", "a=b", "a=nan"],
}


@pytest.mark.parametrize("flag, value", [(flag, value) for flag, values in OUT_OF_RANGE.items() for value in values])
def test_out_of_range_is_refused_before_heavy_imports(flag: str, value: str, mlxctl: Program) -> None:
    """No model is looked for and no library imported, whatever the model's name."""
    done = mlxctl("run", "--model", NOWHERE, flag, value, "hi", env={"PYTHONPROFILEIMPORTTIME": "1"})
    refused(done, flag, "expected")
    assert "import time:" in done.err and not HEAVY.search(done.err.replace("\n".join(said(done)), ""))


@pytest.mark.parametrize(
    "name, value", [("TEMP", "nan"), ("TEMP", "-1"), ("TOP_P", "0"), ("MAX_TOKENS", "0"), ("MIN_P", "1.5")]
)
def test_variables_are_held_to_the_same_ranges(name: str, value: str, mlxctl: Program) -> None:
    """MLXCTL_TEMP=nan is no better than --temp nan."""
    refused(mlxctl("run", "--model", NOWHERE, "hi", env={f"MLXCTL_{name}": value}), f"MLXCTL_{name}", value)


@pytest.mark.parametrize(
    "table, line", [("sampler", "temp = nan"), ("sampler", "top_p = 0"), ("generation", "max_tokens = 0")]
)
def test_profiles_are_held_to_the_same_ranges(table: str, line: str, mlxctl: Program, work: Path) -> None:
    """The file, the line and the key are named."""
    (work / "p.toml").write_text(f"# a comment\n[{table}]\n{line}\n")
    done = mlxctl("run", "-P", "./p.toml", "--model", NOWHERE, "hi", env={"PYTHONPROFILEIMPORTTIME": "1"})
    refused(done, "p.toml:3", f"{table}.{line.split()[0]}", "expected")
    assert not HEAVY.search(done.err.replace("\n".join(said(done)), ""))


IDLE = {
    "top_p": ("--top-p", "0.5"),
    "min_p": ("--min-p", "0.1"),
    "top_k": ("--top-k", "5"),
    "xtc_probability": ("--xtc-probability", "0.5"),
}


def warnings_before_the_model(**values: float) -> list[str]:
    """What is said before it turns out that there is no such model."""
    from mlxctl import Engine, options
    from mlxctl.errors import ModelError

    heard: list[str] = []
    settings = options.build({"model.path": NOWHERE} | {f"sampler.{key}": value for key, value in values.items()})
    with pytest.raises(ModelError, match=NOWHERE):
        Engine.load(settings, heard.append)
    return heard


@pytest.mark.parametrize("key", IDLE)
def test_greedy_warns_of_each_idle_setting(key: str) -> None:
    """The warning names it, and no other, before the model is looked for."""
    value = float(IDLE[key][1]) if "." in IDLE[key][1] else int(IDLE[key][1])
    (warning,) = warnings_before_the_model(**{key: value})
    assert key in warning and "temperature 0" in warning and "nothing" in warning
    assert [other for other in IDLE if other != key and other in warning] == []


@pytest.mark.parametrize("values", [{}, {"top_p": 1.0, "top_k": 0, "min_p": 0.0}, {"temp": 0.5, "top_p": 0.5}])
def test_no_warning_where_nothing_is_idle(values: dict[str, float]) -> None:
    """Values that mean "off" and a temperature above 0 are quiet."""
    assert warnings_before_the_model(**values) == []


def test_greedy_warns_and_still_answers(mlxctl: Program, tiny: Tiny) -> None:
    """All four at once: one warning that names them, and the whole answer."""
    done = mlxctl("run", "--model", tiny("stopper"), *[arg for pair in IDLE.values() for arg in pair], "hi")
    assert (done.code, done.out) == (0, STOPPER_REPLY + "\n")
    assert len(done.err.splitlines()) == 1 and [key for key in IDLE if key not in done.err] == []


def test_top_k_beyond_the_vocabulary(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """Refused from the config alone: there are no weights in the folder."""
    model = copy_of("stopper", tiny, tmp_path / "bare", weights=False)
    done = mlxctl("run", "--model", model, "--temp", "1", "--top-k", str(VOCABULARY + 1), "hi")
    refused(done, "top_k", str(VOCABULARY), model)


def test_top_k_of_the_whole_vocabulary_keeps_every_token(mlxctl: Program, tiny: Tiny) -> None:
    """The library refuses it; it must answer as top-k 0 does."""
    flags = ("run", "--model", tiny("llama"), "--temp", "1", "--seed", "3", "-m", "12", "--format", "json", "hi")
    whole, off = (run_object(mlxctl(*flags, "--top-k", str(k))) for k in (VOCABULARY, 0))
    assert whole["text"] == off["text"] != ""


def test_no_limit_is_minus_one(mlxctl: Program, tiny: Tiny) -> None:
    """-1 runs to the end of the reply, beside a draft model too."""
    model = tiny("stopper")
    done = mlxctl("run", "--model", model, "-m", "-1", "hi")
    assert (done.code, done.out) == (0, STOPPER_REPLY + "\n")
    done = mlxctl("run", "--model", model, "--draft-model", model, "-m", "-1", "hi")
    assert (done.code, done.out) == (0, STOPPER_REPLY + "\n")


def test_extra_eos_that_is_not_one_token_is_refused(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """The library takes the unknown id for it. No weights are needed to tell."""
    model = copy_of("stopper", tiny, tmp_path / "bare", weights=False)
    refused(mlxctl("run", "--model", model, "--extra-eos-token", "Hello there", "hi"), "extra_eos_token", "--stop")


@pytest.mark.parametrize("token", ["Hello there", "", "id:9999", f"id:{VOCABULARY}", "id:-1", "id:", "no such token"])
def test_what_is_no_token(token: str, tiny: Tiny) -> None:
    """Several tokens, none, and ids beyond the vocabulary."""
    from mlxctl.errors import UsageError

    with pytest.raises(UsageError, match="extra_eos_token"):
        eos_ids(tiny("stopper"), token)


@pytest.mark.parametrize("by_id", [False, True])
def test_extra_eos_ends_the_answer(by_id: bool, mlxctl: Program, tiny: Tiny, tokenizer: Any) -> None:
    """By its text and by id:N; an end token is not printed."""
    (id,) = tokenizer.encode(",", add_special_tokens=False)
    token = f"id:{id}" if by_id else ","
    run = run_object(mlxctl("run", "--model", tiny("stopper"), "--extra-eos-token", token, "hi", "--format", "json"))
    assert run["text"] == STOPPER_REPLY.split(",")[0]
    assert run["stop"] == {"kind": "eos", "token_id": id, "token": ","} and run["finish_reason"] == "stop"


def test_extra_eos_can_be_given_several_times(mlxctl: Program, tiny: Tiny) -> None:
    """The first that comes up ends the answer."""
    flags = ("--extra-eos-token", "!", "--extra-eos-token", ",")
    done = mlxctl("run", "--model", tiny("stopper"), *flags, "hi")
    assert (done.code, done.out) == (0, STOPPER_REPLY.split(",")[0] + "\n")


@pytest.fixture(scope="session")
def tokenizer(tiny: Tiny) -> Any:
    """The library's own tokenizer of "stopper"."""
    from mlx_lm.utils import load_tokenizer

    return load_tokenizer(Path(tiny("stopper")))


def eos_ids(path: str, *extra: str) -> set[int]:
    """The ids that end an answer."""
    from mlxctl import options
    from mlxctl.engine.loader import open_source

    settings = options.build({"model.path": path, "model.extra_eos_token": list(extra)})
    return set(open_source(settings, lambda message: None).tokenizer.eos_token_ids)


def test_a_number_is_text_and_an_id_needs_its_mark(tiny: Tiny, tokenizer: Any) -> None:
    """The library takes "7" for id 7."""
    (seven,) = tokenizer.encode("7", add_special_tokens=False)
    plain = eos_ids(tiny("stopper"))
    assert seven != 7
    assert eos_ids(tiny("stopper"), "7") == plain | {seven}
    assert eos_ids(tiny("stopper"), "id:7") == plain | {7}


def test_end_tokens_are_the_union_of_all_sources(tiny: Tiny) -> None:
    """Of config, generation_config (which replaces config's in the library), tokenizer and extras."""
    from mlx_lm.utils import load_tokenizer

    ids = load_tokenizer(Path(tiny("eos-split"))).convert_tokens_to_ids([END_OF_TEXT, IM_END, THIRD_EOS])
    assert len(set(ids)) == 3
    assert eos_ids(tiny("eos-split")) == set(ids)
    assert eos_ids(tiny("eos-split"), "id:9") == {*ids, 9}


@pytest.mark.parametrize(
    "config, generation_config, text, end",
    [
        (0, 512, "one", END_OF_TEXT),
        (None, 0, "one", END_OF_TEXT),
        (None, 512, f"one{END_OF_TEXT} two", IM_END),
        ([512, 0], None, "one", END_OF_TEXT),
    ],
)
def test_every_end_token_ends_the_answer(
    config: Any, generation_config: Any, text: str, end: str, tiny: Tiny, tmp_path: Path
) -> None:
    """The scripted reply holds all three; whichever is named ends it. (The library trims the first space.)"""
    model = copy_of("eos-split", tiny, tmp_path / "copy", config=config, generation_config=generation_config)
    done = answer(model, **{"generation.max_tokens": 9})
    assert (done.text, done.stop["token"]) == (text, end)


def answer(path: str, **values: Any) -> Any:
    """The Done of a run in this process."""
    from mlxctl import Engine, options

    engine = Engine.load(options.build({"model.path": path, **values}))
    return list(engine.stream([{"role": "user", "content": "hi"}]))[-1]


def test_union_of_end_tokens_in_a_run(mlxctl: Program, tiny: Tiny) -> None:
    """The library goes on to the tokenizer's, because generation_config.json replaced config.json's."""
    run = run_object(mlxctl("run", "--model", tiny("eos-split"), "-m", "9", "--format", "json", "hi"))
    assert (run["text"], run["stop"]["token"]) == ("one", END_OF_TEXT)


def test_max_kv_size_where_the_model_makes_its_own_caches(mlxctl: Program, tiny: Tiny) -> None:
    """The library ignores it without a word."""
    done = mlxctl("run", "--model", tiny("stopper"), "--max-kv-size", "64", "hi")
    assert (done.code, done.out) == (0, STOPPER_REPLY + "\n")
    assert len(said(done)) == 1 and "max_kv_size" in done.err and tiny("stopper") in done.err


def test_max_kv_size_that_works_is_quiet(mlxctl: Program, tiny: Tiny) -> None:
    """ "moe" leaves its caches to the library."""
    done = mlxctl("run", "--model", tiny("moe"), "--max-kv-size", "64", "-m", "3", "hi")
    assert done.code == 0 and "max_kv_size" not in done.err


def test_kv_bits_on_rotating_caches(mlxctl: Program, tiny: Tiny) -> None:
    """Refused with the model's name; the library breaks off in mid-answer."""
    refused(mlxctl("run", "--model", tiny("sliding"), *KV, "-m", "40", "hi"), "kv_bits", "rotating", tiny("sliding"))


@pytest.mark.parametrize(
    "kind, kv, words",
    [
        ("moe", {"kv_group_size": 32, "max_kv_size": 16}, "rotating"),
        ("llama", {}, f"head size {HEAD_DIM} .*64"),
        ("llama", {"kv_group_size": 128}, f"head size {HEAD_DIM} .*128"),
    ],
)
def test_kv_bits_that_cannot_work(kind: str, kv: dict[str, int], words: str, tiny: Tiny) -> None:
    """A bounded cache rotates too; groups must divide the head size."""
    from mlxctl.errors import UsageError

    with pytest.raises(UsageError, match=f"kv_bits .*{tiny(kind)}.*{words}"):
        answer(tiny(kind), **{"kv.kv_bits": 8} | {f"kv.{key}": value for key, value in kv.items()})


@pytest.mark.parametrize("kind", ["sliding", "llama"])
def test_kv_bits_is_refused_before_weights_are_read(kind: str, tiny: Tiny) -> None:
    """Loading the same model without the mistake takes the memory of its weights; the refusal does not."""
    import mlx.core as mx

    from mlxctl import Engine, options
    from mlxctl.errors import UsageError

    size = (Path(tiny(kind)) / "model.safetensors").stat().st_size
    mx.synchronize()
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    with pytest.raises(UsageError, match="kv_bits"):
        Engine.load(options.build({"model.path": tiny(kind), "kv.kv_bits": 8}))
    assert mx.get_peak_memory() - before < size / 4
    mx.reset_peak_memory()
    kept = Engine.load(options.build({"model.path": tiny(kind)}))
    assert mx.get_peak_memory() - before > size / 2 and kept.settings.model.path == tiny(kind)


def test_dry_run_refuses_kv_bits_too(mlxctl: Program, tiny: Tiny) -> None:
    """SPEC 7 says: as soon as the model's config is known; a dry run that passes should not be refused as a run."""
    refused(mlxctl("run", "--dry-run", "--model", tiny("llama"), "--kv-bits", "8", "hi"), "kv_bits", tiny("llama"))


def test_kv_bits_is_refused_from_the_config_alone(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """A head size is known from the config: no weights are needed to refuse it."""
    model = copy_of("llama", tiny, tmp_path / "bare", weights=False)
    refused(mlxctl("run", "--model", model, "--kv-bits", "8", "hi"), "kv_bits", model)


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_every_bit_width_answers_or_is_refused_as_the_library_fails(bits: int, tiny: Tiny) -> None:
    """What the rules let pass must run, and what runs in the library must pass."""
    from mlx_lm import load, stream_generate

    from mlxctl import Engine, options
    from mlxctl.errors import UsageError

    model, tokenizer = load(tiny("llama"))
    kv = {"kv_bits": bits, "kv_group_size": 32, "quantized_kv_start": 0}
    try:
        theirs = "".join(step.text for step in stream_generate(model, tokenizer, "hello", max_tokens=4, **kv))
    except ValueError:
        theirs = ""
    values = {f"kv.{key}": value for key, value in kv.items()}
    values |= {"model.path": tiny("llama"), "generation.max_tokens": 4, "prompt.ignore_chat_template": True}
    try:
        done = list(Engine.load(options.build(values)).stream([{"role": "user", "content": "hello"}]))[-1]
        assert (done.text, done.timing.kv_layers_quantized, done.timing.kv_layers) == (theirs, 2, 2)
    except UsageError as error:
        assert theirs == "" and "kv_bits" in str(error)


def test_quantized_layers_are_reported(mlxctl: Program, tiny: Tiny) -> None:
    """Both layers, in a smaller cache than unquantized."""
    flags = ("run", "--model", tiny("llama"), "-m", "4", "--format", "json", "hi")
    done = mlxctl(*flags, *KV, "--quantized-kv-start", "0")
    plain = run_object(mlxctl(*flags))["timing"]
    timing = run_object(done)["timing"]
    assert (timing["kv_layers_quantized"], timing["kv_layers"]) == (2, 2)
    assert (plain["kv_layers_quantized"], plain["kv_layers"]) == (0, 2)
    assert 0 < timing["kv_bytes"] < plain["kv_bytes"]
    assert "quantized" not in done.err


def test_quantized_kv_start_beyond_the_run(mlxctl: Program, tiny: Tiny) -> None:
    """The default of 5000 quantizes nothing in a short run; it is said, and figures say it too."""
    done = mlxctl("run", "--model", tiny("llama"), *KV, "-m", "4", "--format", "json", "hi")
    assert run_object(done)["timing"]["kv_layers_quantized"] == 0
    assert any("nothing" in line and "quantized" in line and "5000" in line for line in said(done)), done.err


def test_only_the_attention_layers_of_a_hybrid_are_quantized(tiny: Tiny) -> None:
    """One of its two layers has a state that is no KV cache."""
    kv = {"kv.kv_bits": 8, "kv.kv_group_size": 32, "kv.quantized_kv_start": 0}
    done = answer(tiny("hybrid"), **{"generation.max_tokens": 4}, **kv)
    assert (done.timing.kv_layers_quantized, done.timing.kv_layers) == (1, 2)


@pytest.mark.parametrize("kind", ["hybrid", "sliding"])
def test_draft_model_where_the_caches_cannot_step_back(kind: str, tiny: Tiny) -> None:
    """The library fails in mid-answer, or answers wrongly."""
    from mlxctl.errors import UsageError

    with pytest.raises(UsageError, match=f"{tiny(kind)}.*draft"):
        answer(tiny(kind), **{"model.draft_model": tiny("llama-draft")})


def test_max_kv_size_beside_a_draft_model(mlxctl: Program, tiny: Tiny) -> None:
    """The library drops it without a word."""
    flags = ("--draft-model", tiny("stopper"), "--max-kv-size", "64")
    done = mlxctl("run", "--model", tiny("stopper"), *flags, "hi")
    assert (done.code, done.out) == (0, STOPPER_REPLY + "\n")
    assert len(said(done)) == 1 and "max_kv_size" in done.err and "draft" in done.err
