"""Room for libraries under a limit on addresses, as `ulimit -v` sets one.

OpenBLAS, which numpy and scipy each bring, asks for a buffer per thread while it is loaded, and if there is none asks
again for ever (`blas_memory_alloc`), inside a call that no signal and no other thread of Python gets through. So under
such a limit the room is tried before either is loaded. torch ends the process where its own start finds no memory, so
that it is watched as well.
"""

import mmap
import os
import resource
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

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


def watch_room() -> None:
    """Under a limit on addresses, try the room before a library that would wait for it."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and not any(isinstance(finder, RoomFinder) for finder in sys.meta_path):
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
    size, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return USUAL_STACK if size == resource.RLIM_INFINITY else size
