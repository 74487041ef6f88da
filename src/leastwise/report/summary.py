"""Evidence -> summary.json: the class-wise numbers, ready to read by any program."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from leastwise.attacks.autoattack import STANDARD
from leastwise.attacks.base import Clean
from leastwise.attacks.corruptions import Corrupted
from leastwise.attacks.threats import Linf
from leastwise.audit.evidence import SUMMARY_FILE, Evidence, count_confusions, cvc, entropy
from leastwise.audit.masking import ball_of, cautions, doubted_conditions, masking_sentences
from leastwise.audit.record import SurvivorCheck
from leastwise.core.counts import ClassFrame
from leastwise.core.files import finite_or_none, with_nulls, write_json
from leastwise.data.classes import Groups
from leastwise.jobs.folder import read_run_facts
from leastwise.report.condition_stats import (
    ConditionStats,
    Curve,
    compute_stats,
    confusion_norm,
    make_curves,
    nearest_mistakes,
)
from leastwise.statistics.accuracy import CONFIDENCE, wilson_interval
from leastwise.statistics.games import pair_game, source_game
from leastwise.statistics.spread import boundary_error, false_positive_share, nsd_accuracy, nsd_error
from leastwise.statistics.worst_class import (
    GameValue,
    OrderedEstimate,
    estimate_cvar,
    estimate_gini,
    estimate_worst,
    estimate_worst_k,
    mistake_game,
)

SCHEMA = (
    3  # 2: the leaderboard's flat keys, fairness, provenance; 3: the worst class corrected first, intervals of tails
)


def summarise(
    evidence: Evidence, run: Mapping[str, Any] | None = None, cost: "np.ndarray | None" = None
) -> dict[str, Any]:
    """Fractions in [0, 1]; `cv` in percent squared, `mcd` and `std` in points; null for a class without examples.

    `run` is what else is known of the audit (run.json and manifest.json), `cost` what mistakes cost. The keys of
    RobustBench's files are at the top, in its units. docs/guide/results.md explains every key; summary.schema.json
    beside this file is the contract.
    """
    frame = evidence.frame()
    known = {} if run is None else dict(run)
    return make_leaderboard(evidence, known) | {
        "schema": SCHEMA,
        "key": evidence.key,
        "classes": list(evidence.names),
        "interval": {"method": "wilson", "confidence": CONFIDENCE},
        "warnings": list(cautions(evidence)),
        "doubted": sorted(doubted_conditions(evidence)),
        "checks": [describe_check(check, evidence.names) for check in evidence.checks],
        "groups": {name: [evidence.names[c] for c in classes] for name, classes in evidence.groups},
        "conditions": {
            name: condition_numbers(frame, row, evidence.groups)
            | grid_numbers(evidence, name)
            | eight_bit_numbers(evidence, name)
            | nearest_distances(evidence, name)
            | {"unconfirmed": evidence.unconfirmed(name).tolist()}
            for row, name in enumerate(frame.conditions)
        },
        "curves": {one.attack: curve_numbers(one) for one in make_curves(evidence)},
        "fairness": {name: measure_fairness(evidence, name, cost) for name in frame.conditions},
        "provenance": describe_provenance(evidence) | known,
    }


def write_summary(
    folder: Path, evidence: Evidence, cost: "np.ndarray | None" = None, **more: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The summary of an audit, written beside its evidence, with what else was found of it."""
    made = summarise(evidence, read_run_facts(folder), cost) | {name: found for name, found in more.items() if found}
    write_json(folder / SUMMARY_FILE, made)
    return made


def describe_provenance(evidence: Evidence) -> dict[str, Any]:
    """What determined the evidence, and what it cost."""
    recipe = json.loads(evidence.recipe)
    passes = {name: {"forwards": r.forwards, "backwards": r.backwards} for name, r in evidence.conditions.items()}
    if evidence.checks:
        each = [(check.forwards, check.backwards) for check in evidence.checks]
        checks = dict(zip(("forwards", "backwards"), map(sum, zip(*each, strict=True)), strict=True))
        passes["check of survivors"] = checks
    return {
        "images": len(evidence.ids),
        "model_digest": recipe.get("model"),
        "data_digest": recipe.get("data"),
        "seed": recipe.get("seed"),
        "passes": passes,
        "recipe": recipe,
    }


