"""Claims about what agrees with what: C3, C4, C5, C6, C16, C17, C19, C25, C31."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from leastwise.audit.evidence import ConfusionMatrix, Evidence, count_confusions
from leastwise.core.counts import Tally
from leastwise.data.classes import Groups
from leastwise.insight.agreement import (
    agreement_difference,
    compare_profiles,
    mean_agreement,
    percentile_interval,
    rank_correlation,
)
from leastwise.insight.confusion import count_inside_groups, measure_symmetry
from leastwise.insight.dynamics import measure_convergence
from leastwise.papers.claims.base import (
    PERCENT,
    Accuracies,
    Claim,
    ClaimDecision,
    ClaimFinding,
    above,
    below,
    bootstrap_statistic,
    share_images,
)
from leastwise.statistics.accuracy import CONFIDENCE, ClassValues, adjust_holm, exact_interval

MATRIX_DRAWS = 500
SHUFFLES = 1999
LATE = 0.5  # of a training, over which it is looked how much it fluctuates
LITTLE = 0.5  # a W below it is little agreement

ModelProfiles = Float[np.ndarray, "m k"]


def profiles_agree(accuracy: ModelProfiles, seed: int = 0) -> tuple[ClaimFinding, ...]:
    """C3, C4: mean cosine of the deviations of every two models.

    Holds if every pair beats the permutation null after Holm's correction. The interval is the jackknife's.
    """
    p = compare_profiles(accuracy, seed).p[np.triu_indices(len(accuracy), 1)]
    found = mean_agreement(accuracy)
    hardest = float(adjust_holm(p).max())
    verdict: ClaimDecision = (
        "holds" if hardest <= 1 - CONFIDENCE else "does not hold" if found.high < 0 else "undecided"
    )
    what = f"mean cosine of {len(accuracy)} models ({len(p)} pairs)" if len(p) > 1 else "cosine of two models"
    return (ClaimFinding(what, found.value, found.low, found.high, verdict, hardest),)


def robust_agree_more(
    standard: ModelProfiles, robust: Float[np.ndarray, "others k"], seed: int = 0
) -> tuple[ClaimFinding, ...]:
    """C5: mean cosine among robust networks minus that among standard ones."""
    found = agreement_difference(standard, robust, seed=seed)
    return (above("difference of mean cosines", found.value, found.low, found.high),)


def confusions_are_mutual(evidence: Evidence, condition: str) -> tuple[ClaimFinding, ...]:
    """C6, first part: symmetry of the confusions."""
    matrix = count_confusions(evidence, condition)
    mutual = measure_symmetry(matrix)
    low, high = symmetry_bounds(matrix, mutual.score)
    sure = mutual.p <= 1 - CONFIDENCE and low > 0
    verdict: ClaimDecision = "holds" if sure else "does not hold" if high < 0 else "undecided"
    return (ClaimFinding(f"symmetry of confusions under {condition}", mutual.score, low, high, verdict, mutual.p),)


def confusions_stay_near(evidence: Evidence, condition: str, groups: Groups = ()) -> tuple[ClaimFinding, ...]:
    """C6, second part: the share of confusions inside superclasses against mistakes that fall anywhere."""
    groups = groups or evidence.groups
    if not groups:
        raise ValueError("the data have no superclasses")
    near = count_inside_groups(count_confusions(evidence, condition), groups)
    least, most = exact_interval(np.array([near.inside]), np.array([near.mistakes]))
    what = f"share of confusions inside superclasses (by chance {100 * near.expected:.1f} %)"
    return (above(what, near.share, float(least[0]), float(most[0]), threshold=near.expected, unit=PERCENT),)


def symmetry_bounds(matrix: ConfusionMatrix, score: float, seed: int = 0) -> tuple[float, float]:
    """Of the symmetry score over images drawn again, each row a multinomial of its own shares.

    The wider of the percentile and the basic interval: draws of few mistakes are biased towards 0.
    """
    rng = np.random.default_rng(seed)
    n = matrix.sum(1)
    shares = matrix / np.maximum(n, 1)[:, None]
    scores = np.array([measure_symmetry(rng.multinomial(n, shares), shuffles=0).score for _ in range(MATRIX_DRAWS)])
    low, high = percentile_interval(scores[~np.isnan(scores)])
    return min(low, 2 * score - high), max(high, 2 * score - low)


def convergence_predicts(train: Sequence[Tally], robustness: ClassValues) -> tuple[ClaimFinding, ...]:
    """C16: rank correlation of a class's clean training accuracy at the end with its test robustness."""
    found = rank_correlation(measure_convergence(train).final, robustness)
    return (above("rank correlation of convergence and robustness", found.rho, found.low, found.high, p=found.p),)


