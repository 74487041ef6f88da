"""Ids in the names of tests and the page that explains them belong together."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "contributing" / "oracles.md"


def ids_in_names() -> set[str]:
    """As in test_c7_c8_stronger_attacks; l1 and l2 are norms."""
    names = [
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def test_((?:[acgpt]\d+_)+)", file.read_text())
    ]
    return {one.upper() for name in names for one in name.strip("_").split("_")}


def test_every_id_in_a_name_is_explained_and_every_explained_id_is_tested() -> None:
    explained = re.findall(r"^\| ([A-Z]\d+) \|", PAGE.read_text(), flags=re.M)
    assert len(explained) == len(set(explained))
    assert set(explained) == ids_in_names()
