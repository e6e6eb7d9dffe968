"""Importing transformers with half of the work: it reads all its files of models for what they define, twice."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def import_transformers() -> None:
    """Import what mlx-lm needs of transformers. What was read for the package serves for its part `models`, too: both
    ask for the same folder, by two names, of a function that keeps its answers."""
    if "transformers" in sys.modules:
        return
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # as mlx-lm sets it
    import transformers
    from transformers.utils import import_utils

    read: Callable[[Any], Any] | None = getattr(import_utils, "create_import_structure_from_path", None)
    if read is None or not hasattr(read, "cache_info"):
        return  # another version, which may do otherwise

    def read_once(path: Any) -> Any:
        return read(Path(path).parent if Path(path).name == "__init__.py" else path)

    import_utils.create_import_structure_from_path = read_once
    try:
        transformers.AutoTokenizer  # noqa: B018 this is what imports it
    finally:
        import_utils.create_import_structure_from_path = read
