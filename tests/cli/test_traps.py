"""MLX_LM_FACTS.md: what the library does that a careful tool must handle.

Sections: the command line, sampling, streaming and figures, templates. End tokens are in test_rules, special tokens
in test_special_tokens, prompt files that cannot be used in test_exit_status.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Program
from models import END_OF_TEXT, KINDS, STOPPER_REPLY
from test_exit_status import store_cache

Tiny = Callable[[str], str]
HI = [{"role": "user", "content": "hi"}]
LONG = [{"role": "user", "content": "Write a list of things: one, two, three, four, five. Then count them again. " * 3}]


@pytest.fixture(scope="session")
def engines(tiny: Tiny) -> Callable[..., Any]:
    """An Engine of a kind and settings, loaded once."""
    from mlxctl import Engine, options

    made: dict[str, Any] = {}

    def get(kind: str, **values: Any) -> Any:
        key = f"{kind} {values}"
        if key not in made:
            made[key] = Engine.load(options.build({"model.path": tiny(kind), "model.dtype": "native", **values}))
        return made[key]

    return get


@pytest.fixture(scope="session")
def library(tiny: Tiny) -> Callable[[str], tuple[Any, Any]]:
    """The library's model and tokenizer of a kind."""
    from mlx_lm import load

    made: dict[str, Any] = {}

    def get(kind: str) -> tuple[Any, Any]:
        if kind not in made:
            made[kind] = load(tiny(kind))
        return made[kind]  # type: ignore[no-any-return]

    return get


def answer(engine: Any, messages: list[dict[str, str]] = HI, **values: Any) -> tuple[list[int], Any]:
    """Token ids and the Done of one answer; values: settings for it alone."""
    from mlxctl import options
    from mlxctl.events import Done, Token

    settings = options.build({"model.path": engine.settings.model.path, "generation.max_tokens": 12, **values})
    events = list(engine.stream(messages, settings=settings))
    assert isinstance(events[-1], Done)
    return [event.id for event in events if isinstance(event, Token)], events[-1]


def prompt_ids(tokenizer: Any, messages: list[dict[str, str]] = HI) -> list[int]:
    """What mlx_lm.generate hands the model."""
    if not tokenizer.has_chat_template:
        return list(tokenizer.encode(messages[-1]["content"]))
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return list(tokenizer.encode(text, add_special_tokens=False))


def generated(model: Any, ids: list[int], tokens: int = 12, **options: Any) -> list[int]:
    """Token ids from generate_step, called directly."""
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    return [int(token) for token, _ in generate_step(mx.array(ids), model, max_tokens=tokens, **options)]


# The command line


def test_use_default_chat_template_has_no_effect(mlxctl: Program, tiny: Tiny) -> None:
    """Accepted and never read, there as here."""
    done = mlxctl("run", "--model", tiny("stopper"), "--use-default-chat-template", "hi")
    assert (done.code, done.out, done.err) == (0, STOPPER_REPLY + "\n", "")


def test_verbose_false_is_the_answer_alone(mlxctl: Program, tiny: Tiny) -> None:
    """Whatever a weaker layer says. True is the classic layout: test_output."""
    done = mlxctl("run", "--model", tiny("stopper"), "--verbose", "F", "hi", env={"MLXCTL_FORMAT": "json"})
    assert (done.code, done.out) == (0, STOPPER_REPLY + "\n")


@pytest.fixture
def stored(tiny: Tiny, tmp_path: Path) -> str:
    """A prompt cache of "stopper", as mlx_lm.cache_prompt writes it."""
    return store_cache(tmp_path / "cache.safetensors", tiny("stopper"), "Some background. ")


def test_prompt_cache_file_is_continued(stored: str, mlxctl: Program, tiny: Tiny) -> None:
    """It names the model; its tokens count as cached, and the whole is what one prompt would have been."""
    done = mlxctl("run", "--prompt-cache-file", stored, "--format", "json", "hi")
    run = json.loads(done.out)
    assert (run["text"], run["model"]["path"]) == (STOPPER_REPLY, tiny("stopper"))
    t = run["timing"]
    assert 0 < t["cached_tokens"] < t["prompt_tokens"] == t["cached_tokens"] + t["prefill_tokens"]


def test_prompt_cache_file_and_the_same_model_spelled_otherwise(stored: str, mlxctl: Program, tiny: Tiny) -> None:
    """The library compares texts: /m is not /m/."""
    done = mlxctl("run", "--model", tiny("stopper") + "/", "--prompt-cache-file", stored, "hi")
    assert (done.code, done.out) == (0, STOPPER_REPLY + "\n"), done.err


