"""What a cache file says of the state that it holds, and whether a run can use it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from mlxctl.events import Message
from mlxctl.profiles import Resolved
from mlxctl.rules import TEMPLATE_KEYWORDS
from mlxctl.settings import KV, Model, Settings

if TYPE_CHECKING:
    from mlxctl.engine.engine import Engine
    from mlxctl.engine.kv import Prefix

VERSION = 1
NO_CHECKSUM = "0" * 64

_OTHER = {
    "model": "other weights", "tokenizer": "another tokenizer", "adapter": "another adapter, or none",
    "draft": "another draft model, or none", "dtype": "another --dtype",
    "quantize_activations": "another --quantize-activations", "layers": "other layers",
}  # fmt: skip


class Part(msgspec.Struct, frozen=True):
    """A part of the last message's text: where it came from, and how many characters it has."""

    name: str
    characters: int


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says of the state it holds.

    ids: the tokens. messages: the beginning of a conversation; the last text of the user is open to go on. parts: what
    that text is made of. template, template_hash: arguments and text of the chat template. made_with: the model as it
    was asked for; upstream_model: as mlx_lm is to find it. identity: what it depends on (`identity.of_engine`).
    created: ISO 8601. complete: the tokens reach to the end of the text, so that mlx_lm.generate can go on from there.
    """

    checksum: str = NO_CHECKSUM
    version: int = VERSION
    ids: list[int]
    messages: list[Message]
    parts: list[Part] = []
    template: dict[str, Any] = {}
    template_hash: str | None = None
    ignore_chat_template: bool = False
    kv: KV = KV()
    made_with: Model
    upstream_model: str
    identity: dict[str, Any]
    created: str
    complete: bool
    versions: dict[str, str] = {}


def describe(engine: "Engine", identity: Mapping[str, Any], prefix: "Prefix", messages: Sequence[Message],
             settings: Settings, parts: Sequence[tuple[str, str]] = ()) -> Meta:  # fmt: skip
    """What a file is to say of the state it holds. parts: (name, text) of what the last message's text is made of."""
    from mlxctl.engine import device

    return Meta(
        ids=[*prefix.ids],
        messages=list(messages),
        parts=[Part(name, len(text.rstrip("\n")) + 2) for name, text in parts],
        template=settings.template_arguments,
        template_hash=engine.template_hash(),
        ignore_chat_template=settings.prompt.ignore_chat_template,
        kv=settings.kv,
        made_with=settings.model,
        upstream_model=str(engine.folders[0]) if settings.model_id.startswith("builtin:") else settings.model_id,
        identity=dict(identity),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        complete=bool(messages) and engine.open_turn(messages).ids == prefix.ids,
        versions=device.versions(),
    )


def misfit(meta: Meta, identity: Mapping[str, Any], settings: Settings) -> str | None:
    """Why a cache cannot serve a run of this model with these settings, in words; None when it can."""
    for name, words in _OTHER.items():
        if meta.identity.get(name) != identity[name]:
            made_by = f" ({meta.made_with.path or meta.upstream_model})" if name == "model" else ""
            return f"it was made with {words}{made_by}"
    for name in ("kv_bits", "kv_group_size", "quantized_kv_start", "max_kv_size"):
        stored, asked = getattr(meta.kv, name), getattr(settings.kv, name)
        matters = name in ("kv_bits", "max_kv_size") or meta.kv.kv_bits is not None
        if matters and stored != asked:
            return f"it was made with {name} {stored}, not {asked}"
    return None


def filled_in(resolved: Resolved, meta: Meta) -> Settings:
    """Settings where what nobody has set is as the cache was made."""
    settings = resolved.settings

    def unset(section: str, stored: msgspec.Struct) -> dict[str, Any]:
        names = [name for name in stored.__struct_fields__ if resolved.values[f"{section}.{name}"].layer == "default"]
        return {name: getattr(stored, name) for name in names}

    asked = {**unset("model", meta.made_with), "trust_remote_code": settings.model.trust_remote_code}
    model = msgspec.structs.replace(settings.model, **asked)  # no file lets a model run code of its own
    kv = msgspec.structs.replace(settings.kv, **unset("kv", meta.kv))
    bare = settings.prompt.ignore_chat_template or meta.ignore_chat_template
    prompt = msgspec.structs.replace(settings.prompt, ignore_chat_template=bare)
    # What only the file names is not fetched for it.
    named_there = any(
        getattr(model, name) != getattr(settings.model, name) for name in ("path", "revision", "draft_model")
    )
    offline = settings.request.offline or named_there
    request = msgspec.structs.replace(settings.request, prompt_cache_file=None, offline=offline)
    return msgspec.structs.replace(settings, model=model, kv=kv, prompt=prompt, request=request,
                                   template={**_plain(meta.template), **settings.template})  # fmt: skip


def _plain(template: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a template that a file may set: not the template itself, nor what a model is told it can do."""
    return {name: value for name, value in template.items() if name not in TEMPLATE_KEYWORDS}
