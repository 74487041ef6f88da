"""Numbers as JSON can hold them: it has no NaN and no infinity, so what is missing is null."""

import math
from typing import Any


def finite_or_none(value: float) -> float | None:
    """The number, or None where it is missing (NaN) or infinite."""
    return value if math.isfinite(value) else None


def with_nulls(values: list[Any]) -> list[Any]:
    """A list of numbers, or of lists of them at any depth, with None for whatever is not finite."""
    return [
        with_nulls(value) if isinstance(value, list) else value if math.isfinite(value) else None for value in values
    ]
