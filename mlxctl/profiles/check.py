"""Everything that can be wrong with a profile, told without a model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mlxctl import rules
from mlxctl.errors import ProfileError, UsageError
from mlxctl.options import shown
from mlxctl.profiles.files import FILE_KEYS, Value
from mlxctl.profiles.layers import resolve


@dataclass(frozen=True)
class Report:
    """Lines of "file:line: key: what is wrong"; warnings do not make a profile bad."""

    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check(name: str, in_place_of: Path | None = None) -> Report:
    """Check a profile, given by name or path, with those it extends and the files it reads.

    in_place_of: the file whose place it would take; it cannot be its parent then.
    """
    try:
        resolved = resolve({}, {}, name)
    except ProfileError as error:
        return Report(error.message.splitlines())
    except UsageError as error:
        return Report([error.message])
    path = resolved.profile[0].path
    if in_place_of is not None and in_place_of.resolve() in [parent.path.resolve() for parent in resolved.profile]:
        return Report([f"{resolved.profile[0].extends_place}: extends: goes in a circle, back to {in_place_of}"])
    findings = list(rules.for_settings(resolved.settings))
    faults = [f"{path}: {finding.message}" for finding in findings if finding.fatal]
    return Report(
        [*_missing_files(resolved.values), *faults],
        [f"{path}: {finding.message}" for finding in findings if not finding.fatal],
    )


def _missing_files(values: Mapping[str, Value]) -> Iterator[str]:
    for key in FILE_KEYS:
        for name in values[key].names():
            if not _is_file(name):
                yield f"{values[key].place}: {key}: no such file: {shown(name)}"


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # too long for a name
        return False