@pytest.mark.parametrize("flag", ["--system-prompt", "--system-file"])
def test_prompt_cache_file_and_a_system_prompt(flag: str, stored: str, mlxctl: Program, work: Path) -> None:
    """The library ignores it without a word; it is refused, however it is given."""
    (work / "s.txt").write_text("Be kind.")
    done = mlxctl("run", "--prompt-cache-file", stored, flag, "s.txt", "hi")
    assert (done.code, done.out) == (2, "") and "system prompt" in done.err


def test_prompt_cache_file_and_a_system_message(stored: str, mlxctl: Program, work: Path) -> None:
    """The same by way of --messages."""
    (work / "m.json").write_text('[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]')
    done = mlxctl("run", "--prompt-cache-file", stored, "--messages", "m.json")
    assert (done.code, done.out) == (2, "") and "system" in done.err


def suffix_tokens(engine: Any, messages: list[dict[str, str]], **values: Any) -> int:
    """How many tokens were fed after a stored cache."""
    _, done = answer(engine, messages, **values)
    return int(done.timing.prefill_tokens)


@pytest.fixture
def from_cache(tiny: Tiny, tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """An Engine that starts from a stored cache of a kind."""
    from mlxctl import Engine, options

    def make(kind: str) -> Any:
        path = store_cache(tmp_path / f"{kind}.safetensors", tiny(kind), "Some background. ")
        return Engine.load(options.build({"request.prompt_cache_file": path}))

    yield make


def test_prompt_cache_file_and_prefill(from_cache: Any, library: Any) -> None:
    """With a prefill the library drops the question. The reply goes on behind the prefill."""
    tokenizer = library("stopper")[1]
    suffix = "hi there<|im_end|>\n<|im_start|>assistant\nHello"
    question = [{"role": "user", "content": "hi there"}]
    ids, done = answer(from_cache("stopper"), question, **{"prompt.prefill_response": "Hello"})
    assert done.timing.prefill_tokens == len(tokenizer.encode(suffix, add_special_tokens=False))
    assert tokenizer.decode(ids[:-1]) == STOPPER_REPLY.removeprefix("Hello")[: len(tokenizer.decode(ids[:-1]))]


def test_prompt_cache_file_and_template_arguments(from_cache: Any, library: Any) -> None:
    """The library does not apply them when it looks for the suffix: they add the empty thoughts to it here."""
    tokenizer, engine = library("moe")[1], from_cache("moe")
    plain = "hi<|im_end|>\n<|im_start|>assistant\n"
    counts = [len(tokenizer.encode(t, add_special_tokens=False)) for t in (plain, plain + "<think>\n\n</think>\n\n")]
    assert suffix_tokens(engine, HI) == counts[0]
    assert suffix_tokens(engine, HI, **{"template.enable_thinking": False}) == counts[1] != counts[0]


def test_prompt_cache_file_and_no_second_bos(from_cache: Any, library: Any) -> None:
    """A raw suffix gets a BOS in mid-sequence from the library, where the tokenizer adds one."""
    tokenizer, engine = library("spm")[1], from_cache("spm")
    text = "more of the text"
    bare, with_bos = (len(tokenizer.encode(text, add_special_tokens=flag)) for flag in (False, True))
    assert with_bos == bare + 1
    settings = {"prompt.ignore_chat_template": True}
    assert suffix_tokens(engine, [{"role": "user", "content": text}], **settings) == bare


QUANTIZED = {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 0}


def test_quantized_prompt_cache_file_needs_no_group_size(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """The library wants --kv-group-size even where no --kv-bits is given. The file knows its own."""
    path = store_cache(tmp_path / "q.safetensors", tiny("stopper"), "Some background. ", **QUANTIZED)
    done = mlxctl("run", "--prompt-cache-file", path, "hi")
    assert (done.code, done.out) == (0, STOPPER_REPLY + "\n"), done.err


def test_every_layer_is_asked_whether_it_is_quantized(tiny: Tiny, tmp_path: Path) -> None:
    """The library looks at the first one alone."""
    from mlx_lm.models.cache import load_prompt_cache, save_prompt_cache

    from mlxctl import Engine, options
    from mlxctl.errors import CacheError

    plain = store_cache(tmp_path / "p.safetensors", tiny("llama"), "Some background. ")
    quantized = store_cache(tmp_path / "q.safetensors", tiny("llama"), "Some background. ", **QUANTIZED)
    caches, metadata = load_prompt_cache(plain, return_metadata=True)
    mixed = str(tmp_path / "m.safetensors")
    save_prompt_cache(mixed, [caches[0], load_prompt_cache(quantized)[1]], metadata)
    values = {"request.prompt_cache_file": mixed, "kv.kv_bits": 4, "kv.kv_group_size": 32}
    with pytest.raises(CacheError, match="kv_bits 8"):
        Engine.load(options.build(values))


# Sampling


BAD_SAMPLERS: list[dict[str, float]] = [
    {"temp": -1.0},
    {"temp": float("nan")},
    {"temp": 1.0, "min_p": 5.0},
    {"temp": 1.0, "top_k": -3},
    {"temp": 1.0, "top_k": 513},
    {"temp": 1.0, "top_p": 0.0},
    {"temp": 1.0, "top_p": 1.5},
    {"temp": 1.0, "xtc_probability": 1.5},
    {"temp": 1.0, "xtc_probability": 0.5, "xtc_threshold": 0.7},
]


def with_sampler(values: dict[str, float]) -> dict[str, float]:
    """As keys of the option table."""
    return {f"sampler.{key}": value for key, value in values.items()}


@pytest.mark.parametrize("values", BAD_SAMPLERS, ids=str)
@pytest.mark.parametrize("later", [False, True], ids=["load", "stream"])
def test_a_bad_sampler_is_refused_and_poisons_nothing(
    values: dict[str, float], later: bool, engines: Any, tiny: Tiny
) -> None:
    """At load, and as settings of one answer. Inside a compiled function it breaks the random state for good."""
    from mlxctl import Engine, options
    from mlxctl.errors import UsageError

    engine, good = engines("llama"), {"sampler.temp": 1.0, "sampler.seed": 3}
    before = answer(engine, **good)[0]
    with pytest.raises(UsageError):
        if later:
            answer(engine, **with_sampler(values))
        else:
            Engine.load(options.build({"model.path": tiny("llama"), **with_sampler(values)}))
    assert answer(engine, **good)[0] == before


@pytest.mark.parametrize("tokens", [0, -7])
def test_a_bad_token_limit_is_refused_for_one_answer_too(tokens: int, engines: Any) -> None:
    """In the library 0 raises, and -7 acts as -1."""
    from mlxctl.errors import UsageError

    with pytest.raises(UsageError, match="max"):
        answer(engines("stopper"), **{"generation.max_tokens": tokens})


SAMPLERS: list[dict[str, float]] = [
    {"temp": 0.8},
    {"temp": 1.5, "top_p": 0.7},
    {"temp": 1.0, "min_p": 0.05, "min_tokens_to_keep": 3},
    {"temp": 1.0, "top_k": 4},
    {"temp": 1.2, "xtc_probability": 0.7, "xtc_threshold": 0.05},
]


@pytest.mark.parametrize("values", SAMPLERS, ids=str)
def test_samplers_are_the_librarys(values: dict[str, Any], engines: Any, library: Any) -> None:
    """The same ids from the same seed; another seed gives others."""
    import mlx.core as mx
    from mlx_lm.sample_utils import make_sampler

    model, tokenizer = library("llama")
    special = [*tokenizer.encode("\n"), *tokenizer.eos_token_ids]
    sampler = make_sampler(**values, xtc_special_tokens=special)
    mx.random.seed(11)
    theirs = generated(model, prompt_ids(tokenizer), sampler=sampler)
    first, again, other = (
        answer(engines("llama"), **with_sampler(values), **{"sampler.seed": seed})[0] for seed in (11, 11, 12)
    )
    assert first == again == theirs != other


PENALTIES: list[dict[str, Any]] = [
    {"repetition_penalty": 3.0},
    {"repetition_penalty": 3.0, "repetition_context_size": 60},
    {"presence_penalty": 4.0, "presence_context_size": 30},
    {"frequency_penalty": 2.0, "frequency_context_size": 100},
    {"repetition_penalty": 1.5, "presence_penalty": 1.0, "frequency_penalty": 0.5, "frequency_context_size": 7},
]


@pytest.mark.parametrize("values", PENALTIES, ids=str)
def test_penalties_see_the_prompt(values: dict[str, Any], engines: Any, library: Any) -> None:
    """The library is fed one token after our own prefill; its windows must look back into the prompt all the same."""
    from mlx_lm.sample_utils import make_logits_processors

    model, tokenizer = library("llama")
    ids = prompt_ids(tokenizer, LONG)
    processors = make_logits_processors(None, **values)
    theirs = generated(model, ids, tokens=30, logits_processors=processors)
    settings = {f"logits.{key}": value for key, value in values.items()}
    found, _ = answer(engines("llama"), LONG, **settings, **{"generation.max_tokens": 30})
    assert found == theirs != generated(model, ids, tokens=30)


def test_a_penalty_depends_on_the_prompt_alone_for_the_first_token(engines: Any, library: Any) -> None:
    """Without the prompt in its window the first token could not change: here every greedy choice is forbidden."""
    model, tokenizer = library("llama")
    (favourite,) = generated(model, prompt_ids(tokenizer), tokens=1)
    messages = [{"role": "user", "content": "hi" + tokenizer.decode([favourite])}]
    ids = prompt_ids(tokenizer, messages)
    (plain,) = generated(model, ids, tokens=1)
    values = {"logits.presence_penalty": 1000.0, "logits.presence_context_size": 500, "generation.max_tokens": 1}
    (found,), _ = answer(engines("llama"), messages, **values)
    assert found not in ids
    assert plain not in ids or found != plain


def test_windows_default_to_the_librarys_twenty() -> None:
    """Said in the table, so that it is known."""
    from mlxctl import Settings

    logits = Settings().logits
    assert logits.repetition_context_size == logits.presence_context_size == logits.frequency_context_size == 20


def test_logit_bias_is_the_librarys(mlxctl: Program, tiny: Tiny, library: Any) -> None:
    """By text and by id, through the program."""
    from mlx_lm.sample_utils import make_logits_processors

    model, tokenizer = library("llama")
    plain = generated(model, prompt_ids(tokenizer))
    (comma,) = tokenizer.encode(",", add_special_tokens=False)
    bias = {comma: 3.0, plain[0]: -100.0}
    theirs = generated(model, prompt_ids(tokenizer), logits_processors=make_logits_processors(bias))
    flags = ("--logit-bias", ",=3", "--logit-bias", f"id:{plain[0]}=-100", "-m", "12", "--format", "jsonl")
    done = mlxctl("run", "--model", tiny("llama"), *flags, "hi")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [event["id"] for event in events if event["event"] == "token"] == theirs != plain


def test_ban(engines: Any, library: Any) -> None:
    """A banned token never comes, and bans and biases live side by side."""
    model, tokenizer = library("llama")
    banned = generated(model, prompt_ids(tokenizer))[:3]
    names = [f"id:{token}" for token in banned]
    found, _ = answer(engines("llama"), **{"logits.ban": names, "generation.max_tokens": 60})
    assert set(found).isdisjoint(banned) and len(found) == 60
    from mlx_lm.sample_utils import make_logits_processors

    processors = make_logits_processors(dict.fromkeys(banned, float("-inf")))
    assert found == generated(model, prompt_ids(tokenizer), tokens=60, logits_processors=processors)


@pytest.mark.parametrize("key", ["logits.ban", "logits.logit_bias"])
def test_what_is_banned_or_biased_must_be_one_token(key: str, engines: Any) -> None:
    """As an end token must."""
    from mlxctl.errors import UsageError

    value: Any = ["Hello there"] if key == "logits.ban" else {"Hello there": 1.0}
    with pytest.raises(UsageError, match="Hello there"):
        answer(engines("llama"), **{key: value})


# Streaming and figures


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "eos-split"])
@pytest.mark.parametrize("step", [2048, 5])
def test_ids_and_text_are_the_librarys(kind: str, step: int, engines: Any, library: Any) -> None:
    """For every architecture, with a prompt longer than the sliding window, in one piece and in several."""
    from mlx_lm import stream_generate

    model, tokenizer = library(kind)
    options = {"max_tokens": 24, "prefill_step_size": step}
    steps = list(stream_generate(model, tokenizer, prompt_ids(tokenizer, LONG), **options))
    values = {"generation.max_tokens": 24, "generation.prefill_step_size": step, "output.thinking": "show"}
    found, done = answer(engines(kind), LONG, **values)
    assert found == [response.token for response in steps]
    assert done.timing.generation_tokens == steps[-1].generation_tokens
    assert done.timing.prompt_tokens == steps[-1].prompt_tokens
    if kind != "moe":  # its text is split: test_output
        text = "".join(response.text for response in steps)
        # A bare prompt and its answer make one text; the library cuts the first space off.
        bare = kind == "mamba" and tokenizer.decode(found[:1]).startswith(" ")
        assert done.text == (f" {text}" if bare else text)


