"""How long it takes until nothing has happened: --help and a usage error, beside `mlx_lm.generate --help`.

Pairs are interleaved and medians compared, because machines are noisy. Prints seconds and the ratio upstream / ours.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent
UPSTREAM = ("mlx_lm.generate", "--help")
OURS = {
    "help": ("mlxctl", "--help"),
    "run --help": ("mlxctl", "run", "--help"),
    "usage error": ("mlxctl", "run", "--tmp", "1", "hi"),
    "value out of range": ("mlxctl", "run", "--temp", "-1", "hi"),
}


def seconds(program: str, *args: str) -> float:
    """Wall time of one run."""
    started = time.perf_counter()
    subprocess.run([BIN / program, *args], capture_output=True, check=False)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=11)
    pairs = parser.parse_args().pairs
    print("| case | mlx_lm.generate --help (s) | mlxctl (s) | ratio |\n|---|---|---|---|")
    for name, command in OURS.items():
        both = [(seconds(*UPSTREAM), seconds(*command)) for _ in range(pairs)]
        theirs, ours = (statistics.median(column) for column in zip(*both, strict=True))
        print(f"| {name} | {theirs:.3f} | {ours:.3f} | {theirs / ours:.1f} |")


if __name__ == "__main__":
    main()
