"""What a run costs over the library: the decode rate of `mlxctl run` beside a bare loop over `stream_generate`.

The demo model in float32, the same prompt, so many tokens each; pairs of processes, the first of a pair in turn. Both
rates are of the tokens after the first.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from demo_model import demo_folder

BIN = Path(sys.executable).parent
QUESTION = "Tell a long story about a river, from its spring to the sea, with all the towns it passes."

BARE = """
import sys, time
from mlx_lm import load, stream_generate

model, tokenizer = load(sys.argv[1])
tokenizer._eos_token_ids = set()
prompt = tokenizer.apply_chat_template([{"role": "user", "content": sys.argv[2]}], add_generation_prompt=True)
times = []
for _ in stream_generate(model, tokenizer, prompt, max_tokens=int(sys.argv[3])):
    times.append(time.perf_counter())
print((len(times) - 1) / (times[-1] - times[0]))
"""


def bare(env: dict[str, str], model: str, tokens: int) -> float:
    command = [sys.executable, "-c", BARE, model, QUESTION, str(tokens)]
    return float(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)


def ours(env: dict[str, str], model: str, tokens: int) -> float:
    """Both must generate as many: an answer that ends by itself is refused."""
    command = [BIN / "mlxctl", "run", "--model", model, QUESTION, "-m", str(tokens), "--temp", "0", "--stats", "json"]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    found = json.loads(done.stderr.splitlines()[-1])
    if found["timing"]["generation_tokens"] != tokens:
        raise SystemExit(f"the answer ended after {found['timing']['generation_tokens']} tokens: ask for fewer")
    return float(found["timing"]["generation_tps"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=100)
    asked = parser.parse_args()
    ratios = []
    print("| pair | stream_generate (tok/s) | mlxctl run (tok/s) | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "XDG_STATE_HOME": folder}
        model = str(demo_folder(Path(folder) / "model"))
        for number in range(1, asked.pairs + 1):
            order = (bare, ours) if number % 2 else (ours, bare)
            rates = {measure.__name__: measure(env, model, asked.tokens) for measure in order}
            ratios.append(rates["ours"] / rates["bare"])
            print(f"| {number} | {rates['bare']:.2f} | {rates['ours']:.2f} | {ratios[-1]:.3f} |", flush=True)
    print(f"\nMedian of the ratios: {median(ratios):.3f}")


if __name__ == "__main__":
    main()
