"""A setting's value with its origin."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

Layer = Literal["flag", "variable", "profile", "--unset", "default"]


@dataclass(frozen=True)
class Value:
    """A value, the layer it came from and the place there: a flag, a variable, or "demo.toml:4"."""

    value: Any
    layer: Layer = "default"
    place: str = ""

    @property
    def origin(self) -> str:
        """Such as "flag --temp", "variable MLXCTL_TEMP", "demo.toml:4", "--unset" or "default"."""
        if self.layer in ("default", "--unset"):
            return self.layer
        return self.place if self.layer == "profile" else f"{self.layer} {self.place}"

    def names(self) -> list[str]:
        """The file names in it, where it holds some."""
        return self.value if isinstance(self.value, list) else [self.value] if self.value is not None else []

    def renamed(self, change: Callable[[str], str]) -> "Value":
        """With its file names changed."""
        names = [change(name) for name in self.names()]
        return replace(self, value=names if isinstance(self.value, list) else next(iter(names), None))
