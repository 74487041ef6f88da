"""How good `leastwise reproduce --plan` is: what it would have said of stored results, beside the seconds they took.

    python -m scripts.plan_check [results]

Stored results ran with one thread each, many beside other work: up to twice as slow as on a free core.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import torch

from leastwise.papers.campaign import rank_work
from leastwise.papers.estimate import Speed
from leastwise.papers.recipes import Recipe, Trained
from leastwise.papers.stored import PaperStore

SCALE = "lite"
KINDS = ("autoattack", "nattack", "cwinf", "tpgd", "pgd")  # an audit is of the first that one of its conditions is of


def kind_of(recipe: Recipe) -> str:
    """A training, or an audit by its slowest attack."""
    if isinstance(recipe, Trained):
        return "training"
    return next((kind for kind in KINDS if any(name.startswith(kind) for name in recipe.conditions)), "clean")


def read_seconds(store: PaperStore) -> dict[Recipe, float]:
    """What every stored result took, by its recipe."""
    found = {}
    for recipe in rank_work(store.scale):
        run = store.folder(recipe) / "run.json"
        if run.is_file():
            found[recipe] = float(json.loads(run.read_text())["seconds"])
    return found


def compare_estimates(seconds: Mapping[Recipe, float], speed: Speed) -> dict[str, list[float]]:
    """What is expected over what it took, by kind."""
    ratios: dict[str, list[float]] = {}
    for recipe, took in seconds.items():
        ratios.setdefault(kind_of(recipe), []).append(speed.seconds(recipe) / took)
    return ratios


def main() -> None:
    torch.set_num_threads(1)
    store = PaperStore(Path(sys.argv[1] if len(sys.argv) > 1 else "results"), SCALE)
    for kind, ratios in compare_estimates(read_seconds(store), Speed()).items():
        print(f"{kind:12} {len(ratios):3} results, expected over taken: median {median(ratios):.2f}")


if __name__ == "__main__":
    main()
