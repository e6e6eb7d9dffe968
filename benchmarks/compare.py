"""mlxctl beside mlx_lm, in one run: the same work by both programs, in pairs that take turns to begin.

Seconds are those of whole processes, rates those that the programs tell. A ratio is upstream / mlxctl for seconds, and
mlxctl / upstream for rates: above 1, mlxctl is ahead. Peak memory is that of the process. Prints a Markdown table;
--json FILE writes all that was measured.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter

from demo_model import demo_folder

BIN = Path(sys.executable).parent
UPSTREAM_RATE = re.compile(r"Generation: \d+ tokens, ([\d.]+) tokens-per-sec")
LONG = "The harbour opens at seven in the morning and the ferries leave every half hour until midnight. " * 26
SHORT = "What is the capital of France?"


@dataclass
class Run:
    """One process: what it took, and what it wrote."""

    seconds: float
    peak_gb: float
    out: str
    err: str


@dataclass
class Case:
    """The same work, as each program is asked for it. rate: compare what they tell rather than seconds."""

    name: str
    upstream: list[str]
    ours: list[str]
    rate: bool = False
    env: dict[str, str] = field(default_factory=dict)
    fails: bool = False  # a usage error, whose status is not 0


@dataclass
class Measured:
    """Medians of a case."""

    name: str
    unit: str
    upstream: float
    ours: float
    ratio: float
    upstream_peak_gb: float
    ours_peak_gb: float


def run(command: list[str], env: dict[str, str], *, fails: bool) -> Run:
    """Run a program of this environment to its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = perf_counter()
        process = subprocess.Popen([str(BIN / command[0]), *command[1:]], env=env, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=err)  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        seconds = perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    if (process.returncode == 0) == fails:
        raise SystemExit(f"{' '.join(command)} exits with {process.returncode}: {texts[1][-500:]}")
    scale = 1e9 if sys.platform == "darwin" else 1e6  # bytes there, kilobytes elsewhere
    return Run(seconds, usage.ru_maxrss / scale, *texts)


def upstream_rate(done: Run) -> float:
    """Tokens a second, as mlx_lm.generate prints them."""
    found = UPSTREAM_RATE.search(done.out)
    if found is None:
        raise SystemExit(f"mlx_lm.generate tells no rate: {done.out[-300:]}")
    return float(found[1])


def our_rate(done: Run) -> float:
    """Tokens a second, of the run object."""
    return float(json.loads(done.out)["timing"]["generation_tps"])


def measure(case: Case, pairs: int, env: dict[str, str]) -> Measured:
    """Run a case in pairs."""
    seconds: Callable[[Run], float] = lambda done: done.seconds  # noqa: E731 it stands beside the two rates
    values = (upstream_rate, our_rate) if case.rate else (seconds, seconds)
    both: list[tuple[Run, Run]] = []
    for number in range(pairs):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        done: dict[int, Run] = {}
        for which in order:
            command = (case.upstream, case.ours)[which]
            done[which] = run(command, {**env, **case.env}, fails=case.fails)
        both.append((done[0], done[1]))
    theirs, ours = (median(value(pair[which]) for pair in both) for which, value in enumerate(values))
    ratios = [values[0](pair[0]) / values[1](pair[1]) for pair in both]
    ratio = median(1 / one for one in ratios) if case.rate else median(ratios)
    peaks = [median(pair[which].peak_gb for pair in both) for which in (0, 1)]
    return Measured(case.name, "tok/s" if case.rate else "s", theirs, ours, ratio, *peaks)


def cases(folder: Path, env: dict[str, str]) -> list[Case]:
    """What is compared. Makes the models and the caches that it needs."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    import models

    from mlxctl.engine import demo

    tiny = str(models.build("llama", folder))
    single = str(demo_folder(folder / "float32"))
    stored = str(demo.ensure("smollm2-135m", lambda message: print(message, file=sys.stderr)))
    theirs, ours = str(folder / "prefix.safetensors"), "compared"
    run(["mlx_lm.cache_prompt", "--model", single, "--prompt", LONG, "--prompt-cache-file", theirs], env, fails=False)
    run(["mlxctl", "cache", "save", ours, "--model", single, LONG], env, fails=False)

    def generate(model: str, prompt: str, tokens: int, *more: str) -> list[str]:
        return [
            "mlx_lm.generate",
            "--model",
            model,
            "--prompt",
            prompt,
            "--max-tokens",
            str(tokens),
            "--temp",
            "0",
            *more,
        ]

    def ask(model: str, prompt: str, tokens: int, *more: str) -> list[str]:
        return ["mlxctl", "run", "--model", model, "--max-tokens", str(tokens), "--temp", "0", "--format", "json",
                "--no-log", *more, prompt]  # fmt: skip

    off, poem = {"MLXCTL_BLAS": "off"}, "Write a long poem about the sea."
    native = ask(single, poem, 60, "--dtype", "native")
    return [
        Case("help", ["mlx_lm.generate", "--help"], ["mlxctl", "run", "--help"]),
        Case("usage error", ["mlx_lm.generate", "--tmp", "1"], ["mlxctl", "run", "--tmp", "1", "hi"], fails=True),
        Case("one-liner, tiny model", generate(tiny, "hi", 10), ask(tiny, "hi", 10)),
        Case("short answer, float32 scales", generate(single, SHORT, 20), ask(single, SHORT, 20)),
        Case("500-token prompt", generate(single, LONG, 5), ask(single, LONG, 5)),
        Case("500 tokens from a cache", generate(single, SHORT, 10, "--prompt-cache-file", theirs),
             ask(single, SHORT, 10, "--cache", ours)),
        Case("decode 200 tokens", generate(single, poem, 200), ask(single, poem, 200), rate=True),
        Case("decode without the BLAS", generate(single, poem, 60), native, rate=True, env=off),
        Case("decode, half-precision scales", generate(stored, poem, 6), ask(stored, poem, 30), rate=True),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="cases with one of these words in their names")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "XDG_STATE_HOME": folder, "XDG_CACHE_HOME": folder}
        found = []
        print("| case | mlx_lm | mlxctl | ratio | peak, mlx_lm | peak, mlxctl | ratio |\n|---|---|---|---|---|---|---|")
        for case in cases(Path(folder), env):
            if asked.only and not any(word in case.name for word in asked.only):
                continue
            one = measure(case, asked.pairs, env)
            found.append(one)
            print(f"| {one.name} | {one.upstream:.2f} {one.unit} | {one.ours:.2f} {one.unit} | {one.ratio:.2f} | "
                  f"{one.upstream_peak_gb:.2f} GB | {one.ours_peak_gb:.2f} GB | "
                  f"{one.ours_peak_gb / one.upstream_peak_gb:.2f} |", flush=True)  # fmt: skip
    if asked.json is not None:
        report = {"schema": "mlxctl.compare/1", "pairs": asked.pairs, "cases": list(map(asdict, found))}
        asked.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
