"""Images in a prompt, for the models that take them."""

from typing import Any

from mlxctl.engine.prompt import Rendered
from mlxctl.errors import ModelError, UsageError
from mlxctl.settings import Settings


def takes_them(model: Any, config: dict[str, Any]) -> bool:
    """Whether the library can hand images to this model."""
    from mlx_lm.processors import load_processor

    return load_processor(model, config) is not None


def embed(
    model: Any, config: dict[str, Any], tokenizer: Any, rendered: Rendered, settings: Settings
) -> tuple[list[int], Any]:
    """Put the images of the settings into a rendered prompt: (token ids, input embeddings)."""
    import mlx.core as mx
    import numpy as np
    from mlx_lm.processors import load_processor

    processor = load_processor(model, config)
    if processor is None:
        raise ModelError(f"the model {settings.model_id} does not take images")
    try:
        from PIL import Image
    except ImportError:
        raise ModelError("images need the package Pillow", hint="pip install Pillow") from None
    try:
        images = [np.asarray(Image.open(path).convert("RGB")) for path in settings.request.image]
    except OSError as error:
        raise UsageError(f"--image: {error}") from error
    text, pixels = processor(rendered.text, images=images)
    ids = tokenizer.encode(text, add_special_tokens=not rendered.templated)
    embeddings = model.embed_inputs(mx.array(ids), pixel_values=pixels)
    mx.eval(embeddings)  # the prefill runs on another stream
    return ids, embeddings
