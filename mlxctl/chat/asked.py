"""The settings that a chat was asked for, and those of them that a session keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl import paths, profiles
from mlxctl.chat.sessions import Saved, lasting_value, lasts
from mlxctl.profiles import Resolved
from mlxctl.settings import Settings

_EITHER = {"prompt.system": "prompt.system_file", "prompt.system_file": "prompt.system"}  # one says what the other does


@dataclass(frozen=True)
class Asked:
    """What settings were asked for: flags by key, a profile, and keys that shall not count in it."""

    values: Mapping[str, Any]
    profile: str | None
    unset: Sequence[str] = ()

    @classmethod
    def of_call(cls, values: Mapping[str, Any], profile: str | None, unset: Sequence[str]) -> "Asked":
        """Those of a command line; a profile's path in full, so that it is the same file wherever the chat goes on."""
        if profile is not None and ("/" in profile or profile.endswith(".toml")):
            profile = str(profiles.find(profile))
        return cls(values, profile, unset)

    def over(self, saved: Saved) -> "Asked":
        """A session's, where this call says nothing else."""
        said = dict(saved.values)
        for key, other in _EITHER.items():
            if key in self.values:
                said.pop(other, None)
        unset = list(dict.fromkeys([*saved.unset, *self.unset]))
        return Asked({**said, **self.values}, self.profile or saved.profile, unset)

    def passing(self) -> "Asked":
        """What is about this call, whatever session it comes to."""
        return Asked({key: value for key, value in self.values.items() if not lasts(key)}, None)

    def lasting(self, settings: Settings) -> dict[str, Any]:
        """The flags that a session keeps: none that lets a model run code, or that is about one run alone. Places are
        given in full, and a system prompt as text."""
        kept = {key: lasting_value(key, value) for key, value in self.values.items() if lasts(key)}
        if kept.pop("prompt.system_file", None) is not None:
            kept["prompt.system"] = settings.prompt.system
        for key in ("model.path", "model.draft_model", "model.adapter_path"):
            if key in kept and paths.is_dir(paths.expand(kept[key])):
                kept[key] = str(paths.absolute(kept[key]))
        return kept

    def resolve(self, environ: Mapping[str, str]) -> Resolved:
        """The settings, layered and checked. Raises UsageError."""
        resolved = profiles.resolve(self.values, environ, self.profile, self.unset)
        list(profiles.enforce(resolved))  # what it warns of is said when the model is there
        return resolved
