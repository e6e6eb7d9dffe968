"""`mlxctl cache explain`."""

from typing import Any

import click
import msgspec

from mlxctl import options
from mlxctl.caches import explain, named
from mlxctl.caches.matching import joined
from mlxctl.caches.meta import filled_in
from mlxctl.cli import inputs
from mlxctl.cli.app import App
from mlxctl.cli.options import TableCommand, parameters, profile_option, unset_option
from mlxctl.cli.run import settle

_SECTIONS = ("model", "prompt", "kv")
_OTHERS = {"request.prompt", "request.messages", "request.chat_template_config", "request.think", "request.escapes",
           "request.allow_special", "request.offline"}  # fmt: skip
_ROWS = [row for row in options.options() if row.section in _SECTIONS or row.key in _OTHERS]


@click.command(cls=TableCommand, params=[profile_option(), unset_option(), *parameters(_ROWS)])
@click.argument("name", metavar="CACHE")
@click.argument("words", nargs=-1, metavar="[PROMPT]...")
@click.pass_obj
def command(app: App, /, name: str, words: tuple[str, ...], **params: Any) -> None:
    """Show where a prompt, given as to `run`, first differs from a cache, and what causes it. Loads no weights.

    As in a run from the cache, what does not bring its beginning again is taken as what comes after it.
    """
    from mlxctl.engine.loader import open_source
    from mlxctl.engine.prompt import common, render_confined

    with named.looking(named.find(name)):
        cache = named.read(name)
    resolved = settle(app, **params)
    settings = filled_in(resolved, cache.meta)
    settings = msgspec.structs.replace(settings, template=resolved.settings.template or settings.template)
    asked = inputs.finish(inputs.gather(settings, words, app), app)
    source = open_source(settings, app.say, weights=False)
    messages = joined(asked.messages, asked.pieces, cache.meta)
    ids = render_confined(source.tokenizer, messages, settings).ids
    shared, held = common([ids, cache.meta.ids]), len(cache.meta.ids)
    app.stdout.write(f"the prompt has {len(ids)} tokens, and begins with {shared} of the {held} of {name}\n")
    if (reason := explain.refused(cache.meta, settings)) is not None:
        app.stdout.write(f"cause: a run would refuse the cache: {reason}\n")
    if shared < held:
        decode = source.tokenizer.decode
        app.stdout.write(f"token {shared} and after it:\n  cache:  {decode(cache.meta.ids[shared:shared + 12])!r}\n"
                         f"  prompt: {decode(ids[shared:shared + 12])!r}\n")  # fmt: skip
        causes = explain.causes(cache.meta, messages, settings, source.tokenizer)
        app.stdout.write("".join(f"cause: {cause}\n" for cause in causes))
