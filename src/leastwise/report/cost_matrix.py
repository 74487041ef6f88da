"""What mistakes cost, from a small CSV file of the user's."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def read_costs(path: Path, names: Sequence[str]) -> "np.ndarray":
    """A row per true class, a column per predicted one; a first row and a first column of class names may be there."""
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(path.read_text(encoding="utf-8-sig").splitlines())]
    except (csv.Error, UnicodeDecodeError):
        raise ValueError(f"{path} is not a CSV file of costs: write one row per class") from None
    rows = [row for row in rows if any(row)]
    if rows and not is_number(rows[0][-1]):
        expect_names(path, rows[0][-len(names) :], names, what="column")
        rows = rows[1:]
    if rows and not is_number(rows[0][0]):
        expect_names(path, [row[0] for row in rows], names, what="row")
        rows = [row[1:] for row in rows]
    k = len(names)
    if len(rows) != k or any(len(row) != k for row in rows):
        seen = f"{len(rows)} rows of {min(map(len, rows), default=0)} to {max(map(len, rows), default=0)} numbers"
        raise ValueError(f"the costs of {k} classes are {k} rows of {k} numbers, but {path} has {seen}")
    bad = [cell for row in rows for cell in row if not is_number(cell) or not 0 <= float(cell) < np.inf]
    if bad:
        raise ValueError(f"a cost is a number of at least 0, but {path} has {bad[0]!r}")
    return np.array([[float(cell) for cell in row] for row in rows])


def expect_names(path: Path, seen: Sequence[str], names: Sequence[str], *, what: str) -> None:
    """Refuse names that are not the classes in their order."""
    if list(seen) != list(names):
        wrong = next(((s, n) for s, n in zip(seen, names, strict=False) if s != n), (f"{len(seen)} names", names[0]))
        raise ValueError(
            f"the {what}s of {path} must be the classes in their order: saw {wrong[0]!r} where {wrong[1]!r} belongs"
        )


def is_number(text: str) -> bool:
    """Whether the text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
