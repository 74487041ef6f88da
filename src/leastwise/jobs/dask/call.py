"""Calls by name: a scheduler passes them on without importing what they need, which takes seconds and much memory."""

from importlib import import_module
from typing import Any


def call(place: str, *arguments: Any) -> Any:
    """`package.module:function` with these arguments."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)(*arguments)
