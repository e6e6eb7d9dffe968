"""What a batch gains: many prompts answered together, beside one after the other in one process, and in a process each.

The demo model in float32, the same prompts and lengths.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from demo_model import demo_folder

BIN = Path(sys.executable).parent

LOOP = """
import json, sys, time
from mlxctl import Engine, Settings
from mlxctl.settings import Generation, Model

engine = Engine.load(Settings(model=Model(path=sys.argv[1]), generation=Generation(max_tokens=int(sys.argv[3]))))
started, tokens = time.perf_counter(), 0
for prompt in open(sys.argv[2]):
    *_, done = engine.stream([{"role": "user", "content": prompt.strip()}])
    tokens += done.timing.generation_tokens
print(json.dumps({"seconds": time.perf_counter() - started, "tokens": tokens}))
"""


def loop(env: dict[str, str], model: str, file: Path, tokens: int) -> tuple[float, int]:
    command = [sys.executable, "-c", LOOP, model, str(file), str(tokens)]
    done = json.loads(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    return float(done["seconds"]), int(done["tokens"])


def batch(env: dict[str, str], model: str, file: Path, tokens: int, size: int) -> tuple[float, int]:
    """Seconds as the program itself tells them, without loading."""
    command = [
        BIN / "mlxctl",
        "run",
        "--model",
        model,
        "--batch",
        str(file),
        "-m",
        str(tokens),
        "--batch-size",
        str(size),
    ]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    total = sum(json.loads(line)["timing"]["generation_tokens"] for line in done.stdout.splitlines())
    said = done.stderr.splitlines()[-1]
    return float(said.partition(" tokens in ")[2].partition(" s")[0]), total


def single(env: dict[str, str], model: str, prompt: str, tokens: int) -> float:
    command = [BIN / "mlxctl", "run", "--model", model, "-m", str(tokens), prompt]
    started = time.perf_counter()
    subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 16])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "XDG_STATE_HOME": folder}
        model, file = str(demo_folder(Path(folder) / "model")), Path(folder) / "prompts.txt"
        prompts = [f"Tell a short story about the number {number}." for number in range(asked.prompts)]
        file.write_text("\n".join(prompts) + "\n")
        seconds, tokens = loop(env, model, file, asked.tokens)
        print("| how | seconds | tok/s | ratio |\n|---|---|---|---|")
        print(f"| one after the other, one process | {seconds:.1f} | {tokens / seconds:.1f} | 1.00 |", flush=True)
        for size in asked.sizes:
            together, count = batch(env, model, file, asked.tokens, size)
            ratio = count / together / (tokens / seconds)
            print(f"| --batch-size {size} | {together:.1f} | {count / together:.1f} | {ratio:.2f} |", flush=True)
        each = single(env, model, prompts[0], asked.tokens)
        print(f"\nA process each takes some {each * asked.prompts:.0f} s: {each:.1f} s for one.")


if __name__ == "__main__":
    main()
