"""The flat keys of RobustBench's model files, in its own units: percent as text, eps as people write it."""

from collections.abc import Mapping
from typing import Any

from leastwise.attacks.autoattack import STANDARD
from leastwise.attacks.base import Clean
from leastwise.attacks.corruptions import Corrupted
from leastwise.attacks.threats import Linf
from leastwise.audit.evidence import Evidence
from leastwise.audit.masking import ball_of, masking_sentences


def make_leaderboard(evidence: Evidence, run: Mapping[str, Any]) -> dict[str, Any]:
    """What an audit knows of them; null where only the authors of a model could know."""
    clean, attacked, corrupted = (mean_percent(evidence, names) for names in find_conditions(evidence))
    return {
        "link": None,
        "name": run.get("model"),
        "authors": None,
        "additional_data": None,
        "number_forward_passes": 1,
        "dataset": str(run["data"]).partition("/")[0] if "data" in run else None,
        "venue": None,
        "architecture": run.get("arch"),
        "eps": shared_radius(evidence),
        "clean_acc": clean,
        "reported": None,
        "autoattack_acc": attacked,
        "corruptions_acc": corrupted,
        "external": None,
        "unreliable": bool(masking_sentences(evidence)),
        "footnote": " ".join(f"{text}." for text in evidence.warnings) or None,
    }


def find_conditions(evidence: Evidence) -> tuple[list[str], list[str], list[str]]:
    """Which conditions are the clean images, AutoAttack's standard version, and corruptions."""
    kinds = {name: attack["type"] for name, attack in evidence.attacks.items()}
    clean = [name for name, kind in kinds.items() if kind == Clean.recipe_name]
    corrupted = [name for name, kind in kinds.items() if kind == Corrupted.recipe_name]
    return clean[:1], [name for name in kinds if name == STANDARD.spelling], corrupted


def mean_percent(evidence: Evidence, names: list[str]) -> str | None:
    """Mean accuracy over the conditions, with two digits."""
    if not names:
        return None
    return f"{100 * sum(evidence.tally(name).overall for name in names) / len(names):.2f}"


def shared_radius(evidence: Evidence) -> str | None:
    """The radius, if all attacks share one."""
    balls = [ball_of(attack) for attack in evidence.attacks.values()]
    found = {(ball["type"], ball["eps"]) for ball in balls if ball is not None}
    if len(found) != 1:
        return None
    norm, radius = found.pop()
    times = round(255 * radius, 6)
    return f"{times:g}/255" if norm == Linf.recipe_name and times == round(times) else f"{radius:g}"
