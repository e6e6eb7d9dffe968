"""Everything that can be wrong with a profile, told without a model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlxctl import rules
from mlxctl.errors import ProfileError, UsageError
from mlxctl.profiles.files import Profile
from mlxctl.profiles.layers import Resolved, faults_of, merged
from mlxctl.profiles.search import examine_chain, faults_of_default
from mlxctl.profiles.values import Value
from mlxctl.rules import Finding


@dataclass(frozen=True)
class Report:
    """A profile with those it extends, and lines of "file:line: key: what is wrong". Warnings do not make it bad."""

    profile: Sequence[Profile]
    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check(path: Path, text: str | None = None, in_place_of: Path | None = None) -> Report:
    """Check a profile with those it extends and the files it reads.

    text: what the file would hold. in_place_of: the file whose place it would take, which cannot be its parent then.
    """
    found, faults = examine_chain(path, text)
    if in_place_of is not None and in_place_of.resolve() in [parent.path.resolve() for parent in found[1:]]:
        faults.append(f"{found[0].extends_place}: extends: goes in a circle, back to {in_place_of}")
    resolved = merged(found)
    faults += faults_of(found, resolved.values)
    if path.stem == "default":
        faults += faults_of_default(found)
    findings = list(rules.for_settings(resolved.settings))
    fatal, rest = ([_located(finding, resolved.values, path) for finding in findings if finding.fatal is fatal]
                   for fatal in (True, False))  # fmt: skip
    return Report(found, faults + fatal, rest)


def enforce(resolved: Resolved) -> Iterator[str]:
    """Refuse what the rules between settings refuse, with its place; yield what they warn of."""
    findings = list(rules.for_settings(resolved.settings))
    fatal = [finding for finding in findings if finding.fatal]
    located = [_located(finding, resolved.values) for finding in fatal]
    if any(_place(finding, resolved.values) for finding in fatal):
        raise ProfileError("\n".join(located))
    if fatal:
        raise UsageError("\n".join(located))
    yield from (_located(finding, resolved.values) for finding in findings)


def _located(finding: Finding, values: Mapping[str, Value], file: Path | None = None) -> str:
    place = _place(finding, values) or file
    return f"{place}: {finding.message}" if place else finding.message


def _place(finding: Finding, values: Mapping[str, Value]) -> str | None:
    """Where the first of the settings that a finding is about stands in a profile."""
    set_there = (values[key].place for key in finding.keys if key in values and values[key].layer == "profile")
    return next(set_there, None)
