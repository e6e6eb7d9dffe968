"""`mlxctl inspect-template`: the prompt exactly, its parts, and what is wrong with the template."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import template_corpus
from conftest import Program

Tiny = Callable[[str], str]
CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture
def corpus(tiny: Tiny, tmp_path: Path) -> Callable[[str], str]:
    """The folder of a template of the corpus."""
    known = {case.name: case for case in template_corpus.cases()}
    return lambda name: str(template_corpus.build(known[name], Path(tiny("llama")), tmp_path))


@pytest.fixture
def show(mlxctl: Program, tiny: Tiny) -> Callable[..., Any]:
    """Runs it on a tiny model."""

    def one(*args: str, model: str = "moe", **kwargs: Any) -> Any:
        path = model if "/" in model else tiny(model)
        return mlxctl("inspect-template", "--model", path, *args, **kwargs)

    return one


def test_the_prompt_exactly(show: Any, mlxctl: Program) -> None:
    """As a run hands it over, to the last character: fit for a pipe."""
    done = show("What", "is it?")
    assert (done.code, done.out, done.err) == (0, CHATML.format("What is it?"), "")
    assert show(input="piped\n").out == CHATML.format("piped\n")
    assert show("--no-think", "Hi").out == CHATML.format("Hi") + "<think>\n\n</think>\n\n"
    assert show("-p", "a\\nb", "--escapes").out == CHATML.format("a\nb")
    (mlxctl.cwd / "f.txt").write_text("file")
    assert show("-f", "f.txt", "Hi").out == CHATML.format("file\n\nHi")
    (mlxctl.cwd / "m.json").write_text(
        json.dumps([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    )
    assert show("--messages", "m.json").out == "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb"


def test_samples(show: Any) -> None:
    """Without a prompt a sample question, or a conversation of so many."""
    assert show().out == CHATML.format("Question 1?")
    three = show("--turns", "3", "--system-prompt", "Be brief.").out
    assert three.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nQuestion 1?")
    assert three.count("user\n") == 3 and three.count("Answer") == 2


def test_tokens(show: Any) -> None:
    done = show("--tokens", "--format", "json", "Hi <|im_end|> é")
    report = json.loads(done.out)
    assert report["schema"] == "mlxctl.template/1" and report["prompt"] == CHATML.format("Hi <|im_end|> é")
    tokens = report["tokens"]
    assert len(tokens) == report["prompt_tokens"]
    assert [token["text"] for token in tokens if token["special"]] == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]
    assert {"id", "piece", "text", "special"} == set(tokens[0])
    table = show("--tokens", "Hi").out.splitlines()
    assert table[0].split() == ["#", "id", "piece", "text"]
    assert table[1].split() == ["0", "1", "<|im_start|>", '"<|im_start|>"', "special"]
    forged = json.loads(show("--tokens", "--format", "json", "--allow-special", "Hi <|im_end|>").out)["tokens"]
    assert sum(token["special"] for token in forged) == 4


def test_source_arguments_and_difference(show: Any, tiny: Tiny) -> None:
    template = json.loads((Path(tiny("moe")) / "tokenizer_config.json").read_text()).get("chat_template")
    source = show("--raw").out
    assert source == (template or (Path(tiny("moe")) / "chat_template.jinja").read_text())
    assert show("--arguments").out.splitlines()[1].split() == ["enable_thinking", "switch", "true"]
    (found,) = json.loads(show("--arguments", "--format", "json").out)["arguments"]
    assert found == {"name": "enable_thinking", "kind": "switch", "known": True, "default": True, "values": []}
    lines = show("--diff", "enable_thinking=false", "Hi").out.splitlines()
    assert lines[0].split() == ["as", "asked", "with", '{"enable_thinking":false}']
    assert lines[1].split() == ["<|im_start|>user", "<|im_start|>user"]
    assert [">", "<think>"] in [line.split() for line in lines]
    same = show("--diff", "nothing=1", "Hi")
    assert "the prompt is the same" in same.err and "does not read 'nothing'" in same.err
    assert json.loads(show("--diff", "enable_thinking=false", "--format", "json", "Hi").out)["diff"]["prompt"].endswith(
        "</think>\n\n"
    )


def test_lint(show: Any, corpus: Callable[[str], str]) -> None:
    """Two lines a finding; --strict fails for errors alone."""
    bad = corpus("chatml-eos")
    done = show("--lint", model=bad)
    assert done.code == 0
    first, second = done.out.splitlines()
    assert first.startswith("error end-token-not-eos: an answer ends with <|im_end|>")
    assert 'extra_eos_token = ["<|im_end|>"]' in second
    assert show("--strict", model=bad).code == 5
    mended = show("--strict", "--extra-eos-token", "<|im_end|>", model=bad)
    assert (mended.code, mended.out) == (0, "") and "nothing is wrong" in mended.err
    assert show("--lint", "--strict", model="moe").code == 0  # a note is no error
    (finding,) = json.loads(show("--lint", "--format", "json", model=bad).out)["findings"]
    assert set(finding) == {"code", "severity", "evidence", "mend"}


def test_a_profile(show: Any, mlxctl: Program, corpus: Callable[[str], str]) -> None:
    """Its model, template arguments and system prompt."""
    (mlxctl.cwd / "p.toml").write_text(
        f'[model]\npath = "{corpus("channels")}"\n[prompt]\nsystem = "Be brief."\n'
        '[template]\nreasoning_effort = "high"\n'
    )
    done = mlxctl("inspect-template", "-P", "./p.toml", "Hi")
    assert done.out.startswith("<|start|>system<|message|>Reasoning: high<|end|><|start|>developer<|message|>Be brief.")


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("--tokens", "--raw"), 2, "one at a time"),
        (("--turns", "2", "Hi"), 2, "--turns makes a conversation of its own"),
        (("--turns", "0"), 2, "not in the range"),
        (("--diff", "x"), 2, "expected NAME=VALUE"),
        (("--diff", "messages=1"), 2, "messages"),
        (("--model", "/nowhere"), 3, "no such folder"),
        (("--temp", "1"), 2, "no such option"),
        (("--chat-template-config", "{"), 2, "expected a table"),
        (("-p", ""), 2, "no prompt"),
    ],
)
def test_refused(args: tuple[str, ...], code: int, words: str, show: Any) -> None:
    done = show(*args)
    assert done.code == code and words in done.err and not done.out and "Traceback" not in done.err, done.err


def test_no_template(show: Any) -> None:
    assert show("Hi", model="mamba").out == "Hi"
    assert show("--raw", model="mamba").code == 2
    assert show("--strict", model="mamba").code == 0


def test_no_weights_are_needed(show: Any, corpus: Callable[[str], str]) -> None:
    """Nor is the network: the folder of the corpus holds a config and a tokenizer alone."""
    assert show("Hi", model=corpus("plain")).out == "User: Hi\nAssistant:"


@pytest.mark.parametrize("command", ["run", "chat"])
def test_told_before_an_answer(command: str, mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """What spoils answers is said once, in one line; what is only good to know is not."""
    for file in Path(tiny("stopper")).iterdir():
        (tmp_path / "model").mkdir(exist_ok=True)
        (tmp_path / "model" / file.name).write_bytes(file.read_bytes())
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        path = tmp_path / "model" / name
        about = json.loads(path.read_text()) if path.exists() else {}
        key = "eos_token" if name == "tokenizer_config.json" else "eos_token_id"
        path.write_text(json.dumps({**about, key: "<|endoftext|>" if key == "eos_token" else 0}))
    line = ("--model", str(tmp_path / "model"), "-m", "20")
    given = {"input": "Hello\nHello\n"} if command == "chat" else {"input": "Hello"}
    done = mlxctl(command, *line, **given)
    assert done.code == 0 and done.err.count("an answer ends with <|im_end|>") == 1, done.err
    assert "extra_eos_token" in done.err
    assert "an answer ends with" not in mlxctl(command, *line, "--extra-eos-token", "<|im_end|>", **given).err
    assert mlxctl(command, "--model", tiny("moe"), "-m", "3", **given).err.count("thinking of earlier") == 0


def test_values_as_python_writes_them(mlxctl: Program, tiny: Tiny) -> None:
    """They would be texts, and true."""
    done = mlxctl("inspect-template", "--model", tiny("moe"), "--diff", "enable_thinking=False", "hi")
    assert (done.code, done.out) == (2, "") and "in JSON this is false" in done.err


def test_the_same_prompt_is_said_and_not_drawn(mlxctl: Program, tiny: Tiny) -> None:
    done = mlxctl("inspect-template", "--model", tiny("llama"), "--diff", "x=1", "hi")
    assert (done.code, done.out) == (0, "") and "the prompt is the same" in done.err


def test_lint_takes_no_prompt(mlxctl: Program, tiny: Tiny) -> None:
    for args in (("hi",), ("--turns", "3")):
        assert mlxctl("inspect-template", "--model", tiny("llama"), "--lint", *args).code == 2


def test_no_arguments_is_said(mlxctl: Program, tiny: Tiny) -> None:
    done = mlxctl("inspect-template", "--model", tiny("llama"), "--arguments")
    assert (done.code, done.out) == (0, "") and "no arguments of its own" in done.err


def test_a_stop_text_mends_a_missing_end_token(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    known = {case.name: case for case in template_corpus.cases()}
    model = str(template_corpus.build(known["plain-no-end"], Path(tiny("llama")), tmp_path))
    (mlxctl.cwd / "p.toml").write_text('[generation]\nstop = ["\\nUser:"]\n')
    assert "no-end-token" in mlxctl("inspect-template", "--model", model, "--lint").out
    assert "no-end-token" not in mlxctl("inspect-template", "--model", model, "-P", "./p.toml", "--lint").out


def test_an_argument_that_the_template_needs(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """The mend is to give it."""
    case = template_corpus.Case("needs", "{% if max_len > 3 %}a{% endif %}{{ messages[0]['content'] }}",
                                {"tokens": [], "eos": "<|endoftext|>"})  # fmt: skip
    model = str(template_corpus.build(case, Path(tiny("llama")), tmp_path))
    done = mlxctl("inspect-template", "--model", model, "--lint")
    assert '--chat-template-config \'{"max_len"' in done.out, done.out


@pytest.fixture
def written(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> Callable[..., Any]:
    """Runs it on a model of this template."""

    def one(template: str, *args: str, tokens: tuple[str, ...] = (), **kwargs: Any) -> Any:
        case = template_corpus.Case("written", template, {"tokens": [*tokens], "eos": "<|endoftext|>"})
        model = str(template_corpus.build(case, Path(tiny("llama")), tmp_path))
        return mlxctl("inspect-template", "--model", model, *args, **kwargs)

    return one


SHOWS_X = "{% for m in messages %}{{ m.content }}{{ x }}\n{% endfor %}"


def test_a_value_in_square_brackets(written: Any) -> None:
    """A heading is text, not markup."""
    done = written(SHOWS_X, "--diff", "x=[/b]", "hi")
    assert done.code == 0 and 'with {"x":"[/b]"}' in done.out and "hi[/b]" in done.out, done.err


def test_blanks_that_differ_are_seen(written: Any) -> None:
    done = written(SHOWS_X, "--diff", 'x=" \\t"', "hi")
    assert done.code == 0 and '"hi"' in done.out and '"hi \\t"' in done.out, done


def test_a_difference_of_many_lines_alike_ends(written: Any) -> None:
    """Comparing them may take for ever, and does not."""
    template = "{{ messages[0].content }}{% for i in range(9000) %}{{ x if i % 2 else '' }}a\n{% endfor %}"
    done = written(template, "--diff", "x=b", "hi", timeout=60)
    assert done.code in (0, 5) and "Traceback" not in done.err, done.err


def test_stdin_is_nobodys_prompt_there(mlxctl: Program, tiny: Tiny) -> None:
    """What looks at the template alone leaves stdin to the loop around it, whatever is in it."""
    for flag in ("--lint", "--raw", "--arguments"):
        done = mlxctl("inspect-template", "--model", tiny("moe"), flag, input=b"\xff\n")
        assert (done.code, done.err) == (0, "") or flag == "--arguments", done
    script = f"printf 'a\\nb\\n' | while read m; do {mlxctl.path} inspect-template --model {tiny('moe')} --raw; done"
    done = subprocess.run(["bash", "-c", script], env=mlxctl.env, capture_output=True, text=True, check=True)
    assert done.stdout.count("add_generation_prompt") >= 2
    assert mlxctl("inspect-template", "--model", tiny("moe"), "--lint", "-p", "hi").code == 2


def test_a_token_is_a_line(written: Any) -> None:
    """Whatever its name is."""
    done = written("<|a\nb|>{{ messages[0].content }}", "--tokens", "hi", tokens=("<|a\nb|>",))
    assert done.code == 0
    assert '"<|a\\nb|>"' in done.out.splitlines()[1]


def test_many_tokens(mlxctl: Program, tiny: Tiny) -> None:
    """A table of ten thousands of them is there at once."""
    done = mlxctl("inspect-template", "--model", tiny("moe"), "--turns", "1000", "--tokens", timeout=40)
    assert done.code == 0 and len(done.out.splitlines()) > 10_000


def test_several_templates_and_no_default(mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    """The library renders with none of them, and so none is shown."""
    folder = tmp_path / "several"
    shutil.copytree(tiny("llama"), folder)
    about = json.loads((folder / "tokenizer_config.json").read_text())
    about["chat_template"] = [{"name": name, "template": "{{ x }}"} for name in ("rag", "tool_use")]
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    done = mlxctl("inspect-template", "--model", str(folder), "--raw")
    assert (done.code, done.out) == (2, "") and "none is the default" in done.err
    assert "template-fails" in mlxctl("inspect-template", "--model", str(folder), "--lint").out


@pytest.mark.parametrize("template", ["{# \ud800 #}{{ messages }}", "{{ x | default(" + "9" * 5000 + ") }}"])
def test_templates_that_nobody_can_read(template: str, mlxctl: Program, tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    shutil.copytree(tiny("llama"), folder)
    about = json.loads((folder / "tokenizer_config.json").read_text())
    about["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    for flag in ("--raw", "--arguments", "--lint"):
        done = mlxctl("inspect-template", "--model", str(folder), flag)
        assert done.code in (0, 5) and "Traceback" not in done.err and "fault of mlxctl" not in done.err, done
