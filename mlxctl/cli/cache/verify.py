"""`mlxctl cache verify`."""

import click

from mlxctl.caches import identity, named
from mlxctl.caches.meta import filled_in, misfit
from mlxctl.caches.named import Named
from mlxctl.cli.app import App
from mlxctl.errors import CacheError, ExitStatus
from mlxctl.profiles import resolve

_SAMPLES = 8  # positions
_ALIKE = 0.99  # cosine; the order of sums moves the last digits
_ALIKE_QUANTIZED = 0.9  # the context in which a token was first computed was not quantized yet


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="CACHE...")
@click.option("--deep", is_flag=True, help="Load the model, compute a sample of positions anew, and compare")
@click.pass_obj
def command(app: App, names: tuple[str, ...], deep: bool) -> int:
    """See that caches are as they were written: every byte, the shapes, the number of tokens. Exit status 4 if not."""
    status = ExitStatus.OK
    for name in names:
        try:
            with named.looking(named.find(name)):
                found = named.read(name)
            said = _recomputed(app, found) if deep else "as it was written"
            app.stdout.write(f"{name}: {len(found.meta.ids)} tokens, {said}\n")
        except CacheError as error:
            app.say(error.message)
            status = error.exit_status
    return status


def _recomputed(app: App, found: Named) -> str:
    from mlxctl.engine.engine import Engine

    settings = filled_in(resolve({}, app.environ, None), found.meta)
    engine = Engine.load(settings, app.say)
    if reason := misfit(found.meta, identity.of_engine(engine), settings):
        raise CacheError(f"cache {found.name}: {reason}")
    alike = list(engine.recompute(found.prefix, _SAMPLES))
    if min(alike) < (_ALIKE if found.meta.kv.kv_bits is None else _ALIKE_QUANTIZED):
        raise CacheError(f"cache {found.name}: computed anew, it is another (likeness {min(alike):.3f})")
    return f"as computed anew (likeness {min(alike):.4f} at the least)"
