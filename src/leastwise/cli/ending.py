"""How a command ends when it is asked to: politely if it can, and in any case within ten seconds.

Python hears of Ctrl-C and SIGTERM only between two of its own steps, and one call into torch or onnxruntime may take
minutes. A thread hears of them at once, by way of a pipe that the system's handler writes to, and ends the process when
the polite way takes too long. Files are written in one piece each, so that a piece of work is lost, and no more.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
PATIENCE = 8.0  # seconds for the polite way
LAST_WORDS = (
    "interrupted; `audit`, `race`, `train`, `reproduce`, `study`, `demo` and `data fetch` go on when the same "
    "command is given again"
)


@contextmanager
def ending_in_time() -> Iterator[None]:
    """Inside, SIGTERM is like Ctrl-C, and both end the process within `PATIENCE` if nothing else does."""
    if threading.current_thread() is not threading.main_thread():
        yield
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
