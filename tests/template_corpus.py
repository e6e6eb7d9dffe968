"""Chat templates in the styles of the common families, each with what is to be found in it.

A file in templates/ begins with one line of JSON in a Jinja comment: the special tokens beside those of the tiny
models, "bos", "eos" (the tokenizer's), "add_bos", the end tokens of config.json and generation_config.json (or ids),
"lowercase" for a tokenizer that changes text, "extra" end tokens of the settings, the findings that are expected, and
arguments as name: [kind, default].
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Case:
    """One template and what is known of it."""

    name: str
    template: str
    head: dict[str, Any]


def cases() -> list[Case]:
    """All of them."""
    found = []
    for path in sorted(FOLDER.glob("*.jinja")):
        first, _, template = path.read_text(encoding="utf-8").partition("\n")
        found.append(Case(path.stem, template, json.loads(first.removeprefix("{#").removesuffix("#}"))))
    return found


def build(case: Case, base: Path, root: Path) -> Path:
    """The folder of a model of this template: all but weights. base: a tiny model's, whose tokenizer it has."""
    from tokenizers import AddedToken, Tokenizer, normalizers, processors

    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokens = [*case.head["tokens"], *([case.head["bos"]] if "bos" in case.head else [])]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens])
    if case.head.get("lowercase"):
        tokenizer.normalizer = normalizers.Lowercase()
    if case.head.get("add_bos"):
        bos = case.head["bos"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tokenizer.token_to_id(bos))]
        )
    folder = root / case.name
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = json.loads((base / "config.json").read_text(encoding="utf-8"))
    for name, file in (("config", "config.json"), ("generation", "generation_config.json")):
        ids = [
            token if isinstance(token, int) else tokenizer.token_to_id(token)
            for token in case.head.get(name, [case.head["eos"]])
        ]
        content = {**config, "eos_token_id": ids} if name == "config" else {"eos_token_id": ids}
        (folder / file).write_text(json.dumps(content), encoding="utf-8")
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": case.head["eos"]}
    if "bos" in case.head:
        about["bos_token"] = case.head["bos"]
    (folder / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(case.template, encoding="utf-8")
    return folder
