"""The model that benchmarks measure."""

import shutil
import sys
from pathlib import Path
from typing import Any


def demo_folder(made: Path) -> Path:
    """The demo model with all its numbers in float32, as `mlxctl` computes on a CPU; mlx_lm would take what is stored,
    which is float16 and many times slower there. So both do the same work."""
    import mlx.core as mx

    from mlxctl.engine import demo

    folder = demo.ensure("smollm2-135m", lambda message: print(message, file=sys.stderr))
    shutil.copytree(folder, made, ignore=shutil.ignore_patterns("*.safetensors"))
    for path in folder.glob("*.safetensors"):
        stored: Any = mx.load(str(path))
        single = {k: v.astype(mx.float32) if mx.issubdtype(v.dtype, mx.floating) else v for k, v in stored.items()}
        mx.save_safetensors(str(made / path.name), single, {"format": "mlx"})
    return made
