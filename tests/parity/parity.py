"""The command lines of the tables beside this file, and the files they name."""

import ast
import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from conftest import Forked
from models import KINDS

HERE = Path(__file__).parent
_BREAK = " < "
_PLACEHOLDER = re.compile(r"\{([a-z]+(?:-[a-z]+)*)\}")
_FIGURES = re.compile(
    r"(\n=+\nPrompt: \d+ tokens, )[\d.]+( tokens-per-sec\n"
    r"Generation: \d+ tokens, )[\d.]+( tokens-per-sec\n"
    r"Peak memory: )[\d.]+( GB\n)\Z"
)

# A prompt cache by name: the model's kind, and what mlx_lm.cache_prompt is told beside it; a later --prompt counts.
STORY = "The rain in the morning was light, and then the sun came out."
CACHES: dict[str, tuple[str, tuple[str, ...]]] = {
    "cache-llama": ("llama", ()),
    "cache-story": ("llama", ("--prompt", "It rained.")),
    "cache-quantized": ("llama", ("--kv-bits", "8", "--kv-group-size", "32", "--quantized-kv-start", "0")),
    "cache-adapted": ("llama", ("--adapter-path", "{adapter}")),
    "cache-eos": ("llama", ("--eos-token", "<|endoftext|>")),
    "cache-bounded": ("moe", ("--max-kv-size", "12")),
} | {f"cache-{kind}": (kind, ()) for kind in ("mamba", "spm", "moe", "sliding", "hybrid")}


@dataclass(frozen=True)
class Case:
    """One argv, its stdin, and what a clean message must match where upstream has a traceback."""

    line: str
    argv: tuple[str, ...]
    stdin: str | bytes | None
    names: str = ""

    @classmethod
    def parse(cls, line: str, names: str = "") -> "Case":
        """Read one line of a table."""
        args, found, literal = line.partition(_BREAK)
        return cls(line, tuple(shlex.split(args)), ast.literal_eval(literal) if found else None, names)


def agreeing(name: str = "cases.txt") -> list[Case]:
    """The cases of a table that holds one argv a line."""
    return [Case.parse(line) for line in _lines(name)]


def failing() -> list[Case]:
    """The cases of tracebacks.txt: an argv, and on the indented line below it a pattern."""
    return [Case.parse(argv, names) for argv, names in _pairs("tracebacks.txt")]


def mended() -> list[tuple[Case, Case]]:
    """The cases of mended.txt: an argv of ours, and on the indented line below it the one that upstream is given."""
    return [(Case.parse(ours), Case.parse(theirs)) for ours, theirs in _pairs("mended.txt")]


def _pairs(name: str) -> list[tuple[str, str]]:
    lines = _lines(name)
    pairs = list(zip(lines[::2], lines[1::2], strict=True))
    assert all(not above.startswith(" ") and below.startswith("    ") for above, below in pairs)
    return [(above, below.strip()) for above, below in pairs]


def _lines(name: str) -> list[str]:
    text = (HERE / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


class Files:
    """Finds or makes what a placeholder stands for; workers of one run share the folder."""

    def __init__(
        self, tiny: Callable[[str], str], maker: Forked, given: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """maker: mlx_lm.cache_prompt. given: paths of placeholders that only some tests have."""
        self._tiny = tiny
        self._maker = maker
        self._given = given
        self._root = Path(tiny("llama")).parent.parent / "parity"

    def fill(self, argument: str) -> str:
        """An argument with its placeholders replaced by paths."""
        return _PLACEHOLDER.sub(lambda found: self.path(found[1]), argument)

    def path(self, name: str) -> str:
        """The path that {name} stands for."""
        if name in self._given:
            return self._given[name]
        if name in (*KINDS, "adapter"):
            return self._tiny(name)
        if name == "file-weights":
            return str(Path(self._tiny("llama"), "model.safetensors"))
        if name == "file-empty":
            return self._made("empty", lambda path: path.mkdir())
        if name == "file-text":
            return self._made("notes.txt", lambda path: path.write_text("neither a model nor a cache\n"))
        if name == "file-truncated":
            return self._made("truncated.safetensors", self._truncate)
        if name == "file-draft":
            return self._made("draft", self._shrink)
        return self._made(f"{name}.safetensors", lambda path: self._cache(*CACHES[name], path))

    def _made(self, name: str, make: Callable[[Path], object]) -> str:
        """Make it aside and rename it, so that no worker sees half of it."""
        target = self._root / name
        if not target.exists():
            self._root.mkdir(parents=True, exist_ok=True)
            aside = Path(tempfile.mkdtemp(dir=self._root)) / name
            make(aside)
            aside.rename(target)
        return str(target)

    def _cache(self, kind: str, options: tuple[str, ...], path: Path) -> None:
        told = [self.fill(option) for option in options]
        done = self._maker("--model", self._tiny(kind), "--prompt", STORY, "--prompt-cache-file", str(path), *told)
        assert done.code == 0, done.err

    def _truncate(self, path: Path) -> None:
        data = Path(self.path("cache-llama")).read_bytes()
        path.write_bytes(data[: len(data) // 2])

    def _shrink(self, path: Path) -> None:
        """A draft model whose tokenizer lacks the last token, and with it the last merge."""
        shutil.copytree(self._tiny("llama-draft"), path)
        file = path / "tokenizer.json"
        tokenizer = json.loads(file.read_text(encoding="utf-8"))
        vocabulary = tokenizer["model"]["vocab"]
        del vocabulary[max(vocabulary, key=vocabulary.get)]
        del tokenizer["model"]["merges"][-1]
        file.write_text(json.dumps(tokenizer), encoding="utf-8")


def masked(stdout: str) -> str:
    """Forked's layout with its rates and memory struck out; counts stay."""
    return _FIGURES.sub(r"\1N\2N\3N\4", stdout)
