"""The page of a paper."""

from collections.abc import Mapping
from pathlib import Path

from leastwise.papers.declare import Exhibit, Paper
from leastwise.papers.recipes import Recipe
from leastwise.papers.verdicts.view import Results


def write(
    paper: Paper,
    exhibits: tuple[Exhibit, ...],
    scale: str,
    results: Results,
    failed: Mapping[Recipe, str],
    folder: Path,
) -> tuple[Path, ...]:
    """Write the page of a paper and the tables beside it."""
    raise NotImplementedError("exhibits cannot be drawn yet")
