"""What a cache file says of the state that it holds, and whether a run can use it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mlxctl import paths
from mlxctl.engine.kv import shaping
from mlxctl.events import Message
from mlxctl.profiles import Resolved
from mlxctl.rules import TEMPLATE_KEYWORDS
from mlxctl.settings import KV, Model, Settings
from mlxctl.texts import before

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


class Piece(NamedTuple):
    """A part of a prompt's text: what it is called, and its file in full where it is one."""

    name: str
    text: str
    path: str | None = None


class Part(msgspec.Struct, frozen=True):
    """A piece as it lies in a message, with as many characters, the blank line after it included."""

    name: str
    characters: int
    path: str | None = None


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says of the state it holds.

    ids: the tokens. messages: the beginning of a conversation; the last text of the user is open to go on. parts: what
    the message number `parts_of` begins with. template, template_hash: arguments and text of the chat template.
    made_with: the model as it was asked for; upstream_model: as mlx_lm is to find it. identity: what it depends on
    (`identity.of_engine`). created: ISO 8601. complete: the tokens reach to the end of the text, so that
    mlx_lm.generate can go on from there.
    """

    checksum: str = NO_CHECKSUM
    version: int = VERSION
    ids: list[int]
    messages: list[Message]
    parts: list[Part] = []
    parts_of: int = 0
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
             settings: Settings, parts: Sequence[Part] = (), parts_of: int = 0) -> Meta:  # fmt: skip
    """What a file is to say of the state it holds. parts: of the message of the number `parts_of`."""
    from mlxctl.engine import device

    return Meta(
        ids=[*prefix.ids],
        messages=list(messages),
        parts=list(parts),
        parts_of=parts_of,
        template=settings.template_arguments,
        template_hash=engine.template_hash(),
        ignore_chat_template=settings.prompt.ignore_chat_template,
        kv=settings.kv,
        made_with=_from_anywhere(settings.model),
        upstream_model=_upstream_name(engine, settings),
        identity=dict(identity),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        complete=bool(messages) and engine.open_turn(messages, settings).ids == prefix.ids,
        versions=device.versions(),
    )


def as_parts(pieces: Iterable[Piece]) -> list[Part]:
    """Pieces of a text as they lie in it."""
    return [Part(piece.name, len(before(piece.text)), piece.path) for piece in pieces]


def _from_anywhere(model: Model) -> Model:
    """The same model whatever the working directory is."""
    named = {name: getattr(model, name) for name in ("path", "adapter_path", "draft_model")}
    local = {name: path for name, path in named.items() if path is not None and paths.is_dir(paths.expand(path))}
    return msgspec.structs.replace(model, **{name: str(paths.absolute(path)) for name, path in local.items()})


def _upstream_name(engine: "Engine", settings: Settings) -> str:
    name = settings.model_id
    local = name.startswith("builtin:") or paths.is_dir(paths.expand(name))
    return str(paths.absolute(str(engine.folders[0]))) if local else name


def misfit(meta: Meta, identity: Mapping[str, Any], settings: Settings) -> str | None:
    """Why a cache cannot serve a run of this model with these settings, in words; None when it can."""
    for name, words in _OTHER.items():
        if meta.identity.get(name) != identity[name]:
            made_by = f", those of {meta.made_with.path or meta.upstream_model}" if name == "model" else ""
            return f"it was made with {words}{made_by}"
    if shaping(meta.kv) == shaping(settings.kv):
        return None
    names = ("kv_bits", "max_kv_size", "kv_group_size", "quantized_kv_start")
    pairs = ((name, getattr(meta.kv, name), getattr(settings.kv, name)) for name in names)
    return next(f"it was made with {name} {stored}, not {asked}" for name, stored, asked in pairs if stored != asked)


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
