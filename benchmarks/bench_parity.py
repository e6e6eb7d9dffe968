"""The figures of `mlxctl bench` beside those of `mlx_lm.benchmark`, on the demo model, in one run.

Interleaved rounds. mlx_lm.benchmark generates behind its prompt and counts one token more than intervals; so ours is
asked for the same depth, and theirs is brought to tokens over intervals before they are compared.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median, stdev

from demo_model import demo_folder

BIN = Path(sys.executable).parent


def upstream(env: dict[str, str], model: str, prompt: int, generate: int, trials: int) -> list[tuple[float, float]]:
    """(prompt, generation) rates of each trial of mlx_lm.benchmark."""
    args = ["-m", "mlx_lm", "benchmark", "--model", model, "-p", str(prompt), "-g", str(generate), "-n", str(trials)]
    done = subprocess.run([sys.executable, *args], env=env, capture_output=True, text=True, check=True)
    found = re.findall(r"Trial \d+:.*?prompt_tps=([\d.]+).*?generation_tps=([\d.]+)", done.stdout)
    return [(float(first), float(second) * (generate - 1) / generate) for first, second in found]


def ours(env: dict[str, str], model: str, *args: str) -> list[float]:
    """The rates of each repetition of the one test of a bench."""
    command = [BIN / "mlxctl", "bench", "--model", model, "-o", "json", "--no-log", *args]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    samples: list[float] = json.loads(done.stdout)[0]["samples_ts"]
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-p", "--prompt", type=int, default=64)
    parser.add_argument("-n", "--generate", type=int, default=48)
    parser.add_argument("-r", "--repetitions", type=int, default=3)
    asked = parser.parse_args()
    prompt, generate, times = str(asked.prompt), str(asked.generate), str(asked.repetitions)
    theirs_pp: list[float] = []
    theirs_tg: list[float] = []
    ours_pp: list[float] = []
    ours_tg: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "HF_HUB_OFFLINE": "1"}
        model = str(demo_folder(Path(folder) / "model"))
        for _ in range(asked.rounds):
            pairs = upstream(env, model, asked.prompt, asked.generate, asked.repetitions)
            theirs_pp += [first for first, _ in pairs]
            theirs_tg += [second for _, second in pairs]
            ours_pp += ours(env, model, "-p", prompt, "-n", "0", "-r", times)
            ours_tg += ours(env, model, "-p", "0", "-n", generate, "-d", prompt, "-r", times)
    print("| test | mlx_lm.benchmark (tok/s) | mlxctl bench (tok/s) | ratio of medians |\n|---|---|---|---|")
    for name, theirs, mine in ((f"pp{prompt}", theirs_pp, ours_pp), (f"tg{generate} @ d{prompt}", theirs_tg, ours_tg)):
        cells = (f"{median(one):.2f} (mean {mean(one):.2f} ± {stdev(one):.2f})" for one in (theirs, mine))
        print(f"| {name} | {' | '.join(cells)} | {median(mine) / median(theirs):.3f} |")


if __name__ == "__main__":
    main()
