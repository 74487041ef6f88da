"""Groups of trained models, A1, A2, … against B1, B2, …: training spread apart from test-set noise."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import stdtrit

from leastwise.statistics.intervals import CONFIDENCE, ClassValues, Hits, OneRun

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
    """`groups` on the images of each class; None where a class has none."""
    members = [labels == c for c in range(k)]
    return tuple(compare_groups([h[m] for h in a], [h[m] for h in b], confidence) if m.any() else None for m in members)


def variance_components(hits: Runs) -> tuple[float, float]:
    """Variance of the models' accuracies, and what of it is training; NaN for a single model."""
    models, n = hits.shape
    if models < 2:
        return float("nan"), float("nan")
    means = hits.mean(1)
    residual = hits - means[:, None] - hits.mean(0) + hits.mean()
    rest = float((residual**2).sum()) / ((models - 1) * (n - 1))
    between = float(means.var(ddof=1))
    return between, max(0.0, between - rest / n)


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
