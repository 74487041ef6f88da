"""The command line's front door: finds the verb, and turns every mistake into one sentence.

It imports neither torch nor the argument parser until a verb needs them, so help is immediate.
"""

import contextlib
import errno
import io
import mmap
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Protocol, runtime_checkable

from leastwise.cli.verbs import VERBS, Verb
from leastwise.core.text import did_you_mean, escape_unprintable, one_line

# Measured as the growth of VmPeak: 43 MB for the files of either library, and 40 MB a thread with stacks of 8 MB.
FILES, BUFFER, USUAL_STACK = 64 << 20, 32 << 20, 8 << 20
BESIDE_TORCH = 128 << 20  # what torch takes as it starts, beside its files


class NoRoom(MemoryError):
    """A library cannot be loaded; its text is the whole sentence."""


class RoomFinder:
    """The first to be asked for a module: it finds none, but refuses those that would hang for want of room."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # scipy loads its own with one of several parts, so all are watched.
        if name == "torch":
            try_room(name, measure_torch() + BESIDE_TORCH)
        elif name == "numpy" or name.partition(".")[0] == "scipy":
            try_room(name.partition(".")[0], FILES + count_blas_threads() * (BUFFER + stack_size()))
        return None


def read_limit(name: str) -> int | None:
    """A limit of this process, such as RLIMIT_AS; None where there is none, or the system knows no limits."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit, _ = resource.getrlimit(getattr(resource, name))
    return None if limit == resource.RLIM_INFINITY else limit


def watch_room() -> None:
    """Under a limit on addresses, try the room before a library that would wait for it."""
    limited = read_limit("RLIMIT_AS") is not None
    if limited and not any(isinstance(finder, RoomFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, RoomFinder())


def try_room(library: str, size: int) -> None:
    """Take the addresses that the library will, and give them back."""
    try:
        mmap.mmap(-1, size).close()
    except OSError:
        raise NoRoom(
            f"there is not enough memory to load {library}: raise the limit (ulimit -v), or set OMP_NUM_THREADS=1"
        ) from None


def measure_torch() -> int:
    """The bytes of its libraries, all of which are mapped."""
    found = PathFinder.find_spec("torch")
    if found is None or found.origin is None:
        return 0
    return sum(file.stat().st_size for file in (Path(found.origin).parent / "lib").glob("*.so*"))


def count_blas_threads() -> int:
    """As many as OpenBLAS will start."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        if os.environ.get(name, "").isdecimal() and int(os.environ[name]):
            return int(os.environ[name])
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def stack_size() -> int:
    """Of a thread."""
    size = read_limit("RLIMIT_STACK")
    return USUAL_STACK if size is None else size


INTERRUPTED = 130
PATIENCE = 8.0  # seconds for the polite way
LAST_WORDS = (
    "interrupted; `audit`, `race`, `train`, `reproduce`, `study`, `demo` and `data fetch` go on when the same "
    "command is given again"
)


@contextmanager
def ending_in_time() -> Iterator[None]:
    """Inside, SIGTERM is like Ctrl-C, and both end the process within `PATIENCE` if nothing else does."""
    if threading.current_thread() is not threading.main_thread() or os.name != "posix":
        yield  # Windows has Ctrl-C alone, and knows no pipe that a signal wakes
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    ended = threading.Event()
    threading.Thread(target=watch_signals, args=(reader, ended), daemon=True).start()
    heard = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    before = signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that may not grow is then an error that can be told
    try:
        yield
    finally:
        ended.set()
        signal.signal(signal.SIGTERM, before)
        signal.set_wakeup_fd(heard)
        os.close(writer)  # the thread reads the end, and closes its side


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """Whoever asks politely is answered as Ctrl-C is."""
    raise KeyboardInterrupt


def watch_signals(reader: int, ended: threading.Event) -> None:
    """Wait for a signal that asks for the end, and then for the end."""
    while number := os.read(reader, 1):
        if number[0] in (signal.SIGINT, signal.SIGTERM) and not ended.wait(PATIENCE):
            os.write(2, f"leastwise: {LAST_WORDS}\n".encode())
            os._exit(INTERRUPTED)
    os.close(reader)


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
    write_what_fits()
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


def write_what_fits() -> None:
    """Letters that the terminal or the pipe has none for become question marks: an old code page ends no verb."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


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
