"""`prompt.template`: a text with places for what the prompt is made of."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlxctl.errors import UsageError, did_you_mean, nearest

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}\n]*)\}|[{}]")
OWN = ("stdin", "prompt", "files")


@dataclass(frozen=True)
class Given:
    """What there is to fill in. files: by the name they were given."""

    stdin: str
    prompt: str
    files: Mapping[str, str]
    params: Mapping[str, str]


def places(template: str) -> list[str]:
    """The names of the places, in their order. Raises UsageError for a brace that belongs to none."""
    return [name for name, _ in _parts(template) if name is not None]


def fill(template: str, given: Given) -> str:
    """The template with all its places filled; what is filled in is not looked at again.

    Raises UsageError for a place that nothing fills, and for something given that has no place.
    """
    names = places(template)
    _require_used(names, given)
    return "".join(text if name is None else _value(name, given) for name, text in _parts(template))


def before_the_question(template: str, given: Given) -> str:
    """The beginning of what `fill` makes, up to the question: the next one may have it too."""
    parts = list(_parts(template))
    names = [name for name, _ in parts]
    head = parts[: names.index("prompt")] if "prompt" in names else []
    return "".join(text if name is None else _value(name, given) for name, text in head)


def _parts(template: str) -> Iterator[tuple[str | None, str]]:
    """(None, text) and (name, "") in turn."""
    end = 0
    for found in _PLACE.finditer(template):
        yield None, template[end : found.start()]
        end = found.end()
        if found[0] in ("{{", "}}"):
            yield None, found[0][0]
        elif found[1] is None:
            raise UsageError(f"prompt.template: a lone {found[0]} at {_where(template, found.start())}; write it twice")
        else:
            yield found[1].strip(), ""
    yield None, template[end:]


def _where(template: str, place: int) -> str:
    line = template.count("\n", 0, place)
    return f"line {line + 1}, column {place - template.rfind(chr(10), 0, place)}"


def _value(name: str, given: Given) -> str:
    if name in ("stdin", "prompt"):
        return str(getattr(given, name))
    if name == "files":
        return "\n\n".join(text.rstrip("\n") for text in given.files.values())
    if name.startswith("file:"):
        return _file(name.removeprefix("file:").strip(), given.files)
    if name in given.params:
        return given.params[name]
    raise UsageError(f"prompt.template: nothing fills {{{name}}}{did_you_mean(nearest(name, (*OWN, *given.params)))}",
                     hint=(f"give --param {name}=TEXT; " if name.isidentifier() else "") +
                     "a brace that is meant as such is written twice")  # fmt: skip


def _file(name: str, files: Mapping[str, str]) -> str:
    found = [text for given, text in files.items() if name in (given, Path(given).name)]
    if len(found) != 1:
        what = "no file" if not found else f"{len(found)} files"
        raise UsageError(f"prompt.template: {{file:{name}}}: {what} of this name is given (-f)")
    return found[0]


def _require_used(names: list[str], given: Given) -> None:
    """Nothing that was given may be left out without a word."""
    for what in ("stdin", "prompt"):
        if getattr(given, what).strip() and what not in names:
            raise UsageError(f"prompt.template has no place for what is given: it lacks {{{what}}}")
    placed = {name.removeprefix("file:").strip() for name in names if name.startswith("file:")}
    for name in placed:
        _file(name, given.files)
    for file in given.files if "files" not in names else ():
        if not {file, Path(file).name} & placed:
            raise UsageError(
                f"prompt.template has no place for {file}: it lacks {{files}}, or {{file:{Path(file).name}}}"
            )
    for name in given.params:
        if name in OWN:
            raise UsageError(f"--param {name}: {{{name}}} is filled with what is asked; take another name")
        if name not in names:
            raise UsageError(f"--param {name}: prompt.template has no {{{name}}}"
                             f"{did_you_mean(nearest(name, [one for one in names if one not in OWN]))}")  # fmt: skip
