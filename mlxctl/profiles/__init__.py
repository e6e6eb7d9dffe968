"""Profiles: find them, check them, and layer them under flags and variables. Every value keeps its origin."""

from mlxctl.profiles.check import Report, check, enforce
from mlxctl.profiles.files import Profile
from mlxctl.profiles.layers import Resolved, load_profile, resolve, resolve_as_upstream
from mlxctl.profiles.search import everywhere, find, folders, is_shipped
from mlxctl.profiles.values import Value

__all__ = [
    "Profile",
    "Report",
    "Resolved",
    "Value",
    "check",
    "enforce",
    "everywhere",
    "find",
    "folders",
    "is_shipped",
    "load_profile",
    "resolve",
    "resolve_as_upstream",
]
