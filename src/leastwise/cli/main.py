"""The command line's front door: finds the verb, and turns every mistake into one sentence.

It imports neither torch nor the argument parser until a verb needs them, so help is immediate.
"""

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from leastwise.cli.ending import INTERRUPTED, LAST_WORDS, ending_in_time
from leastwise.cli.room import NoRoom, watch_room
from leastwise.cli.verbs import VERBS, Verb
from leastwise.core.escaping import escape_unprintable
from leastwise.core.text import did_you_mean, one_line

BAD_INPUT = 2
# What torch, numpy and the system say of memory that there is not; torch's own error for it is only a RuntimeError.
NO_MEMORY = re.compile(
    r"not enough memory|allocate memory|out of memory|bad_alloc|start new thread|failed to map segment"
)

OVERVIEW = """usage: leastwise VERB [options]

Audit and train image classifiers class by class under attack.

verbs
{verbs}

`leastwise VERB --help` explains a verb; `leastwise --version` prints the version."""


@runtime_checkable
class Command(Protocol):
    """A verb with its settings."""

    def run(self) -> int | None:
        """Do it, and return an exit code if it is not 0."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 2 bad input, 130 interrupted; gates also 1 and 3."""
    # Large tensors in huge pages: the system spends half the time on them. torch reads this once, when it is imported.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    verb, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        if verb in ("-h", "--help"):
            print(OVERVIEW.format(verbs="\n".join(f"  {name:9} {one.about}" for name, one in VERBS.items())))
        elif verb == "--version":
            from leastwise import __version__

            print(f"leastwise {__version__}")
        else:
            watch_room()
            with ending_in_time():
                return parse_command(verb, rest).run() or 0
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        complain(LAST_WORDS)
        return INTERRUPTED
    except (ValueError, OSError, RecursionError, MemoryError, RuntimeError, ImportError) as error:
        ours = isinstance(error, RuntimeError | ImportError) and not isinstance(error, RecursionError)
        if os.environ.get("LEASTWISE_TRACEBACK") or (ours and not NO_MEMORY.search(str(error))):
            raise
        complain(error_sentence(error))
        return BAD_INPUT
    return 0


def complain(text: str) -> None:
    """What a file or a user wrote may be part of it: a terminal shows it, and does not obey it."""
    print(f"leastwise: {escape_unprintable(text)}", file=sys.stderr)


def error_sentence(error: Exception) -> str:
    """A mistake as one sentence."""
    if isinstance(error, RecursionError):
        return "something in these files is nested too deeply to be read: check where they come from"
    if isinstance(error, NoRoom):
        return str(error)
    if isinstance(error, MemoryError | RuntimeError | ImportError) or getattr(error, "errno", 0) == errno.ENOMEM:
        return "there is not enough memory for this: take a smaller --batch-size, or fewer or smaller images"
    if isinstance(error, OSError):
        return f"cannot use {error.filename or 'a file'}: {error.strerror or error}"
    return one_line(error)


def load_verb(verb: Verb) -> Any:
    """Import the type of a verb; `data` is a union of the types of its sub-verbs."""
    return vars(import_module(f"leastwise.cli.{verb.module}"))[verb.type_name]


def parse_command(verb: str, arguments: Sequence[str]) -> Command:
    """The command a user typed, as a value; a mistake is one sentence with the nearest right word."""
    if verb not in VERBS:
        raise ValueError(f"there is no verb {verb!r}: {did_you_mean(verb, VERBS)}")
    import tyro

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(load_verb(VERBS[verb]), prog=f"leastwise {verb}", args=list(arguments))
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise ValueError(f"{unbox_message(said.getvalue())}; see leastwise {verb} --help") from None


def unbox_message(boxed: str) -> str:
    """The first part of tyro's boxed message, without the box, and its suggestion if there is one."""
    _title, *lines = (line.strip("│ ") for line in boxed.splitlines())
    # Rules separate the parts; where the terminal has no box characters they are plain dashes.
    parts = [one_line(part) for part in re.split(r"\n[-─╰╯]+(?=\n|$)", "\n" + "\n".join(lines))]
    message = next(part for part in parts if part).split(" Got errors")[0].rstrip(".")
    near = re.search(r"Perhaps you meant:? +(--[\w-]+)", " ".join(parts))
    return message[:1].lower() + message[1:] + (f"; did you mean {near[1]}?" if near else "")