def test_peak_memory_is_of_one_run(engines: Any) -> None:
    """The library never resets it: after a long prompt a short one would report the long one's."""
    import mlx.core as mx

    engine = engines("llama")
    loaded = mx.get_active_memory() / 1e9  # the models of other tests, too
    long = [{"role": "user", "content": "one two three " * 250}]
    first, second = (answer(engine, messages)[1].timing.peak_memory_gb - loaded for messages in (long, HI))
    assert second < first / 2


def test_default_stream_is_back_after_a_run_that_was_left(engines: Any) -> None:
    """While the library's generator is suspended the default stream is another one."""
    import mlx.core as mx

    from mlxctl.events import Token

    before = mx.default_stream(mx.default_device())
    events = engines("llama").stream(HI)
    assert any(isinstance(event, Token) for event in events)  # any() stops at the first one
    events.close()
    assert mx.default_stream(mx.default_device()) == before
    stopped, _ = answer(engines("llama"), **{"generation.max_tokens": 3})
    assert len(stopped) == 3 and mx.default_stream(mx.default_device()) == before


@pytest.mark.parametrize(
    "stop, text",
    [
        ("lo the", "Hel"),
        ("o", "Hell"),
        ("there,", "Hello "),
        (", wö", "Hello there"),
        ("d 🙂", "Hello there, wörl"),
        ("🙂!", "Hello there, wörld "),
        ("!", "Hello there, wörld 🙂"),
        ("ello", "H"),
        (STOPPER_REPLY, ""),
    ],
)
def test_stop_strings_span_tokens(stop: str, text: str, engines: Any, library: Any) -> None:
    """Inside tokens, across them, across the bytes of a character; never shown."""
    assert library("stopper")[1].encode(stop, add_special_tokens=False) != []
    _, done = answer(engines("stopper"), **{"generation.stop": ["not there", stop], "generation.max_tokens": 99})
    assert (done.text, done.stop, done.finish_reason) == (text, {"kind": "string", "string": stop}, "stop")


