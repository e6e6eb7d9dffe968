"""Prompt caches on disk."""
