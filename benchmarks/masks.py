"""What holding an answer to a grammar costs: the decode rate with and without one, on the demo model, in pairs.

The grammar allows any text of a JSON string, so that both generate as many tokens.
"""

import argparse
import os
import tempfile
from pathlib import Path
from statistics import median

import msgspec
from demo_model import demo_folder

from mlxctl import Engine, Settings
from mlxctl.events import Done
from mlxctl.settings import Generation, Model

SCHEMA = '{"type": "array", "items": {"type": "string", "minLength": 40}, "minItems": 30}'
ASK = [{"role": "user", "content": "Tell a long story about a river, as a JSON list of sentences."}]


def rate(engine: Engine, generation: Generation) -> float:
    *_, done = engine.stream(ASK, settings=msgspec.structs.replace(engine.settings, generation=generation))
    if not isinstance(done, Done) or done.timing.generation_tps is None:
        raise SystemExit("the answer has no rate")
    return done.timing.generation_tps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=60)
    asked = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    free, held = Generation(max_tokens=asked.tokens), Generation(max_tokens=asked.tokens, json_schema=SCHEMA)
    print("| pair | free (tok/s) | held to a schema (tok/s) | ratio |\n|---|---|---|---|")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine.load(Settings(model=Model(path=str(demo_folder(Path(folder) / "model")))))
        rate(engine, Generation(max_tokens=4, json_schema=SCHEMA))  # the vocabulary is read once
        for number in range(1, asked.pairs + 1):
            order = (free, held) if number % 2 else (held, free)
            rates = {id(generation): rate(engine, generation) for generation in order}
            ratios.append(rates[id(held)] / rates[id(free)])
            print(f"| {number} | {rates[id(free)]:.2f} | {rates[id(held)]:.2f} | {ratios[-1]:.3f} |", flush=True)
    print(f"\nMedian of the ratios: {median(ratios):.3f}")


if __name__ == "__main__":
    main()
