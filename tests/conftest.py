"""Sealed ways to run the program, and models to run it on."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import models
from forked import Server

hypothesis.settings.register_profile("sealed", derandomize=True, database=None)  # the same cases every time
hypothesis.settings.load_profile("sealed")
REPO = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
XDG = ("CONFIG", "CACHE", "STATE", "DATA")
KEPT = ("PATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH")  # of the caller's environment


@dataclass(frozen=True)
class Result:
    """What a program left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Path of a tiny random model by its kind (tests/models.py); built when first asked for."""
    # Workers of one run share the folder; a model is built aside and renamed.
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "tiny"
    return lambda kind: str(models.adapter(root) if kind == "adapter" else models.build(kind, root))


@pytest.fixture
def wide(tiny: Callable[[str], str], tmp_path: Path) -> str:
    """A tiny model whose context has room for a prompt that takes long to read."""
    shutil.copytree(tiny("llama"), tmp_path / "wide")
    config = json.loads((tmp_path / "wide" / "config.json").read_text())
    (tmp_path / "wide" / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 20_000}))
    return str(tmp_path / "wide")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test does in its own process finds, and leaves, nothing of whoever runs it."""
    for name in XDG:
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "own" / name.lower()))
    monkeypatch.setenv("MLXCTL_BLAS", "off")


@pytest.fixture
def sealed(tmp_path: Path) -> dict[str, str]:
    """An environment of its own: no home, no configuration, no network."""
    return seal(tmp_path)


def seal(folder: Path) -> dict[str, str]:
    """The environment, with its home in a folder."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    home = folder / "home"
    home.mkdir()
    xdg = {f"XDG_{name}_HOME": str(home / name.lower()) for name in XDG}
    return {
        **kept,
        **xdg,
        "HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "MLXCTL_BLAS": "off",  # it changes the last digits, and not every machine has one
        "TERM": "xterm",
        "PYTHONUTF8": "0",
        "LC_ALL": "C.UTF-8",
    }


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """An empty working directory, with a .git so that no profile is looked for above it."""
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    return folder


class Program:
    """Runs an installed program in the sealed environment and the empty working directory."""

    def __init__(self, name: str, env: Mapping[str, str], cwd: Path) -> None:
        self.path = str(BIN / name)
        self.env = dict(env)
        self.cwd = cwd

    def __call__(
        self, *args: str, input: str | bytes | None = None, env: Mapping[str, str] | None = None, timeout: float = 120
    ) -> Result:
        """Run to the end. input None: stdin is /dev/null."""
        data = input.encode() if isinstance(input, str) else input
        stdin: dict[str, object] = {"stdin": subprocess.DEVNULL} if data is None else {"input": data}
        done = subprocess.run(
            [self.path, *args], capture_output=True, env={**self.env, **(env or {})}, cwd=self.cwd, timeout=timeout,
            check=False, **stdin,  # type: ignore[call-overload]
        )  # fmt: skip
        return Result(
            done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode(errors="replace")
        )

    def popen(self, *args: str, env: Mapping[str, str] | None = None, **kwargs: object) -> subprocess.Popen[bytes]:
        """Start it with streams of the caller's choice."""
        command: Sequence[str] = [self.path, *args]
        return subprocess.Popen(command, env={**self.env, **(env or {})}, cwd=self.cwd, **kwargs)  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def mlxctl(request: pytest.FixtureRequest, sealed: dict[str, str], work: Path) -> Program:
    """The program under test. Tests in cli/ are about what a run does, and not about how its process starts."""
    if request.path.parent.name == "cli":
        return Quick(sealed, work, request.getfixturevalue("server"))
    return Program("mlxctl", sealed, work)


class Forked:
    """A real program, run by a server that has imported it already."""

    def __init__(self, name: str, server: Server, cwd: Path) -> None:
        self.server = server
        self.cwd = cwd
        self._name = name

    def __call__(self, *args: str, input: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Result:
        """Run to the end. input None: stdin is empty."""
        data = input.encode() if isinstance(input, str) else input or b""
        code, out, err = self.server.run(self._name, args, data, self.cwd, env or {})
        return Result(code, out.decode(errors="surrogateescape"), err.decode(errors="replace"))


class Quick(Program):
    """The program under test, run by a server that has imported what it needs: for tests of many runs.

    A variable that matters when a process starts, or a library is imported, starts the real one.
    """

    _AT_START = ("HF_", "LANG", "LC_", "MLX_", "MLXCTL_BLAS", "PYTHON", "TMPDIR", "TZ")

    def __init__(self, env: Mapping[str, str], cwd: Path, server: Server) -> None:
        super().__init__("mlxctl", env, cwd)
        self._server = server

    def __call__(
        self, *args: str, input: str | bytes | None = None, env: Mapping[str, str] | None = None, timeout: float = 120
    ) -> Result:
        if any(name.startswith(self._AT_START) for name in env or {}):
            return super().__call__(*args, input=input, env=env, timeout=timeout)
        data = input.encode() if isinstance(input, str) else input
        code, out, err = self._server.run("mlxctl", args, data, self.cwd, {**self.env, **(env or {})})
        return Result(code, out.decode(errors="surrogateescape"), err.decode(errors="replace"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of programs, in a sealed environment."""
    server = Server(seal(tmp_path_factory.mktemp("server")))
    yield server
    server.close()


@pytest.fixture
def upstream(server: Server, work: Path) -> Forked:
    """mlx_lm.generate, the oracle."""
    return Forked("mlx_lm.generate", server, work)


@pytest.fixture(scope="session")
def demo_cache() -> Path:
    """A cache directory that holds the real demo model, made once and kept for later runs."""
    from mlxctl.engine import demo

    folder = Path(
        os.environ.get("MLXCTL_TEST_CACHE") or Path(tempfile.gettempdir()) / f"mlxctl-test-cache-{os.getuid()}"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        demo.ensure("smollm2-135m", print)
    return folder


@pytest.fixture(scope="session")
def demo_dir(demo_cache: Path) -> Path:
    """The folder of the real demo model."""
    (config,) = (demo_cache / "mlxctl" / "models").glob("smollm2-135m-*/config.json")
    return config.parent


@pytest.fixture
def demo_env(sealed: dict[str, str], demo_cache: Path) -> dict[str, str]:
    """The sealed environment, in which the demo model is already made."""
    return {**sealed, "XDG_CACHE_HOME": str(demo_cache)}
