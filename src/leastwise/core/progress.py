"""How work tells others how far it has come."""

from collections.abc import Callable

ProgressCallback = Callable[[int, int], None]  # done, and in all


def ignore_progress(done: int, total: int) -> None:
    """The callback of whoever does not want to know."""
