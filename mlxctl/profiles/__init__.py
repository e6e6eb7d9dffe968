"""Profiles: find them, check them, and layer them under flags and variables. Every value keeps its origin."""

from mlxctl.profiles.files import Profile, Value, read
from mlxctl.profiles.layers import Resolved, load_profile, resolve, resolve_as_upstream
from mlxctl.profiles.search import chain, find, folders

__all__ = [
    "Profile",
    "Resolved",
    "Value",
    "chain",
    "find",
    "folders",
    "load_profile",
    "read",
    "resolve",
    "resolve_as_upstream",
]
