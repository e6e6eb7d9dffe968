"""--truncate: documents that are too long for the model's context lose a part of their text."""

from collections.abc import Callable, Sequence

from mlxctl import rules
from mlxctl.cli.inputs import Asked
from mlxctl.errors import UsageError
from mlxctl.events import Message
from mlxctl.rules import ModelFacts
from mlxctl.settings import Settings

_LONGEST = 40  # characters of a token, on the average of any text: more need not be encoded to know that it is too long
_LOOKS = 12  # how often the prompt is made anew; two or three do as a rule
_SURE = 0.98  # of what seems to fit


def shortened(
    asked: Asked, settings: Settings, facts: ModelFacts, count: Callable[[Sequence[Message]], int],
    say: Callable[[str], None],
) -> Asked:  # fmt: skip
    """What is asked, with shorter documents where they are too long. The longest lose first.

    count: the tokens of a prompt. Says what is left out. Raises UsageError where the prompt is too long without them.
    """
    side, room = settings.request.truncate, rules.room(settings, facts)
    if side is None or not asked.documents:
        return asked
    if room is None:
        say(f"--truncate: nothing tells the context of {facts.id}, and nothing is left out")
        return asked
    lengths = [len(one.text) for one in asked.documents]
    characters = min(sum(lengths), _LONGEST * room.most)
    if characters == sum(lengths) and count(asked.messages) <= room.most:
        return asked
    seen: list[tuple[int, int]] = []  # (characters, tokens)
    for _ in range(_LOOKS):
        kept = _shares(lengths, characters)
        found = asked.remade([_cut(one.text, keep, side) for one, keep in zip(asked.documents, kept, strict=True)])
        seen.append((characters, count(found.messages)))
        if seen[-1][1] <= room.wanted:
            for one, keep in zip(asked.documents, kept, strict=True):
                if keep < len(one.text):
                    say(f"{one.name}: {len(one.text) - keep} of {len(one.text)} characters are left out, "
                        f"for the context of {facts.id} has {room.size} tokens")  # fmt: skip
            return found
        if characters == 0:
            break
        characters = _fewer(seen, room.wanted)
    raise UsageError(
        f"--truncate: the prompt has {seen[-1][1]} tokens without what can be left out, and {room.wanted} have room"
    )


def _fewer(seen: Sequence[tuple[int, int]], wanted: int) -> int:
    """How many characters may make so many tokens, by the last that were looked at."""
    (characters, tokens), before = seen[-1], seen[:-1]
    slope = tokens / characters
    if before and before[-1][0] > characters and before[-1][1] > tokens:
        slope = (before[-1][1] - tokens) / (before[-1][0] - characters)
    return max(min(int((characters - (tokens - wanted) / slope) * _SURE), characters - 1), 0)


def _shares(lengths: Sequence[int], total: int) -> list[int]:
    """How much of each is kept: all of the short ones, and as much of each of the others."""
    left, shares = total, [0] * len(lengths)
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    for place, index in enumerate(by_length):
        shares[index] = min(lengths[index], left // (len(lengths) - place))
        left -= shares[index]
    return shares


def _cut(text: str, keep: int, side: str) -> str:
    """A text without its `side`; a line in its place says so."""
    if keep >= len(text):
        return text
    note = f"[... {len(text) - keep} characters left out ...]"
    head, tail = {"head": (0, keep), "tail": (keep, 0), "middle": (keep - keep // 2, keep // 2)}[side]
    return "\n".join(part for part in (text[:head], note, text[len(text) - tail :]) if part)
