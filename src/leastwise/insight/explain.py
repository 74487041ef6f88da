"""Everything that one audit says about why its weak classes are weak."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from leastwise.audit.evidence import ConfusionMatrix, Evidence, class_mean, count_confusions, cvc, entropy
from leastwise.audit.record import ClassSums
from leastwise.insight.agreement import RankCorrelation, mean_rank_correlation, rank_correlation
from leastwise.insight.confusion import (
    SHUFFLES,
    Communities,
    InsideGroups,
    Symmetry,
    compare_with_groups,
    count_inside_groups,
    in_flow,
    measure_symmetry,
)
from leastwise.insight.features import (
    Moments,
    inter_class_similarity,
    intra_class_variance,
    mean_logit_similarity,
)
from leastwise.statistics.accuracy import ClassValues

SPLITS = 20  # ways to halve the images
FEW, MOST = 50, 200  # classes: beyond, fewer permutations; none, and no communities (at 1,000 both take half a minute)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Under one condition; by class where it is by class."""

    condition: str
    accuracy: ClassValues
    confusion: ConfusionMatrix
    in_flow: ClassValues
    attractor: int | None  # the class that most mistakes end in; None without a mistake
    symmetry: Symmetry
    inside: InsideGroups | None  # superclasses, if the data have any
    communities: Communities | None  # the same, and not too many classes
    logit_similarity: ClassSums  # empty where evidence keeps no sums
    candidates: Mapping[str, ClassValues]  # what may make a class weak
    predicts: Mapping[str, RankCorrelation]  # how each candidate orders the classes' accuracy


def explain_classes(
    evidence: Evidence, condition: str, clean: str = "clean", *, found: Moments | None = None
) -> Explanation:
    """Candidates: accuracy, entropy and CVC without attack and, with the moments of features, similarity and variance.

    Each is correlated with the accuracy under `condition` over the classes; what comes from the same images is measured
    on one half of them and the accuracy on the other, because an image that is hard without attack is hard under one
    too, and classes that are all alike would seem to follow each other by chance. Of several candidates one may be high
    by chance: what is seen in one model is a hint for the next.
    """
    matrix = count_confusions(evidence, condition)
    flow = in_flow(matrix)
    robust = class_accuracy(evidence, condition)
    candidates = {
        "clean accuracy": class_accuracy(evidence, clean),
        "entropy": entropy(evidence, clean),
        "variance of confidence": cvc(evidence, clean),
    }
    of_features = {}
    if found is not None:
        of_features = {
            "similarity to another class": inter_class_similarity(found.means),
            "variance of features": intra_class_variance(found),
        }
    return Explanation(
        condition=condition,
        accuracy=robust,
        confusion=matrix,
        in_flow=flow,
        attractor=None if np.isnan(flow).all() else int(flow.argmax()),
        symmetry=measure_mutual(matrix),
        inside=count_inside_groups(matrix, evidence.groups) if evidence.groups else None,
        communities=compare_with_groups(matrix, evidence.groups, as_many=True)
        if evidence.groups and evidence.k <= MOST
        else None,
        logit_similarity=mean_logit_similarity(evidence, condition)
        if evidence.conditions[condition].logit_sum.size
        else np.zeros((0, 0)),
        candidates=candidates | of_features,
        predicts=correlate_halves(evidence, condition, clean)
        | {name: rank_correlation(values, robust) for name, values in of_features.items()},
    )


def correlate_halves(evidence: Evidence, condition: str, clean: str) -> dict[str, RankCorrelation]:
    """How accuracy, entropy and CVC of one half of the images order the classes' accuracy on the other half."""
    without = evidence.conditions[clean]
    values = {
        "clean accuracy": evidence.correct(clean).astype(float),
        "entropy": without.entropy.astype(float),
        "variance of confidence": without.p_squared.astype(float),  # which CVC rises with, and nothing else
    }
    robust = evidence.correct(condition).astype(float)
    halves = [half for one in split_in_two(evidence.labels) for half in (one, ~one)]

    def by_half(image_values: "np.ndarray", of: "list[np.ndarray]") -> "np.ndarray":
        return np.stack([class_mean(image_values[half], evidence.labels[half], evidence.k) for half in of])

    y = by_half(robust, [~half for half in halves])
    return {name: mean_rank_correlation(by_half(one, halves), y) for name, one in values.items()}


def split_in_two(labels: "np.ndarray", splits: int = SPLITS, seed: int = 0) -> "Iterator[np.ndarray]":
    """Random halves of the images of each class; of an odd number one half has one more."""
    rng = np.random.default_rng(seed)
    for _ in range(splits):
        order = np.lexsort((rng.random(len(labels)), labels))
        place = np.arange(len(labels)) - np.searchsorted(labels[order], labels[order])
        half = np.empty(len(labels), dtype=bool)
        half[order] = place % 2 == 0
        yield half


def measure_mutual(matrix: ConfusionMatrix) -> Symmetry:
    """The symmetry of confusions, with fewer permutations where classes are many."""
    k = len(matrix)
    found = measure_symmetry(matrix, shuffles=SHUFFLES if k <= FEW else SHUFFLES // 10 if k <= MOST else 0)
    return replace(found, p=float("nan")) if k > MOST else found


def class_accuracy(evidence: Evidence, condition: str) -> ClassValues:
    """The accuracy of each class under a condition."""
    return evidence.tally(condition).accuracy.numpy()
