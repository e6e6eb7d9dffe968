"""Profiles: find them, check them, and layer them under flags and variables. Every value keeps its origin."""

from mlxctl.profiles.check import check
from mlxctl.profiles.files import Profile, Value, examine, read
from mlxctl.profiles.layers import Resolved, load_profile, resolve, resolve_as_upstream
from mlxctl.profiles.search import chain, everywhere, find, folders

__all__ = [
    "Profile",
    "Resolved",
    "Value",
    "chain",
    "check",
    "everywhere",
    "examine",
    "find",
    "folders",
    "load_profile",
    "read",
    "resolve",
    "resolve_as_upstream",
]
