"""`mlxctl cache info`."""

import click
import msgspec

from mlxctl import texts
from mlxctl.caches import format, named
from mlxctl.cli.app import App
from mlxctl.errors import CacheError
from mlxctl.output.json import encode


@click.command()
@click.argument("name", metavar="CACHE")
@click.option("--text", is_flag=True, help="The messages that it holds, too")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Lines, or JSON with all")
@click.pass_obj
def command(app: App, name: str, text: bool, form: str) -> None:
    """Print what a cache holds and what it was made with. Its header alone is read; `verify` reads all."""
    path = named.find(name)
    with named.looking(path):
        meta = format.read_meta(path)
    if meta is None:
        raise CacheError(
            f"cache {name}: written by mlx_lm.cache_prompt, it does not say what it holds",
            hint="--prompt-cache-file uses it as mlx_lm.generate does",
        )
    size = path.stat().st_size
    if form == "json":
        app.stdout.write(encode({"path": str(path), "size": size, **msgspec.to_builtins(meta)}) + "\n")
        return
    kv = f"{meta.kv.kv_bits} bits from token {meta.kv.quantized_kv_start} on" if meta.kv.kv_bits else "not quantized"
    rows = {
        "file": f"{path} ({texts.size(size)})",
        "tokens": str(len(meta.ids)),
        "model": f"{meta.made_with.path or meta.upstream_model} ({meta.identity.get('dtype')})",
        "adapter": meta.made_with.adapter_path or "-",
        "draft model": meta.made_with.draft_model or "-",
        "keys and values": kv,
        "template given": encode(meta.template) if meta.template else "-",
        "created": meta.created,
        "messages": ", ".join(f"{message['role']} ({len(message['content'])} characters)" for message in meta.messages),
    }  # fmt: skip
    app.stdout.write("".join(f"{label + ':':<17}{value}\n" for label, value in rows.items()))
    if text:
        app.stdout.write("".join(f"\n[{message['role']}]\n{message['content']}\n" for message in meta.messages))
