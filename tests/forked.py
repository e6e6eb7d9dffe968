"""Real programs without paying for their imports each time.

A server imports mlx_lm and mlxctl once; for each request it forks, and the child runs the program's own `main` with the
argv, environment, folder and standard streams of the request, just as its console script does. One request is a line
of JSON on stdin, its answer the exit status on stdout.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

PROGRAMS = {
    "mlx_lm.generate": "mlx_lm.generate",
    "mlx_lm.cache_prompt": "mlx_lm.cache_prompt",
    "mlxctl": "mlxctl.__main__",
}


class Server:
    """Runs the programs; `close` it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(env)
        )

    def run(
        self, program: str, args: tuple[str, ...], data: bytes | None, cwd: Path, env: Mapping[str, str]
    ) -> tuple[int, bytes, bytes]:
        """(exit status, stdout, stderr) of `PROGRAM ARGS`; env is on top of the server's. data: on stdin, None: it is
        /dev/null."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
            if data is None:
                paths[0] = Path(os.devnull)
            else:
                paths[0].write_bytes(data)
            names = [str(path) for path in paths]
            request = {"program": program, "args": args, "cwd": str(cwd), "env": dict(env), "paths": names}
            assert self._process.stdin and self._process.stdout
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline()), paths[1].read_bytes(), paths[2].read_bytes()

    def close(self) -> None:
        self._process.communicate(timeout=10)


def serve() -> None:
    """Answer requests until stdin ends."""
    mains = {name: import_module(module).main for name, module in PROGRAMS.items()}
    import_module("mlxctl.cli.generate"), import_module("mlxctl.engine.engine")
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request, mains[request["program"]])
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(request: dict[str, Any], main: Any) -> None:
    """Be the program; does not return."""
    os.chdir(request["cwd"])
    os.environ.update(request["env"])
    for fd, (path, mode) in enumerate(zip(request["paths"], ("r", "w", "w"), strict=True)):
        os.dup2(os.open(path, os.O_RDONLY if mode == "r" else os.O_WRONLY | os.O_CREAT), fd)
    # As Python opens them: line ends stay as they are.
    sys.stdin, sys.stdout, sys.stderr = (open(fd, mode, newline="\n", closefd=False) for fd, mode in enumerate("rww"))
    sys.argv = [request["program"], *request["args"]]
    status = 1
    try:
        main()
        status = 0
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    serve()