def describe_check(check: SurvivorCheck, names: Sequence[str]) -> dict[str, Any]:
    """What an attack without gradients broke of the survivors of some conditions; `fires` means: too much."""
    return {
        "conditions": list(check.conditions),
        "ball": check.ball,
        "attack": check.attack or None,
        "survivors": check.survivors,
        "sampled": check.sampled,
        "broken": check.fallen,
        "fraction": check.fallen / check.sampled if check.sampled else None,
        "excess": check.excess,
        "p": check.p,
        "fires": check.fires,
        "classes": {
            names[c]: {"sampled": n, "broken": b}
            for c, n, b in zip(check.classes, check.attacked, check.broken, strict=True)
        },
    }


def condition_numbers(frame: ClassFrame, row: int, groups: Groups = ()) -> dict[str, Any]:
    """Counts, accuracies, intervals and spread of one condition."""
    n, correct = frame.n[row].numpy(), frame.correct[row].numpy()
    low, high = wilson_interval(correct, n)
    accuracy = [finite_or_none(a) for a in frame.accuracy[row].tolist()]
    worst = int(frame.worst[row])
    found = estimate_worst(correct, n)
    return {
        "n": n.tolist(),
        "correct": correct.tolist(),
        "accuracy": accuracy,
        "low": [finite_or_none(v) for v in low.tolist()],
        "high": [finite_or_none(v) for v in high.tolist()],
        "overall": finite_or_none(float(frame.overall[row])),
        "macro": finite_or_none(float(frame.macro[row])),
        "worst": {
            "index": worst,
            "class": frame.names[worst],
            "corrected": found.corrected,
            "low": found.low,
            "high": found.high,
            "naive": {
                "method": "wilson",
                "accuracy": accuracy[worst],
                "low": float(low[worst]),
                "high": float(high[worst]),
            },
        },
        "cv": finite_or_none(1e4 * float(frame.variance[row])),
        "mcd": finite_or_none(100 * float(frame.gap[row])),
        "std": finite_or_none(100 * float(frame.std[row])),
        "groups": {name: group_numbers(n[list(classes)], correct[list(classes)]) for name, classes in groups},
    }


def grid_numbers(evidence: Evidence, name: str) -> dict[str, Any]:
    """Of a grid of attacks: each member on all images."""
    frames = {
        member: ClassFrame.of({name: evidence.against(name, number)}, evidence.names)
        for number, member in enumerate(evidence.members(name))
    }
    return {"members": {member: condition_numbers(frame, 0) for member, frame in frames.items()}} if frames else {}


def eight_bit_numbers(evidence: Evidence, name: str) -> dict[str, Any]:
    """What survives if attacked images are rounded to 8 bits, where that was asked for."""
    found = evidence.in_8_bits(name)
    if found is None:
        return {}
    return {"in_8_bits": {"n": found.n.tolist(), "correct": found.correct.tolist(), "overall": found.overall}}


def nearest_distances(evidence: Evidence, name: str) -> dict[str, Any]:
    """Median distances to the nearest mistake; null where most of a class survived."""
    found = nearest_mistakes(evidence, name)
    return {} if found is None else {"median_distance": with_nulls(found.tolist())}


def curve_numbers(one: Curve) -> dict[str, Any]:
    """A security curve: accuracy at each radius, and where a class is half lost."""
    return {
        "eps": list(one.radii),
        "conditions": list(one.conditions),
        "accuracy": with_nulls(one.accuracy.tolist()),
        "overall": with_nulls(one.overall.tolist()),
        "half_lost_at": with_nulls(one.half.tolist()),
        "half_lost_between": with_nulls(one.between.tolist()),
    }


