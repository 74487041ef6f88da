"""Groups of trained models, A1, A2, … against B1, B2, …: training spread apart from test-set noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import chdtri, stdtrit

from leastwise.statistics.accuracy import CONFIDENCE, ClassValues, Hits, OneRun

# What all classes together say of one class's training variance counts as so many trainings more. Estimated from ten
# classes of two trainings it came out too high, and 8 to 12 % of comparisons without a difference had a star where the
# spread of classes differed by e^±0.5; with 5 it is at most 6 %.
PRIOR_FREEDOM = 5.0
MOST_BORROWED = 2.5  # times what a class knows itself: 1 against 2 trainings otherwise reached 11 %

Runs = Float[np.ndarray, "_ n"]  # 1 where a trained model (row) is right about an image (column)


@dataclass(frozen=True)
class GroupDifference:
    """Mean accuracy of the B models minus that of the A models, and where its uncertainty comes from."""

    n: int  # images
    difference: float
    low: float
    high: float
    freedom: float  # Satterthwaite's degrees of freedom of the interval
    training_a: float  # standard deviation between trainings of A with test noise taken out; NaN for one model
    training_b: float
    test: float  # standard error that the choice of test images alone leaves in the difference


def compare_groups(a: Sequence[OneRun], b: Sequence[OneRun], confidence: float = CONFIDENCE) -> GroupDifference:
    """Compare two groups of models on the same images (one boolean array per model).

    Within a group: hit[i, s] = mean + training_i + image_s + rest[i, s]. The accuracies of the I models vary by
    S² = Var(training) + Var(rest)/n, because all models share the images, and the two-way residual mean
    square estimates Var(rest): Var(training) = S² − residual/n, at least 0. The images leave T = Var_s(D_s)/n in the
    difference, D_s = mean_j B[j, s] − mean_i A[i, s]; T holds the rest's share too. Total = Var(training_A)/I +
    Var(training_B)/J + T: the spread over new trainings *and* new images. The interval is Student's with
    Satterthwaite's freedom total² / ((S²_A/I)²/(I−1) + (S²_B/J)²/(J−1) + T²/(n−1)). A group of one model
    borrows the training variance of the other; with one model on each side the interval speaks of these two only.
    """
    if not len(a) or not len(b):
        raise ValueError("a group without a model cannot be compared: give at least one result on each side")
    x, y = np.stack(a).astype(np.float64), np.stack(b).astype(np.float64)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"the groups saw {x.shape[1]} and {y.shape[1]} images: compare results on the same images")
    n = x.shape[1]
    difference = float(y.mean() - x.mean()) if n else float("nan")
    if n < 2:
        nan = float("nan")
        return GroupDifference(n, difference, nan, nan, nan, nan, nan, nan)
    # One imaginary image for each side alone, as `paired` has them: models that never disagreed here may elsewhere.
    by_image = np.append(y.mean(0) - x.mean(0), [-1.0, 1.0])
    test = float(by_image.var(ddof=1)) / (n + 2)
    total, doubt = test, test**2 / (n - 1)
    for share, hits in training_shares(x, y):
        between, training = variance_components(hits)
        total += share * training
        doubt += (share * between) ** 2 / (len(hits) - 1)
    freedom = total**2 / doubt if doubt > 0 else float(n - 1)
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * float(np.sqrt(total))
    sd_a, sd_b = (float(np.sqrt(variance_components(hits)[1])) for hits in (x, y))
    low, high = max(-1.0, difference - half), min(1.0, difference + half)
    return GroupDifference(n, difference, low, high, freedom, sd_a, sd_b, float(np.sqrt(test)))


def training_shares(x: Runs, y: Runs) -> list[tuple[float, Runs]]:
    """How much of which group's training variance is in the difference."""
    one_over = 1 / len(x), 1 / len(y)
    if len(x) == 1 or len(y) == 1:
        several = [hits for hits in (x, y) if len(hits) > 1]
        return [(sum(one_over), hits) for hits in several]
    return [(one_over[0], x), (one_over[1], y)]


def compare_class_groups(
    a: Sequence[Hits], b: Sequence[Hits], labels: Int[np.ndarray, " n"], *, k: int, confidence: float = CONFIDENCE
) -> tuple[GroupDifference | None, ...]:
    """`compare_groups` on the images of each class, with training variances moderated over the classes.

    Two or three trainings tell almost nothing of a class's own variance: two that happen to lie close would leave none
    at all. The variance that trainings give a class's difference is therefore drawn towards what it would be if
    all classes varied alike, as if that were known from five trainings more (`moderate`, after limma). None where a
    class has no images.
    """
    members = [np.flatnonzero(labels == c) for c in range(k)]
    plain = [compare_groups([h[m] for h in a], [h[m] for h in b], confidence) if len(m) else None for m in members]
    if max(len(a), len(b)) < 2:
        return tuple(plain)
    use = [c for c, one in enumerate(plain) if one is not None and one.n >= 2]
    if len(use) < 2:
        return tuple(plain)
    x, y = np.stack(a).astype(np.float64), np.stack(b).astype(np.float64)
    parts = np.array([training_parts(x[:, members[c]], y[:, members[c]]) for c in use])
    variance, freedom = moderate(parts[:, 0], parts[:, 1], training_freedom(parts[:, 2:].mean(0), len(a), len(b)))
    found = list(plain)
    for c, v, rest in zip(use, variance, parts[:, 1], strict=True):
        one = plain[c]
        assert one is not None
        total = max(0.0, float(v) - float(rest)) + one.test**2
        doubt = float(v) ** 2 / freedom + one.test**4 / (one.n - 1)
        found[c] = widen(one, total, freedom=total**2 / doubt if doubt > 0 else one.n - 1.0, confidence=confidence)
    return tuple(found)


