"""The settings that a chat was asked for, and those of them that a session keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlxctl import paths, profiles
from mlxctl.chat.sessions import Saved
from mlxctl.profiles import Resolved
from mlxctl.settings import Settings

_KEPT = {"request.think", "request.chat_template_config"}  # of those that belong to one call


@dataclass(frozen=True)
class Asked:
    """What settings were asked for: flags by key, a profile, and keys that shall not count in it."""

    values: Mapping[str, Any]
    profile: str | None
    unset: Sequence[str] = ()

    @classmethod
    def of(cls, saved: Saved) -> "Asked":
        """Those of a session."""
        return cls(saved.values, saved.profile, saved.unset)

    def lasting(self, settings: Settings) -> dict[str, Any]:
        """The flags that a session keeps: none that lets a model run code, or that is about one run alone. Places are
        given in full, and a system prompt as text."""
        kept = {key: value for key, value in self.values.items() if not key.startswith("request.") or key in _KEPT}
        kept.pop("model.trust_remote_code", None)
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

    @property
    def lasting_profile(self) -> str | None:
        """The profile as it is found from anywhere: a path in full."""
        name = self.profile
        return str(profiles.find(name)) if name is not None and ("/" in name or name.endswith(".toml")) else name
