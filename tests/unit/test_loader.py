"""Finding models: what is fetched from the hub."""

from pathlib import Path
from typing import Any

import pytest

from mlxctl import options
from mlxctl.engine import loader


@pytest.mark.parametrize("weights", [True, False])
def test_what_is_fetched(weights: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights only for who loads them; all that a tokenizer may be made of in any case."""
    import mlx_lm.utils

    asked: dict[str, Any] = {}

    def download(repository: str, **kwargs: Any) -> str:
        asked.update(kwargs, repository=repository)
        return str(tmp_path)

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(mlx_lm.utils, "snapshot_download", download)
    settings = options.build({"model.path": "org/name"})
    with pytest.raises(loader.ModelError, match=r"no config\.json"):
        loader.open_source(settings, lambda text: None, weights=weights)
    assert asked["repository"] == "org/name" and asked["local_files_only"] is False
    assert any(name.endswith(".safetensors") for name in asked["allow_patterns"]) == weights
    assert {"*.json", "*.jinja", "tokenizer.model"} <= set(asked["allow_patterns"])