def test_stop_string_in_a_run(mlxctl: Program, tiny: Tiny) -> None:
    """Several flags; the one that comes first ends it. It is never printed, nor is what follows."""
    done = mlxctl("run", "--model", tiny("stopper"), "--stop", "!", "--stop", "e, w", "hi")
    assert (done.code, done.out, done.err) == (0, "Hello ther\n", "")


def test_end_tokens_stay_active_beside_stop_strings(engines: Any) -> None:
    """A beginning of a stop string that never comes is shown."""
    _, done = answer(engines("stopper"), **{"generation.stop": ["!!"], "generation.max_tokens": 99})
    assert (done.text, done.stop["kind"]) == (STOPPER_REPLY, "eos")


def test_held_back_text_is_shown_at_the_limit(engines: Any) -> None:
    """The third token, " there", may begin the stop string, and is the last one allowed."""
    _, done = answer(engines("stopper"), **{"generation.stop": ["there!"], "generation.max_tokens": 3})
    assert (done.text, done.finish_reason) == ("Hello there", "length")


@pytest.mark.parametrize("limit, drafted, accepted", [(-1, 12, 10), (13, 10, 10), (6, 5, 5)])
def test_draft_figures(limit: int, drafted: int, accepted: int, engines: Any, tiny: Tiny) -> None:
    """A model that drafts for itself is always right, so a round of 3 guesses yields 4 tokens.

    13 tokens are three full rounds and one that ends with its first guess, the end token. The last round of a limited
    run drafts only what is left: 13 = 4 + 4 + 4 + 1, 6 = 4 + 2 (all guesses: nothing is left for the model's own).
    """
    engine = engines("stopper", **{"model.draft_model": tiny("stopper")})
    _, done = answer(engine, **{"model.draft_model": tiny("stopper"), "generation.max_tokens": limit})
    t = done.timing
    assert (t.generation_tokens, done.text) == ((13, STOPPER_REPLY) if limit != 6 else (6, "Hello there, wörld"))
    assert (t.draft_tokens, t.draft_accepted) == (drafted, accepted)


