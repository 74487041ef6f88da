"""Everything that one audit says about why its weak classes are weak."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from leastwise.evidence import Evidence
from leastwise.geometry.confusion import (
    SHUFFLES,
    Communities,
    Inside,
    Matrix,
    Symmetry,
    against_groups,
    confusion,
    in_flow,
    inside_groups,
    symmetry,
)
from leastwise.geometry.features import Moments, PerClass, intra_class_variance
from leastwise.geometry.outputs import cvc, entropy
from leastwise.geometry.profiles import RankCorrelation, rank_correlation
from leastwise.geometry.similarity import Square, inter_class_similarity, mean_logit_similarity

FEW, MOST = 50, 200  # classes: beyond, fewer permutations; none, and no communities (at 1,000 both take half a minute)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Under one condition; by class where it is by class."""

    condition: str
    accuracy: PerClass
    confusion: Matrix
    in_flow: PerClass
    attractor: int | None  # the class that most mistakes end in; None without a mistake
    symmetry: Symmetry
    inside: Inside | None  # superclasses, if the data have any
    communities: Communities | None  # the same, and not too many classes
    logit_similarity: Square
    candidates: Mapping[str, PerClass]  # what may make a class weak
    predicts: Mapping[str, RankCorrelation]  # how each candidate orders the classes' accuracy


def explain(evidence: Evidence, condition: str, clean: str = "clean", found: Moments | None = None) -> Explanation:
    """Candidates: accuracy, entropy and CVC without attack and, with the moments of features, similarity and variance.

    Each is correlated with the accuracy under `condition` over the classes. Of several, one may be high by chance, and
    accuracy without attack bounds that under attack from above: what is seen in one model is a hint for the next.
    """
    matrix = confusion(evidence, condition)
    flow = in_flow(matrix)
    robust = by_class(evidence, condition)
    candidates = {
        "clean accuracy": by_class(evidence, clean),
        "entropy": entropy(evidence, clean),
        "variance of confidence": cvc(evidence, clean),
    }
    if found is not None:
        candidates |= {
            "similarity to another class": inter_class_similarity(found.means),
            "variance of features": intra_class_variance(found),
        }
    return Explanation(
        condition=condition,
        accuracy=robust,
        confusion=matrix,
        in_flow=flow,
        attractor=None if np.isnan(flow).all() else int(flow.argmax()),
        symmetry=mutual(matrix),
        inside=inside_groups(matrix, evidence.groups) if evidence.groups else None,
        communities=against_groups(matrix, evidence.groups, len(evidence.groups))
        if evidence.groups and evidence.k <= MOST
        else None,
        logit_similarity=mean_logit_similarity(evidence, condition),
        candidates=candidates,
        predicts={name: rank_correlation(values, robust) for name, values in candidates.items()},
    )


def mutual(matrix: Matrix) -> Symmetry:
    k = len(matrix)
    found = symmetry(matrix, shuffles=SHUFFLES if k <= FEW else SHUFFLES // 10 if k <= MOST else 0)
    return replace(found, p=float("nan")) if k > MOST else found


def by_class(evidence: Evidence, condition: str) -> PerClass:
    return evidence.tally(condition).accuracy.numpy()
