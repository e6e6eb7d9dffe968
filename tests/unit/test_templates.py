"""The corpus of chat templates: what is found in each, and that renderings are the library's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import template_corpus
from template_corpus import Case

from mlxctl import options
from mlxctl.engine import prompt
from mlxctl.errors import TemplateError
from mlxctl.settings import Settings

CASES = template_corpus.cases()
SOUND = [case for case in CASES if "template-fails" not in case.head["expects"]]
CONVERSATIONS = [
    [{"role": "user", "content": "When?"}],
    [{"role": "user", "content": "When?"}, {"role": "assistant", "content": "At nine."},
     {"role": "user", "content": "Why?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " When,  é 漢字?\n"}],
    [{"role": "user", "content": "When?"}, {"role": "assistant", "content": "At ni"}],
]  # fmt: skip
ARGUMENTS: list[dict[str, Any]] = [{}, {"enable_thinking": False}, {"reasoning_effort": "high"}, {"controls": {"x": 1}}]


@pytest.fixture(scope="module")
def opened(tiny: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Any]:
    """(source, settings) of a case, as a run would open it."""
    root, known = tmp_path_factory.mktemp("corpus"), dict[str, Any]()

    def one(case: Case) -> Any:
        if case.name not in known:
            from mlxctl.engine.loader import open_source

            folder = template_corpus.build(case, Path(tiny("llama")), root)
            settings = options.build({"model.path": str(folder), "model.extra_eos_token": case.head.get("extra", [])})
            known[case.name] = open_source(settings, lambda text: None), settings
        return known[case.name]

    return one


def test_size_of_the_corpus() -> None:
    assert len(CASES) >= 25
    assert sum(not case.head["expects"] for case in CASES) >= 8
    planted = {code for case in CASES for code in case.head["expects"]}
    assert set(prompt.codes()) - planted == {"no-template", "not-checked"}  # which have tests of their own


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_found(case: Case, opened: Callable[[Case], Any]) -> None:
    """All that was planted, and nothing else."""
    source, settings = opened(case)
    found = prompt.lint(source.tokenizer, settings, source.path)
    assert sorted(finding.code for finding in found) == sorted(case.head["expects"]), found
    assert all(finding.evidence and finding.mend for finding in found)


def test_the_mend_of_an_end_token_is_one(opened: Callable[[Case], Any]) -> None:
    """The line that the finding gives, put in a profile, makes it go away."""
    (case,) = [case for case in CASES if case.name == "llama3-eos"]
    source, settings = opened(case)
    (finding,) = prompt.lint(source.tokenizer, settings, source.path)
    assert 'extra_eos_token = ["<|eot_id|>"]' in finding.mend and "<|eot_id|>" in finding.evidence


def test_no_template(tiny: Callable[[str], str]) -> None:
    from mlxctl.engine.loader import open_source

    settings = options.build({"model.path": tiny("mamba")})
    source = open_source(settings, lambda text: None)
    assert [finding.code for finding in prompt.lint(source.tokenizer, settings, source.path)] == ["no-template"]
    assert prompt.arguments(source.tokenizer) == []


def test_a_check_that_stumbles(opened: Callable[[Case], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are made all the same, and it is told."""
    (case,) = [case for case in CASES if case.name == "chatml-eos"]
    source, settings = opened(case)

    def broken(*args: Any, **kwargs: Any) -> str:
        raise KeyError("oddity")

    monkeypatch.setattr(source.tokenizer._tokenizer, "decode", broken)
    found = {finding.code: finding for finding in prompt.lint(source.tokenizer, settings, source.path)}
    assert {"end-token-not-eos", "not-checked"} <= set(found)
    assert found["not-checked"].evidence == "changes-text: KeyError: 'oddity'"


def test_findings_are_short(opened: Callable[[Case], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a template writes where something is looked for."""
    (case,) = [case for case in CASES if case.name == "plain-no-end"]
    source, settings = opened(case)
    template = case.template.replace("{%- endfor", "{{- 'H' * 90000 -}}{%- endfor", 1)
    monkeypatch.setattr(source.tokenizer._tokenizer, "chat_template", template)
    found = prompt.lint(source.tokenizer, settings, source.path)
    assert found and all(len(one.evidence) <= 400 and len(one.mend) <= 400 for one in found)


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
@pytest.mark.parametrize("case", SOUND, ids=lambda case: case.name)
def test_rendered_as_the_library_does(case: Case, arguments: dict[str, Any], opened: Callable[[Case], Any]) -> None:
    """Text and ids are those of `apply_chat_template`; where that refuses, so do we."""
    source, _ = opened(case)
    settings = options.build({"model.path": str(source.path)})
    settings = Settings(model=settings.model, template=arguments)
    for messages in CONVERSATIONS:
        continues = messages[-1]["role"] == "assistant"
        asked = {"add_generation_prompt": not continues, "continue_final_message": continues, **arguments}
        try:
            text = source.tokenizer.apply_chat_template(messages, tokenize=False, **asked)
        except Exception:
            with pytest.raises(TemplateError):
                prompt.render(source.tokenizer, messages, settings)
            continue
        rendered = prompt.render(source.tokenizer, messages, settings)
        assert rendered.text == text
        assert rendered.ids == source.tokenizer.apply_chat_template(messages, tokenize=True, **asked)


@pytest.mark.parametrize("case", SOUND, ids=lambda case: case.name)
def test_arguments(case: Case, opened: Callable[[Case], Any]) -> None:
    """Those that a person may set, with their kinds and defaults, and no others."""
    source, _ = opened(case)
    found = {one.name: [one.kind, one.default if one.known else None] for one in prompt.arguments(source.tokenizer)}
    assert found == case.head.get("arguments", {})


@pytest.mark.parametrize(
    ("template", "name", "kind", "default", "values"),
    [
        ("{{ x | default('high') }}", "x", "text", "high", []),
        ("{% set y = x if x is defined else 3 %}{{ y }}", "x", "value", 3, []),
        ("{% if not x is defined %}{% set x = false %}{% endif %}{% if x %}1{% endif %}", "x", "switch", False, []),
        ("{% if x == 'low' or x in ['mid', 'high'] %}1{% endif %}", "x", "text", None, ["low", "mid", "high"]),
        ("{% for y in x %}{{ y }}{% endfor %}", "x", "list", None, []),
        ("{{ x.y }}", "x", "object", None, []),
        ("{% if x is true %}1{% endif %}", "x", "switch", None, []),
        ("{{ x }}", "x", "value", None, []),
        ("{% generation %}{{ x }}{% endgeneration %}", "x", "value", None, []),
    ],
)
def test_kinds_of_arguments(
    template: str, name: str, kind: str, default: Any, values: list[Any], tiny: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Read from what a template does with them."""
    from mlxctl.engine.loader import open_source

    source = open_source(options.build({"model.path": tiny("llama")}), lambda text: None)
    monkeypatch.setattr(source.tokenizer._tokenizer, "chat_template", template)
    (found,) = prompt.arguments(source.tokenizer)
    assert (found.name, found.kind, found.default, found.values) == (name, kind, default, values)
    assert prompt.unread_arguments(source.tokenizer, {name: 1, "other": 2}) == ["other"]
