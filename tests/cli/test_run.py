"""`mlxctl run`: the main job."""

import json
from collections.abc import Callable

from conftest import Program
from models import STOPPER_REPLY


def test_answer_alone_on_stdout(mlxctl: Program, tiny: Callable[[str], str]) -> None:
    done = mlxctl("run", "--model", tiny("stopper"), "hi")
    assert (done.code, done.out, done.err) == (0, STOPPER_REPLY + "\n", "")


def test_json_object(mlxctl: Program, tiny: Callable[[str], str]) -> None:
    done = mlxctl("run", "--model", tiny("stopper"), "hi", "--format", "json", "--seed", "5")
    run = json.loads(done.out)
    assert (done.code, run["schema"], run["text"], run["seed"]) == (0, "mlxctl.run/1", STOPPER_REPLY, 5)
    assert run["stop"] == {"kind": "eos", "token_id": 2, "token": "<|im_end|>"}