@pytest.mark.parametrize("number", [1, 3, 6])
def test_draft_model_changes_no_text(number: int, engines: Any, library: Any, tiny: Tiny) -> None:
    """At temperature 0: the ids of the run without it, and accepted as often as in the library."""
    from mlx_lm import stream_generate

    (model, tokenizer), (draft, _) = library("llama"), library("llama-draft")
    options = {"draft_model": draft, "num_draft_tokens": number, "max_tokens": 40}
    steps = list(stream_generate(model, tokenizer, prompt_ids(tokenizer), **options))
    engine = engines("llama", **{"model.draft_model": tiny("llama-draft")})
    values = {"model.draft_model": tiny("llama-draft"), "model.num_draft_tokens": number, "generation.max_tokens": 40}
    found, done = answer(engine, **values)
    alone, _ = answer(engines("llama"), **{"generation.max_tokens": 40})
    assert found == alone == [response.token for response in steps]
    assert done.timing.draft_accepted == sum(response.from_draft for response in steps) > 0
    assert done.timing.draft_accepted <= done.timing.draft_tokens


def test_bare_prompt_and_answer_concatenate(engines: Any) -> None:
    """The library trims the first token's space: "Hello" goes on as "there" instead of " there"."""
    values = {"prompt.ignore_chat_template": True, "generation.max_tokens": 99}
    _, done = answer(engines("stopper"), [{"role": "user", "content": "Hello"}], **values)
    assert "Hello" + done.text == STOPPER_REPLY