def hard_classes_wobble(train: Sequence[Tally], robustness: ClassValues) -> tuple[ClaimFinding, ...]:
    """C31: rank correlation of how a class's training accuracy fluctuates late in training with its robustness."""
    found = rank_correlation(measure_convergence(train, last=LATE).wobble, robustness)
    return (below("rank correlation of wobble and robustness", found.rho, found.low, found.high, p=found.p),)


def same_class_order(profiles: ModelProfiles, seed: int = 0) -> tuple[ClaimFinding, ...]:
    """C25: Kendall's W of the classes over attacks and defences, p by permuting within each; interval over classes."""
    if len(profiles) < 2:
        raise ValueError("an order is compared between two or more: give more of them")
    value = float(kendall_w(profiles))
    rng = np.random.default_rng(seed)
    null = kendall_w(rng.permuted(np.broadcast_to(profiles, (SHUFFLES, *profiles.shape)), axis=-1))
    p = (1 + int((null >= value - 1e-12).sum())) / (1 + SHUFFLES)
    rows = rng.integers(0, profiles.shape[1], (SHUFFLES, profiles.shape[1]))
    drawn = kendall_w(np.moveaxis(profiles[:, rows], 0, 1))
    low, high = percentile_interval(drawn[~np.isnan(drawn)])
    verdict: ClaimDecision = (
        "holds" if p <= 1 - CONFIDENCE and low > LITTLE else "does not hold" if high < LITTLE else "undecided"
    )
    what = f"Kendall's W of {profiles.shape[1]} classes over {len(profiles)} attacks and defences"
    return (ClaimFinding(what, value, low, min(1.0, high), verdict, p),)


def same_hard_groups(
    methods: Sequence[Evidence], condition: str, groups: Groups = (), *, seed: int = 0
) -> tuple[ClaimFinding, ...]:
    """C17: Kendall's W of the superclasses' robustness over methods; p by permuting within methods."""
    same = share_images(*((evidence, condition) for evidence in methods))
    members = [list(classes) for _, classes in groups or methods[0].groups]
    if len(members) < 2 or len(methods) < 2:
        raise ValueError("agreement needs two methods and two superclasses: give more of them")

    def by_group(a: Accuracies, n: "np.ndarray") -> "np.ndarray":
        return np.stack([np.nansum(a[..., m] * n[m], axis=-1) / max(n[m].sum(), 1) for m in members], axis=-1)

    value, low, high = bootstrap_statistic(same, lambda a, n: kendall_w(by_group(a, n)), seed)
    rng = np.random.default_rng(seed)
    table = by_group(same.accuracies(), same.n)
    null = kendall_w(rng.permuted(np.broadcast_to(table, (SHUFFLES, *table.shape)), axis=-1))
    p = (1 + int((null >= value - 1e-12).sum())) / (1 + SHUFFLES)
    verdict: ClaimDecision = "holds" if p <= 1 - CONFIDENCE else "does not hold" if high < LITTLE else "undecided"
    return (
        ClaimFinding(
            f"Kendall's W of {len(members)} superclasses over {len(methods)} methods",
            value,
            low,
            min(1.0, high),
            verdict,
            p,
        ),
    )


