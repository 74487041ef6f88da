"""Where progress goes: beside a script's own output, and into a notebook's cell."""

import sys

from leastwise.core.text import Screen


def open_screen(progress: bool) -> Screen:
    """A screen for progress: the error stream of a script, the cell of a notebook, or nothing."""
    return Screen(file=sys.stdout if in_notebook() else sys.stderr, quiet=not progress, force_jupyter=False)


def in_notebook() -> bool:
    """Whether a notebook shows what is printed."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and "IPKernelApp" in running.config