SCRIPT = """
import importlib, sys
import mlx.core as mx
generate = importlib.import_module("mlx_lm.generate")
generate.maybe_set_recommended_wired_limit = lambda: 1
mx.device_info = lambda *args: {"max_recommended_working_set_size": 1000, "device_name": "small"}
mx.set_wired_limit = lambda limit: 1
sys.argv = ["mlxctl", "run", *sys.argv[1:]]
from mlxctl.cli.main import main
main()
"""


def test_warnings_that_the_library_prints_go_to_stderr(sealed: dict[str, str], work: Path, tiny: Tiny) -> None:
    """A model as large as a Mac's memory: the library prints its warning to stdout, into the answer."""
    command = [sys.executable, "-c", SCRIPT, "--model", tiny("stopper"), "hi"]
    done = subprocess.run(command, env=sealed, cwd=work, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, STOPPER_REPLY + "\n")
    assert "[WARNING]" in done.stderr and "maximum recommended size" in done.stderr


# Templates


@pytest.mark.parametrize("flags, asked", [((), None), (("--think",), True), (("--no-think",), False)])
def test_thinking_is_asked_for_as_the_library_does(
    flags: tuple[str, ...], asked: bool | None, mlxctl: Program, tiny: Tiny, library: Any
) -> None:
    """Its wrapper passes enable_thinking by itself."""
    arguments = {} if asked is None else {"enable_thinking": asked}
    tokenizer = library("moe")[1]
    expected = tokenizer.apply_chat_template(HI, tokenize=False, add_generation_prompt=True, **arguments)
    assert ("<think>\n\n</think>" in expected) == (asked is False)
    done = mlxctl("run", "--model", tiny("moe"), "--dry-run", "--format", "json", *flags, "hi")
    assert json.loads(done.out)["prompt"] == expected


def test_arguments_that_the_template_does_not_read(mlxctl: Program, tiny: Tiny) -> None:
    """Each is named; the answer comes all the same."""
    flags = ("--chat-template-config", '{"colour": "red"}', "--no-think")
    done = mlxctl("run", "--model", tiny("stopper"), *flags, "hi")
    assert (done.code, done.out) == (0, STOPPER_REPLY + "\n")
    assert "colour" in done.err and "enable_thinking" in done.err and len(done.err.splitlines()) == 2


def test_arguments_that_it_reads_are_not_warned_of(engines: Any) -> None:
    """And they act: no thoughts come."""
    from mlxctl import options
    from mlxctl.events import Done, Notice

    values = {"template.enable_thinking": False, "generation.max_tokens": 12}
    events = list(engines("moe").stream(HI, settings=options.build(values)))
    assert [event for event in events if isinstance(event, Notice)] == []
    assert isinstance(events[-1], Done) and events[-1].thinking is None


def test_a_model_without_a_template_says_so(mlxctl: Program, tiny: Tiny) -> None:
    """The text is handed over bare, and asking for that is quiet."""
    done = mlxctl("run", "--model", tiny("mamba"), "-m", "3", "--no-stats", "hi")
    assert done.code == 0 and "no chat template" in done.err and END_OF_TEXT not in done.out
    done = mlxctl("run", "--model", tiny("mamba"), "-m", "3", "--no-stats", "--ignore-chat-template", "hi")
    assert done.code == 0 and "template" not in done.err