def kendall_w(scores: Float[np.ndarray, "... m g"]) -> Float[np.ndarray, "..."]:
    """Agreement of m rankings of g things: 12·Σ(R − R̄)² / (m²·(g³ − g) − m·Σ(t³ − t)), corrected for ties."""
    ranks = rankdata(scores, axis=-1)
    m, g = ranks.shape[-2:]
    total = ranks.sum(-2)
    # Σ(t³ − t) over groups of ties is what the ranks' variance lacks: 12 times it, per ranking.
    lacking = (g**3 - g) - 12 * ((ranks - (g + 1) / 2) ** 2).sum(-1)
    most = m**2 * (g**3 - g) - m * lacking.sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(12 * ((total - total.mean(-1, keepdims=True)) ** 2).sum(-1) / most)


def similarity_predicts_error(similarity: ClassValues, error: ClassValues) -> tuple[ClaimFinding, ...]:
    """C19: rank correlation of similarity to cat in standard training with the error of telling the two apart."""
    found = rank_correlation(similarity, error)
    return (above("rank correlation of similarity and error", found.rho, found.low, found.high, p=found.p),)


ARCHITECTURES_AGREE = Claim(
    "C3",
    ("benz2021",),
    "Architectures, optimisers and kinds of features find the same classes hard.",
    "cosines of deviations, permutation null",
    (profiles_agree,),
)
TRAININGS_AGREE = Claim(
    "C4",
    ("benz2021",),
    "Standard and adversarial training find the same classes hard.",
    "cosine of deviations, permutation null",
    (profiles_agree,),
)
ROBUST_NETWORKS_AGREE_MORE = Claim(
    "C5",
    ("benz2021",),
    "Robust networks agree more than standard ones.",
    "difference of mean cosines",
    (robust_agree_more,),
)
CONFUSIONS_ARE_MUTUAL = Claim(
    "C6",
    ("benz2021", "tian2021"),
    "Confusion is mutual and stays inside superclasses.",
    "correlation of the confusions with their mirror image; share inside against chance",
    (confusions_are_mutual, confusions_stay_near),
    parts=("mutual", "inside superclasses"),
)
CONVERGENCE_PREDICTS_ROBUSTNESS = Claim(
    "C16",
    ("ahn",),
    "Clean training convergence predicts the robustness of a class.",
    "rank correlation over classes",
    (convergence_predicts,),
)
METHODS_SHARE_HARD_GROUPS = Claim(
    "C17",
    ("ahn",),
    "Superclasses that are hard for one method are hard for all.",
    "Kendall's W over methods",
    (same_hard_groups,),
)
SIMILARITY_PREDICTS_ERROR = Claim(
    "C19",
    ("tradeoff2022",),
    "Similarity to cat in standard training predicts the error of telling cat apart in adversarial training.",
    "rank correlation over classes",
    (similarity_predicts_error,),
)
SAME_CLASS_ORDER = Claim(
    "C25",
    ("tian2021",),
    "The order of the classes is the same under all attacks and defences.",
    "Kendall's W over attacks and defences",
    (same_class_order,),
)
HARD_CLASSES_WOBBLE = Claim(
    "C31",
    ("ahn",),
    "Hard classes are unstable in training.",
    "rank correlation of the wobble of training accuracy with robustness",
    (hard_classes_wobble,),
)

AGREEMENT_CLAIMS = (
    ARCHITECTURES_AGREE,
    TRAININGS_AGREE,
    ROBUST_NETWORKS_AGREE_MORE,
    CONFUSIONS_ARE_MUTUAL,
    CONVERGENCE_PREDICTS_ROBUSTNESS,
    METHODS_SHARE_HARD_GROUPS,
    SIMILARITY_PREDICTS_ERROR,
    SAME_CLASS_ORDER,
    HARD_CLASSES_WOBBLE,
)
