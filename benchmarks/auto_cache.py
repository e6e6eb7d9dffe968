"""What --auto-cache saves: time from the command to its first token, beside `mlx_lm.generate`, on the demo model.

A system prompt of some 500 tokens, one token generated, so that the time of the whole command is the time to the first
token. Interleaved rounds, medians. The first of our runs with the cache fills it and is shown apart.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from demo_model import demo_folder

BIN = Path(sys.executable).parent
SYSTEM = "You review changes. " + " ".join(
    f"Rule {n}: say what is wrong, where it is, and what to do about it, in one line." for n in range(1, 25)
)


def seconds(env: dict[str, str], program: str, *args: str) -> float:
    """Wall time of one run that must succeed."""
    started = time.perf_counter()
    subprocess.run([BIN / program, *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as cache:
        folder = demo_folder(Path(cache) / "model")
        common = ("--model", str(folder), "--system-prompt", SYSTEM, "--max-tokens", "1", "--temp", "0")
        env = {**os.environ, "XDG_CACHE_HOME": cache, "HF_HUB_OFFLINE": "1"}
        first = seconds(env, "mlxctl", "run", *common, "--auto-cache", "-p", "Is this a rule?")
        times: dict[str, list[float]] = {"mlx_lm.generate": [], "mlxctl run": [], "mlxctl run --auto-cache": []}
        for number in range(rounds):
            question = ("-p", f"Is rule {number} a rule?")
            times["mlx_lm.generate"].append(seconds(env, "mlx_lm.generate", *common, *question))
            times["mlxctl run"].append(seconds(env, "mlxctl", "run", *common, *question))
            times["mlxctl run --auto-cache"].append(seconds(env, "mlxctl", "run", *common, "--auto-cache", *question))
    medians = {name: statistics.median(found) for name, found in times.items()}
    print("| command | to the first token (s) | ratio to mlx_lm.generate |\n|---|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {median:.2f} | {medians['mlx_lm.generate'] / median:.1f} |")
    print(f"\nThe run that filled the cache took {first:.2f} s.")


if __name__ == "__main__":
    main()
