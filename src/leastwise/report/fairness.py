"""Evidence -> how unequally a condition treats the classes, with every number under a name of its own.

The same letters mean different things in different papers: CV is a variance here (Tian) and not the coefficient of
variation, and NSD has two readings, both given. Accuracies and shares are fractions; `cv` is in percent squared and
`sd_debiased` in points, as papers print them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from leastwise.audit.evidence import Evidence
from leastwise.core.files import finite_or_none, with_nulls
from leastwise.insight.confusion import count_confusions, cvc, entropy
from leastwise.report.condition_stats import ConditionStats, compute_stats
from leastwise.statistics.spread import (
    boundary_error,
    cvar,
    false_positive_rate,
    gini,
    nsd_accuracy,
    nsd_error,
    worst_k_mean,
)
from leastwise.statistics.worst_class import GameValue, pair_game, source_game

WORST_K = (2, 3, 5, 10)
SHARES = (0.1, 0.2, 0.3)
MANY = 200  # classes from which the groups of a ranking are left out: they take seconds and nobody reads them


def measure_fairness(evidence: Evidence, condition: str, cost: "np.ndarray | None" = None) -> dict[str, Any]:
    """Everything papers report on the spread over classes; `cost` is of taking the row's class for the column's."""
    found = compute_stats(evidence, condition)
    accuracy = found.correct / np.where(found.n > 0, found.n, np.nan)
    counts = count_confusions(evidence, condition)
    present = int((found.n > 0).sum())
    clean = evidence.tally("clean").accuracy.numpy() if "clean" in evidence.conditions else None
    return {
        "worst": worst_block(found),
        "cv": {
            "plug_in": finite_or_none(1e4 * found.spread.plug_in),
            "debiased": finite_or_none(1e4 * found.spread.debiased),
            "error": finite_or_none(1e4 * found.spread.error),
            "low": finite_or_none(1e4 * found.spread_low),
            "high": finite_or_none(1e4 * found.spread_high),
            "left_out": [evidence.names[c] for c in found.spread.left_out],
        },
        "sd_debiased": finite_or_none(100 * found.spread.sd) if found.spread.used > 1 else None,
        "homogeneity_p": finite_or_none(found.same),
        "worst_k": {str(k): finite_or_none(worst_k_mean(accuracy, k)) for k in WORST_K if k < present},
        "cvar": {f"{share:g}": finite_or_none(cvar(accuracy, share)) for share in SHARES},
        "gini": finite_or_none(gini(accuracy)),
        "nsd_error": finite_or_none(nsd_error(accuracy)),
        "nsd_accuracy": finite_or_none(nsd_accuracy(accuracy)),
        "boundary_error": None if clean is None else with_nulls(boundary_error(clean, accuracy).tolist()),
        "false_positive_rate": with_nulls(false_positive_rate(counts).tolist()),
        "confusion_norm": finite_or_none(off_diagonal_norm(counts)),
        "confidence_variance": with_nulls(cvc(evidence, condition).tolist()),
        "entropy": with_nulls(entropy(evidence, condition).tolist()),
        "rank_groups": [[evidence.names[c] for c in group] for group in found.ranking.groups]
        if present < MANY
        else None,
        "game": game_block(evidence, condition, counts, cost=cost),
    }


def worst_block(found: ConditionStats) -> dict[str, Any]:
    """`low` to `high` covers the accuracy of the truly worst class, whichever it is."""
    worst = found.worst
    return {
        "class": found.names[worst.index],
        "plug_in": worst.plug_in,
        "corrected": worst.corrected,
        "low": worst.low,
        "high": worst.high,
        "confidence": worst.confidence,
        "probability": with_nulls(found.probability.tolist()),
    }


def game_block(
    evidence: Evidence, condition: str, counts: "np.ndarray", *, cost: "np.ndarray | None"
) -> dict[str, Any]:
    """What an attacker gains who picks the class, and the pair of classes where those were tried.

    Without costs every mistake costs 1.
    """
    k = evidence.k
    costs = np.ones((k, k)) - np.eye(k) if cost is None else cost
    made = {"class": value_block(source_game(counts, costs), evidence)}
    reached = evidence.conditions[condition].reached
    if reached.size:
        made["pair"] = value_block(pair_game(reached, counts.sum(1), costs), evidence)
    return made


def value_block(found: GameValue, evidence: Evidence) -> dict[str, Any]:
    """The value of a game as plain values."""
    target = {} if found.target is None else {"target": evidence.names[found.target]}
    return (
        {"source": evidence.names[found.source]} | target | {"cost": found.value, "low": found.low, "high": found.high}
    )


def off_diagonal_norm(counts: "np.ndarray") -> float:
    """The largest singular value of the shares that go astray: one number for how concentrated mistakes are."""
    share = counts / np.maximum(counts.sum(1), 1)[:, None]
    np.fill_diagonal(share, 0.0)
    return float(np.linalg.norm(share, 2))


def game_line(block: Mapping[str, Any]) -> str:
    """The game in a sentence."""
    pick, pair = block["class"], block.get("pair")
    said = f"an attacker who picks the class gains {pick['cost']:.3f} [{pick['low']:.3f}, {pick['high']:.3f}] with "
    said += str(pick["source"])
    if pair:
        said += f"; who picks a pair, {pair['cost']:.3f} [{pair['low']:.3f}, {pair['high']:.3f}] by turning "
        said += f"{pair['source']} into {pair['target']}"
    return said
