"""What the allocator of the C library does with the memory of long work."""

import contextlib
import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def steady_memory() -> None:
    """Keep blocks of 4 MB and more out of the heap, where gaps between small blocks add up: 150 MB over 50 shards.

    glibc does so by itself until the first of them is freed, and then raises the limit to 32 MB. With huge pages (see
    the command line) and a heap that is not cut back at every turn this costs no time.
    """
    with contextlib.suppress(OSError, AttributeError):  # other systems have no such call
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 4 << 20)
        libc.mallopt(M_TRIM_THRESHOLD, 512 << 20)


def give_back_memory() -> None:
    """Let the allocator return what is free."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
