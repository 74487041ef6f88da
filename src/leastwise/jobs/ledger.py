"""What is finished: files that a run has committed, each with its digest, in one sqlite file beside them.

A piece of work is committed in two steps, the file (whole or absent) and then its line in the ledger, so that a run
that is killed at any moment finds only whole pieces when it goes on. A file that is missing, cut short or edited does
not match its line and counts as not done.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leastwise.core.files import lock_folder, sha256, write_atomic

FILE = "ledger.sqlite"
TABLE = """
create table if not exists pieces (name text primary key, digest text not null, seconds real not null) without rowid
"""


@dataclass(frozen=True, eq=False)
class Ledger:
    """The pieces in one folder. Use it inside `opened`."""

    folder: Path
    lines: sqlite3.Connection

    def commit(self, name: str, content: bytes, seconds: float) -> None:
        write_atomic(self.folder / name, content)
        with told(self.folder / FILE), self.lines:
            self.lines.execute("insert or replace into pieces values (?, ?, ?)", (name, sha256(content), seconds))

    def read(self, name: str) -> bytes | None:
        """The content of a finished piece; None if it was never finished, or is not what was committed."""
        line = self.lines.execute("select digest from pieces where name = ?", (name,)).fetchone()
        try:
            content = (self.folder / name).read_bytes()
        except OSError:
            return None
        return content if line is not None and line[0] == sha256(content) else None

    def seconds(self, name: str) -> float:
        """How long a finished piece took."""
        line = self.lines.execute("select seconds from pieces where name = ?", (name,)).fetchone()
        return 0.0 if line is None else float(line[0])


@contextmanager
def opened(folder: Path) -> Iterator[Ledger]:
    """The ledger of a folder, for one process at a time."""
    with lock_folder(folder):
        lines = connect(folder / FILE)
        try:
            yield Ledger(folder, lines)
        finally:
            lines.close()


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What sqlite says of a disk that is full or of a file that may not be written, as the system would say it."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise OSError(None, str(error), str(path)) from None


def connect(path: Path) -> sqlite3.Connection:
    """A ledger that cannot be read says nothing about what is done: it begins anew."""
    with told(path):
        lines = sqlite3.connect(path)
    try:
        lines.execute(TABLE)
        lines.execute("select name, digest, seconds from pieces limit 1").fetchone()
    except sqlite3.DatabaseError:
        lines.close()
        path.unlink(missing_ok=True)
        with told(path):
            lines = sqlite3.connect(path)
            lines.execute(TABLE)
    with told(path):
        lines.commit()
    return lines
