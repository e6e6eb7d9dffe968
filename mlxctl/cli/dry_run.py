"""--dry-run: what would be used and what the model would be handed, without its weights."""

from collections.abc import Callable, Sequence

from mlxctl import rules
from mlxctl.cli.app import App
from mlxctl.cli.inputs import Ask, Asked
from mlxctl.cli.shortening import shortened
from mlxctl.events import Message
from mlxctl.output.json import encode
from mlxctl.profiles import Resolved
from mlxctl.settings import Settings


def dry_run(app: App, resolved: Resolved, settings: Settings, ask: Ask, begin: Callable[[Asked], Asked]) -> int:
    """Print the settings that are not defaults, each with its origin, and the rendered prompt.

    settings: the resolved ones, with what a prompt cache was made with. begin: puts what is asked behind what that
    holds.
    """
    from mlxctl.engine.loader import open_source
    from mlxctl.engine.prompt import notices, render_confined
    from mlxctl.engine.upstream_cache import with_stored

    rules.enforce(rules.for_settings(settings), settings, app.say)
    settings, stored = with_stored(settings)
    source = open_source(settings, app.say, stored.tokenizer_config if stored else None, weights=False)
    rules.enforce(rules.for_config(settings, source.facts), settings, app.say)

    def count(messages: Sequence[Message]) -> int:
        return len(render_confined(source.tokenizer, messages, settings).ids)

    asked = begin(shortened(ask(), settings, source.facts, count, app.say))
    rendered = render_confined(source.tokenizer, asked.messages, settings, suffix=stored is not None)
    for notice in notices(source.tokenizer, rendered, settings):
        app.say(notice)
    rules.enforce(rules.for_prompt(settings, source.facts, len(rendered.ids)), settings, app.say)
    if settings.output.format in ("json", "jsonl"):
        report = {"settings": settings, "prompt": rendered.text, "prompt_tokens": len(rendered.ids)}
        app.stdout.write(encode(report) + "\n")
        return 0
    for key, value in sorted(resolved.values.items()):
        if value.layer != "default":
            app.stdout.write(f"{key} = {encode(value.value)}  # {value.origin}\n")
    app.stdout.write(f"model folder: {source.path}\nprompt, {len(rendered.ids)} tokens:\n{rendered.text}\n")
    return 0