def widen(one: GroupDifference, total: float, *, freedom: float, confidence: float) -> GroupDifference:
    """The same difference with another variance."""
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * float(np.sqrt(total))
    low, high = max(-1.0, one.difference - half), min(1.0, one.difference + half)
    return replace(one, low=low, high=high, freedom=freedom)


def training_parts(x: Runs, y: Runs) -> tuple[float, float, float, float]:
    """Of one class: variance of the difference as trainings show it, what images alone put into it, and each side's."""
    shares = training_shares(x, y)
    between = [share * variance_components(hits)[0] for share, hits in shares]
    # One right and one wrong image more, as elsewhere: trainings that never differed here may elsewhere.
    rest = sum(
        share * (residual_square(hits) * hits.shape[1] + 0.5) / (hits.shape[1] + 2) / hits.shape[1]
        for share, hits in shares
    )
    return sum(between), rest, between[0], between[1] if len(between) > 1 else 0.0


def training_freedom(between: Float[np.ndarray, " 2"], first: int, second: int) -> float:
    """Satterthwaite's degrees of freedom of the two sides' variances together."""
    if min(first, second) == 1:
        return max(first, second) - 1.0
    if not between.sum() > 0:
        return first + second - 2.0
    return float(between.sum() ** 2 / (between[0] ** 2 / (first - 1) + between[1] ** 2 / (second - 1)))


def moderate(
    variance: Float[np.ndarray, " c"], rest: Float[np.ndarray, " c"], freedom: float
) -> tuple[Float[np.ndarray, " c"], float]:
    """Variances drawn towards a common training variance plus each class's own noise, and their degrees of freedom.

    (d0·s0² + d·s²)/(d0 + d) with d0 = 5 (2.5 for 1 against 2), in units of what is expected of each class (after
    Smyth 2004). The result has d + d0 degrees of freedom, and no more than all classes together.
    """
    expected = max(0.0, float((variance - rest).mean())) + rest
    u = variance / expected
    most = len(u) * freedom
    prior = min(PRIOR_FREEDOM, MOST_BORROWED * freedom, most)
    return expected * (prior * max(1.0, float(u.mean())) + freedom * u) / (prior + freedom), min(freedom + prior, most)


def training_interval(hits: Runs, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Interval of the standard deviation between trainings: χ² of their variance, less the share of the test images.

    For normal scatter of trainings; NaN for one training, or for fewer than two images.
    """
    models, n = hits.shape
    if models < 2 or n < 2:
        return float("nan"), float("nan")
    between, tail, freedom = variance_components(hits)[0], (1 - confidence) / 2, models - 1
    noise = residual_square(hits) / n
    low, high = (freedom * between / float(chdtri(freedom, p)) - noise for p in (tail, 1 - tail))
    # Trainings that show no variance still may have some: the noise alone would have shown this much.
    high = max(high, freedom * noise / float(chdtri(freedom, 1 - tail)) - noise)
    return float(np.sqrt(max(0.0, low))), float(np.sqrt(max(0.0, high)))


def variance_components(hits: Runs) -> tuple[float, float]:
    """Variance of the models' accuracies, and what of it is training; NaN for a single model."""
    if len(hits) < 2:
        return float("nan"), float("nan")
    between = float(hits.mean(1).var(ddof=1))
    return between, max(0.0, between - residual_square(hits) / hits.shape[1])


def residual_square(hits: Runs) -> float:
    """The mean square of what neither model nor image explains."""
    models, n = hits.shape
    residual = hits - hits.mean(1)[:, None] - hits.mean(0) + hits.mean()
    return float((residual**2).sum()) / ((models - 1) * (n - 1))


@dataclass(frozen=True)
class Agreement:
    """How alike two models order the classes that both have; NaN where a model's classes are all equal."""

    classes: int
    kendall: float  # τ-b
    spearman: float
    cosine: float  # of the deviations from the class mean (Benz): Pearson's correlation


def measure_agreement(a: ClassValues, b: ClassValues) -> Agreement:
    """How alike two models order the classes, by three measures."""
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both], b[both]
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        nan = float("nan")
        return Agreement(len(a), nan, nan, nan)
    from scipy.stats import kendalltau, rankdata  # takes a second to import

    kendall, spearman = float(kendalltau(a, b).statistic), correlation(rankdata(a), rankdata(b))
    return Agreement(len(a), kendall, spearman, correlation(a, b))


def find_dominated(scores: Float[np.ndarray, "m s"]) -> Bool[np.ndarray, " m"]:
    """Which models another one equals or beats in every score and beats in one (clean, robust, worst)."""
    at_least = np.all(scores[:, None] <= scores[None], axis=-1)
    better = np.any(scores[:, None] < scores[None], axis=-1)
    return np.asarray(np.any(at_least & better, axis=1))


def correlation(a: "np.ndarray", b: "np.ndarray") -> float:
    """Pearson's correlation."""
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))