def group_numbers(n: "np.ndarray", correct: "np.ndarray") -> dict[str, Any]:
    """The examples of all classes of a superclass together."""
    low, high = wilson_interval(correct.sum(keepdims=True), n.sum(keepdims=True))
    total = int(n.sum())
    accuracy = int(correct.sum()) / total if total else None
    return {
        "n": total,
        "accuracy": accuracy,
        "low": finite_or_none(float(low[0])),
        "high": finite_or_none(float(high[0])),
    }


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


WORST_K = (2, 3, 5, 10)
SHARES = (0.1, 0.2, 0.3)
MANY = 200  # classes from which the groups of a ranking are left out: they take seconds and nobody reads them


def measure_fairness(evidence: Evidence, condition: str, cost: "np.ndarray | None" = None) -> dict[str, Any]:
    """Everything papers report on the spread over classes; `cost` is of taking the row's class for the column's."""
    found = compute_stats(evidence, condition)
    accuracy = found.correct / np.where(found.n > 0, found.n, np.nan)
    wrong = ~evidence.correct(condition)
    flows_in = np.bincount(evidence.conditions[condition].predicted[wrong], minlength=evidence.k)
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
        "worst_k": {str(k): ordered_block(estimate_worst_k(found.correct, found.n, k)) for k in WORST_K if k < present},
        "cvar": {f"{share:g}": ordered_block(estimate_cvar(found.correct, found.n, share)) for share in SHARES},
        "gini": ordered_block(estimate_gini(found.correct, found.n)),
        "nsd_error": finite_or_none(nsd_error(accuracy)),
        "nsd_accuracy": finite_or_none(nsd_accuracy(accuracy)),
        "boundary_error": None if clean is None else with_nulls(boundary_error(clean, accuracy).tolist()),
        "false_positive_rate": with_nulls(false_positive_share(flows_in, found.n).tolist()),
        "confusion_norm": finite_or_none(confusion_norm(evidence, condition)),
        "confidence_variance": with_nulls(cvc(evidence, condition).tolist()),
        "entropy": with_nulls(entropy(evidence, condition).tolist()),
        "rank_groups": [[evidence.names[c] for c in group] for group in found.ranking.groups]
        if present < MANY
        else None,
        "ranks": {name: with_nulls(getattr(found.ranks, name).tolist()) for name in ("mean", "low", "high")},
        "game": game_block(evidence, found, condition, cost=cost),
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
        "candidates": [found.names[c] for c in found.candidates],
        "probability": with_nulls(found.probability.tolist()),
        "probability_low": with_nulls(found.least.tolist()),
        "probability_high": with_nulls(found.most.tolist()),
    }


def ordered_block(found: OrderedEstimate) -> dict[str, Any]:
    """A sum over sorted classes as plain values."""
    return {name: finite_or_none(value) for name, value in asdict(found).items()}


def game_block(
    evidence: Evidence, found: ConditionStats, condition: str, *, cost: "np.ndarray | None"
) -> dict[str, Any]:
    """What an attacker gains who picks the class, and the pair of classes where those were tried.

    Without costs every mistake costs 1.
    """
    k, reached = evidence.k, evidence.conditions[condition].reached
    if cost is None:
        made = {"class": value_block(mistake_game(found.correct, found.n), evidence)}
    else:
        made = {"class": value_block(source_game(count_confusions(evidence, condition), cost), evidence)}
    if reached.size:
        costs = np.ones((k, k)) - np.eye(k) if cost is None else cost
        made["pair"] = value_block(pair_game(reached, found.n, costs), evidence)
    return made


def value_block(found: GameValue, evidence: Evidence) -> dict[str, Any]:
    """The value of a game as plain values."""
    target = {} if found.target is None else {"target": evidence.names[found.target]}
    return (
        {"source": evidence.names[found.source]} | target | {"cost": found.value, "low": found.low, "high": found.high}
    )
