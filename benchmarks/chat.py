"""Whether a chat gets slower as it gets longer: from Enter to the first token, turn by turn, on the demo model.

Messages of one length, short answers. Prints each turn, and turn 10 beside turn 2; of several chats, medians.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MLXCTL = Path(sys.executable).parent / "mlxctl"
PAUSE_S = 1.0  # a person reads the answer; meanwhile the turn is saved


def chat(turns: int, env: dict[str, str]) -> list[float]:
    """Seconds from each question to the first byte of its answer."""
    command = [MLXCTL, "chat", "-P", "demo", "--max-tokens", "6", "--temp", "0", "--session", "benchmark"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    taken = []
    with subprocess.Popen(command, env=env, **pipes) as program:  # type: ignore[call-overload]
        for number in range(turns + 1):
            question = f"Say one more word about boat number {number:02}, please.\n".encode()
            started = time.perf_counter()
            program.stdin.write(question)
            program.stdin.flush()
            os.read(program.stdout.fileno(), 1)
            taken.append(time.perf_counter() - started)
            while b"cut at 6 tokens" not in (line := program.stderr.readline()) and line:
                pass
            os.read(program.stdout.fileno(), 1 << 16)  # the rest of the answer, which is all there by now
            time.sleep(PAUSE_S)
        program.stdin.close()
        program.stdout.read()
    return taken[1:]  # the first turn waits for the model to be loaded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chats", type=int, default=3)
    parser.add_argument("--turns", type=int, default=10)
    args = parser.parse_args()
    runs = []
    for _ in range(args.chats):
        with tempfile.TemporaryDirectory() as home:
            runs.append(chat(args.turns, {**os.environ, "XDG_DATA_HOME": home, "XDG_STATE_HOME": home}))
    medians = [statistics.median(times) for times in zip(*runs, strict=True)]
    print("| turn | from Enter to the first token (s) |\n|---|---|")
    for number, seconds in enumerate(medians, 1):
        print(f"| {number} | {seconds:.2f} |")
    print(f"\nTurn {args.turns} took {medians[-1] / medians[1]:.2f} times as long as turn 2.")


if __name__ == "__main__":
    main()
