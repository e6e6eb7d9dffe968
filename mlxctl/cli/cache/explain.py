"""`mlxctl cache explain`."""

from typing import Any

import click
import msgspec

from mlxctl import options
from mlxctl.caches import explain, named
from mlxctl.caches.matching import continued, is_whole
from mlxctl.caches.meta import filled_in
from mlxctl.cli import inputs
from mlxctl.cli.app import App
from mlxctl.cli.options import TableCommand, parameters, profile_option, unset_option
from mlxctl.cli.run import settle

_SECTIONS = ("model", "prompt")
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
    from mlxctl.engine.prompt import common, render

    cache = named.read(name)
    resolved = settle(app, **params)
    settings = filled_in(resolved, cache.meta)
    settings = msgspec.structs.replace(settings, template=resolved.settings.template or settings.template)
    asked = inputs.finish(inputs.gather(settings, words, app), app)
    source = open_source(settings, app.say)
    names = [part for part, _ in asked.parts]
    whole = is_whole(asked.messages, names, cache.meta)
    messages = asked.messages if whole else continued(cache.meta.messages, asked.messages)
    ids = render(source.tokenizer, messages, settings).ids
    shared, held = common([ids, cache.meta.ids]), len(cache.meta.ids)
    app.stdout.write(f"{shared} of the {held} tokens of {name} are the beginning of this prompt of {len(ids)} tokens\n")
    if shared < held:
        decode = source.tokenizer.decode
        app.stdout.write(f"token {shared} and after it:\n  cache:  {decode(cache.meta.ids[shared:shared + 12])!r}\n"
                         f"  prompt: {decode(ids[shared:shared + 12])!r}\n")  # fmt: skip
        causes = explain.causes(cache.meta, messages, settings, source.tokenizer)
        app.stdout.write("".join(f"cause: {cause}\n" for cause in causes))
