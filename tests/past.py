"""Histories for tests: runs of figures that can be checked in the head."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mlxctl.events import ModelInfo, Timing
from mlxctl.history import store
from mlxctl.history.record import Receipt, Run, Setting

NOON = 1_780_315_200.0  # 2026-06-01 12:00 UTC
VERSIONS = {"mlxctl": "0.1.0", "mlx": "0.32.4", "mlx-lm": "0.32.2"}
FIGURES: dict[str, Any] = {
    "load_s": 2.0, "ttft_s": 0.5, "prompt_tokens": 100, "cached_tokens": 0, "prefill_tokens": 100, "prompt_tps": 200.0,
    "generation_tokens": 50, "generation_tps": 20.0, "decode_s": 2.45, "total_s": 5.0, "peak_memory_gb": 1.0,
    "kv_bytes": 1000, "kv_layers": 2, "kv_layers_quantized": 0, "bytes_per_token": 1_000_000_000, "ceiling_tps": 40.0,
}  # fmt: skip


def add(
    env: Mapping[str, str], *, model: str = "org/one", profile: str | None = None, command: str = "run",
    reason: str | None = "stop", at: float = NOON, **figures: Any,
) -> int:  # fmt: skip
    """Put a run in the history of an environment; return its number. figures: what differs from FIGURES."""
    stop = {"stop": {"kind": "eos", "token_id": 2, "token": "</s>"}, "length": {"kind": "length", "max_tokens": 50}}
    run = Run(
        finish_reason=reason, stop=stop.get(reason or ""), profile=profile,
        model=ModelInfo(model, "/models/one", None, "sha256:0123", "bfloat16"), seed=7 if reason else None,
        timing=Timing(**{**FIGURES, **figures}), versions=VERSIONS, device="gpu (Apple M2 Max)",
    )  # fmt: skip
    settings = {"model.path": Setting("flag --model", model), "sampler.temp": Setting("default", 0.0),
                "prompt.system": Setting("/p/review.toml:4")}  # fmt: skip
    made_by = Receipt(settings=settings, prompt_hash="sha256:aa", answer_hash="sha256:bb" if reason else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", env["XDG_STATE_HOME"])
        number = store.append(command, model, run, made_by)
    with sqlite3.connect(file(env)) as db:
        db.execute("UPDATE runs SET at = ? WHERE id = ?", (at, number))
    db.close()
    return number


def file(env: Mapping[str, str]) -> Path:
    """The history's file."""
    return Path(env["XDG_STATE_HOME"]) / "mlxctl" / "history.db"


def rows(env: Mapping[str, str]) -> list[dict[str, Any]]:
    """All runs, read without the program's help."""
    import json

    with sqlite3.connect(file(env)) as db:
        db.row_factory = sqlite3.Row
        found = [dict(row) for row in db.execute("SELECT * FROM runs ORDER BY id")]
    db.close()
    return [{**row, "run": json.loads(row["run"]), "receipt": json.loads(row["receipt"])} for row in found]
