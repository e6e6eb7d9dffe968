"""Who may import what: the arrow of DESIGN points one way."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mlxctl

PACKAGE = Path(mlxctl.__file__).parent

# The layers of the package, the lowest first; a module may import from its own and lower ones.
LAYERS = [
    {"errors", "events", "settings", "_shipped"},
    {"options", "paths", "writing", "editor", "terminal", "texts", "grammars", "documents", "filling"},
    {"rules"},
    {"profiles", "engine"},
    {"output", "caches", "history"},
    {"chat", "doctor", "bench", "batch"},
    {"cli"},
]
ONLY_IN = {
    "click": "cli",
    "prompt_toolkit": "chat",
    "mlx": "engine",
    "mlx_lm": "engine",
    "transformers": "engine",
    "tokenizers": "engine",
}


def layer(module: str) -> int:
    """The number of the layer of "mlxctl.engine.kv"."""
    part = module.split(".")[1]
    return next(number for number, names in enumerate(LAYERS) if part in names)


def sources() -> list[Path]:
    """The modules inside a layer: all but the package's own two."""
    return [
        path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem not in ("__init__", "__main__")
    ]


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)


def name_of(path: Path) -> str:
    return ".".join(("mlxctl", *path.relative_to(PACKAGE).with_suffix("").parts))


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_imports_point_down(path: Path) -> None:
    own = layer(name_of(path))
    for module in imports(path):
        if module.startswith("mlxctl.") and not module.startswith("mlxctl.__version__"):
            assert layer(module) <= own, f"{name_of(path)} imports {module}"


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_libraries_stay_in_their_layer(path: Path) -> None:
    for module in imports(path):
        home = ONLY_IN.get(module.split(".")[0])
        assert home is None or name_of(path).startswith(f"mlxctl.{home}."), f"{name_of(path)} imports {module}"


def test_public_names() -> None:
    assert mlxctl.__all__ == ["Engine", "Settings", "load_profile"]
    assert all(getattr(mlxctl, name).__name__ == name for name in mlxctl.__all__)


def test_engine_without_click() -> None:
    code = "import sys, mlxctl; mlxctl.Engine; mlxctl.load_profile; sys.exit('click' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
