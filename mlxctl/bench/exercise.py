"""The exercise: does the rate drop when the answer gets longer?"""

from mlxctl.bench.rows import Row
from mlxctl.engine.bench import Task
from mlxctl.history import noise

SHORT, LONG = 20, 200
TESTS = (Task(0, SHORT), Task(0, LONG))


def sentence(short: Row, long: Row) -> str:
    """What the two rates show, in a sentence or two."""
    found = noise.difference(short.samples_ts, long.samples_ts)
    change = f"{found.percent.lstrip('+-')} {'higher' if found.b > found.a else 'lower'}"
    if found.p is None:
        verdict = f"was {change}, but so few repetitions cannot tell that from noise (-r {noise.needed()} can)"
    elif found.is_real:
        verdict = f"is {change}, and that is more than noise ({found.words})"
    else:
        verdict = f"does not differ by more than noise: {change} ({found.words})"
    rates = f"{found.b:.1f} against {found.a:.1f} tok/s"
    return f"Over {LONG} tokens the rate, beside that over {SHORT}, {verdict}; {rates}.{_growth(short, long)}"


def _growth(short: Row, long: Row) -> str:
    """Why it would be lower."""
    if short.bytes_per_token is None or long.bytes_per_token is None:
        return ""
    more = long.bytes_per_token / short.bytes_per_token - 1
    return f" Its cache has grown: a token of the long run reads {100 * more:.1f} % more bytes than one of the short."
