"""What counts say of true accuracies: of each by itself, of two models on the same images, and of all classes together.

Of one proportion, Wilson's interval is for display; exact (Clopper-Pearson) wherever a decision hangs on it, because
Wilson's coverage dips near 0, which is where weak classes live (to 84 % at n = 100 and p = 0.0018).

Of all classes together, once a prior has been learned from them: a class with few images borrows from the others, as
much as these are alike. The prior is a mixture of equally wide parts whose number is learned too (a Dirichlet process),
so that classes which are all alike, all different or in two clusters each get the prior that they need; and several
priors that fit are kept, for with few classes none is certain. Tight parts are likelier than wide ones, so that classes
count as alike until they show that they differ. Everything happens on the scale arcsin √p, on which a proportion of n
images has the noise 1/(2√n) whatever it is. The seed is fixed and classes are sorted first: equal counts give equal
answers, in any order.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import bdtr, betaincinv, ndtri, xlogy

CONFIDENCE = 0.95

AnyCounts = Int[np.ndarray, "..."]
Fractions = Float[np.ndarray, "..."]
Bounds = tuple[Float[np.ndarray, "..."], Float[np.ndarray, "*shape"]]
ClassCounts = Int[np.ndarray, " k"]
ClassValues = Float[np.ndarray, " k"]
Hits = Bool[np.ndarray, " n"]  # which images were right
OneRun = Bool[np.ndarray, " _"]  # the same, of one of several models


def wilson_interval(correct: AnyCounts, n: AnyCounts, confidence: float = CONFIDENCE) -> Bounds:
    """Wilson's score interval for a proportion; NaN where n is 0."""
    z = ndtri((1 + confidence) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = correct / n
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * np.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
        # The ends are exactly 0 and 1 at none and all; rounding would leave 1e-17 there.
        low = np.where(correct == 0, 0.0, centre - half)
        high = np.where(correct == n, 1.0, centre + half)
    return np.where(n > 0, low, np.nan), np.where(n > 0, high, np.nan)


def exact_interval(correct: AnyCounts, n: AnyCounts, confidence: float = CONFIDENCE) -> Bounds:
    """Clopper and Pearson's interval: covers at least `confidence` whatever the proportion; NaN where n is 0."""
    one_sided = (1 + confidence) / 2
    return lower_bound(correct, n, one_sided), upper_bound(correct, n, one_sided)


def lower_bound(correct: AnyCounts, n: AnyCounts, confidence: float = CONFIDENCE) -> Float[np.ndarray, "..."]:
    """Exact one-sided bound: the proportion is at least this; NaN where n is 0."""
    low = np.where(correct == 0, 0.0, betaincinv(np.maximum(correct, 1), n - correct + 1, 1 - confidence))
    return np.where(n > 0, low, np.nan)


def upper_bound(correct: AnyCounts, n: AnyCounts, confidence: float = CONFIDENCE) -> Float[np.ndarray, "..."]:
    """Exact one-sided bound: the proportion is at most this; NaN where n is 0."""
    wrong = n - correct
    high = np.where(wrong == 0, 1.0, betaincinv(correct + 1, np.maximum(wrong, 1), confidence))
    return np.where(n > 0, high, np.nan)


def sidak(confidence: float, count: int) -> float:
    """The confidence each of `count` independent bounds needs so that all hold together: c^(1/count)."""
    return float(confidence ** (1 / max(count, 1)))


def simultaneous_intervals(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> Bounds:
    """Exact intervals that hold for all present classes together; NaN for classes without examples.

    Classes share no image, so Šidák's product rule holds with equality and nothing is given away to Bonferroni.
    """
    return exact_interval(correct, n, sidak(confidence, int((n > 0).sum())))


def adjust_holm(p: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Holm's adjusted p-values; NaN (no test) stays NaN and does not count."""
    adjusted = np.full(len(p), np.nan)
    valid = np.flatnonzero(~np.isnan(p))
    order = valid[np.argsort(p[valid], kind="stable")]
    scaled = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted


# Two models on the same images: B minus A, over all and class by class.

# In units of z²: below 23 images at 97.5 %, or 31 right or wrong ones, adding squares is unsafe.
FEW_IMAGES = 6.0
FEW_OUTCOMES = 8.0


def upper_paired(lost: AnyCounts, gained: AnyCounts, n: AnyCounts, *, confidence: float) -> Fractions:
    """What a class lost, (lost − gained)/n, is at most this: images right only before and only after, of the same n.

    Each share has exact limits (Clopper-Pearson), and the distances of the limits from the estimates are squared and
    added (Zou and Donner); the shares are cells of one multinomial, whose negative correlation widens the difference.
    Where few images make that unsafe, the two limits share the error instead, which holds always.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        first, second = lost / n, gained / n
        above, below = upper_bound(lost, n, confidence) - first, second - lower_bound(gained, n, confidence)
        both, rest = first * second, (1 - first) * (1 - second)
        tie = np.where(rest > 0, np.sqrt(np.minimum(1.0, both / np.where(rest > 0, rest, 1.0))), 1.0)
        found = first - second + np.sqrt(above**2 + below**2 + 2 * tie * above * below)
    z2 = float(ndtri(confidence)) ** 2
    safe = (n >= FEW_IMAGES * z2) & (n - lost >= FEW_OUTCOMES * z2)
    return np.minimum(1.0, np.where(safe, found, share_error(lost, n, y=gained, y_n=n, confidence=confidence)))


def lower_paired(lost: AnyCounts, gained: AnyCounts, n: AnyCounts, *, confidence: float) -> Fractions:
    """What a class lost is at least this."""
    return -upper_paired(gained, lost, n, confidence=confidence)


def share_error(x: AnyCounts, x_n: AnyCounts, *, y: AnyCounts, y_n: AnyCounts, confidence: float) -> Fractions:
    """An upper bound of P(x) − P(y) from two exact limits that both hold with the given confidence."""
    each = (1 + confidence) / 2
    return np.asarray(upper_bound(x, x_n, each) - lower_bound(y, y_n, each))


@dataclass(frozen=True)
class PairedComparison:
    """Two models on the same images: B minus A."""

    n: int
    gained: int  # right under B only
    lost: int  # right under A only
    difference: float  # in accuracy
    low: float
    high: float
    p: float  # exact McNemar test of no difference, two-sided


@dataclass(frozen=True, eq=False)
class ClassWiseComparison:
    """`classes[c]` compares the images of class c and is None where there are none."""

    classes: tuple[PairedComparison | None, ...]
    adjusted: Float[np.ndarray, " k"]  # Holm-adjusted p-values of the classes; NaN where missing


def compare_paired(a: "np.ndarray", b: "np.ndarray", confidence: float = CONFIDENCE) -> PairedComparison:
    """Compare which of the same images A and B get right (boolean arrays).

    The interval is that of gates (`upper_paired`). Bonett and Price's, which versions before had, is missed in 11 % of
    cases at 10 images where 5 are asked for, and ten times as often as it says where a hundred classes share the error.
    """
    n, gained, lost = len(a), int((b & ~a).sum()), int((a & ~b).sum())
    disagreements = gained + lost
    p = min(1.0, 2 * float(bdtr(min(gained, lost), disagreements, 0.5))) if disagreements else 1.0
    if not n:
        return PairedComparison(0, 0, 0, float("nan"), -1.0, 1.0, p)
    up, down, images = np.array([gained]), np.array([lost]), np.array([n])
    tail = (1 + confidence) / 2
    low = -float(upper_paired(down, up, images, confidence=tail)[0])
    high = float(upper_paired(up, down, images, confidence=tail)[0])
    return PairedComparison(n, gained, lost, (gained - lost) / n, low, high, p)


def compare_class_wise(
    a: Hits, b: Hits, labels: Int[np.ndarray, " n"], *, k: int, confidence: float = CONFIDENCE
) -> ClassWiseComparison:
    """`paired` on each class, the p-values Holm-corrected over the classes; the intervals are of single classes."""
    found = tuple(
        compare_paired(a[labels == c], b[labels == c], confidence) if (labels == c).any() else None for c in range(k)
    )
    p = np.array([one.p if one else np.nan for one in found])
    return ClassWiseComparison(found, adjust_holm(p))


# All classes together, with a prior that is learned from them.

POINTS = 272  # of the grid that follow the classes …
EVEN = 48  # … and those that are even over their range
WIDTHS, PLACES = 8, 100  # of the bells that a prior is mixed of
NARROWEST = 0.05  # of the usual noise
ALIKE = 0.3  # of the usual noise: classes that differ by less cannot be told from equal ones
PARTS = 8  # of a mixture at most; the last hold nothing unless the classes ask for them
CONCENTRATION = 1.0  # mean of the Dirichlet process's concentration, which is learned as well
BURN_IN, KEPT = 40, 6  # sweeps of every chain
TINY = 1e-30  # keeps products out of the denormal numbers, which are ten times slower

# How alike classes are taken to be: as the classes show together; as alike as their counts allow, in parts of equal
# classes; or each for itself, all accuracies equally likely beforehand.
ClassPooling = Literal["learned", "tied", "apart"]
GridValues = Float[np.ndarray, " g"]
AccuracyDraws = Float[np.ndarray, "draws k"]


@dataclass(frozen=True, eq=False)
class AccuracyPosterior:
    """Of the classes that have images: their likelihood on a grid, and priors that the classes make likely."""

    classes: Int[np.ndarray, " c"]  # their numbers, lowest accuracy first
    k: int  # classes in all
    angle: GridValues  # arcsin √p
    cell: GridValues  # widths of the cells of the grid
    likelihood: Float[np.ndarray, "c g"]
    priors: Float[np.ndarray, "d g"]

    def weights(self, prior: GridValues) -> Float[np.ndarray, "c g"]:
        """The posterior of every class under one prior."""
        made = self.likelihood * prior
        return np.asarray(made / made.sum(1, keepdims=True))


def infer_accuracies(correct: ClassCounts, n: ClassCounts, pooling: ClassPooling = "learned") -> AccuracyPosterior:
    """Learn the prior and keep it with the likelihood of every class; the last few answers are remembered."""
    if not (n > 0).any():
        raise ValueError("no class has an image, so nothing can be said of any: audit at least one")
    return infer_remembered(tuple(correct.tolist()), tuple(n.tolist()), pooling)


@lru_cache(maxsize=16)
def infer_remembered(correct: tuple[int, ...], n: tuple[int, ...], pooling: ClassPooling) -> AccuracyPosterior:
    """`infer_accuracies` of what can be looked up."""
    right, images = np.array(correct, dtype=np.int64), np.array(n, dtype=np.int64)
    present = np.flatnonzero(images > 0)
    order = present[np.lexsort((images[present], right[present] / images[present]))]
    k, m = right[order], images[order]
    angle = place_grid(k, m)
    middles = (angle[1:] + angle[:-1]) / 2
    cell = np.diff(np.concatenate([angle[:1], middles, angle[-1:]]))
    p = np.sin(angle) ** 2
    logs = xlogy(k[:, None], p) + xlogy((m - k)[:, None], 1 - p)
    likelihood = np.exp(np.maximum(logs - logs.max(1, keepdims=True), -60.0))
    if pooling == "apart":
        priors = (np.sin(2 * angle) * cell + TINY)[None]
    else:
        bells, chance = make_bells(angle, cell, float(np.median(noise_of(m))))
        some = slice(1) if pooling == "tied" else slice(None)
        priors = sample_priors(likelihood, bells[some], chance[some], inside=float(np.ptp(angle)) / (np.pi / 2))
    return AccuracyPosterior(order, len(images), angle, cell, likelihood, priors)


def noise_of(n: ClassCounts) -> GridValues:
    """Standard deviation of arcsin √(right/n)."""
    return np.asarray(0.5 / np.sqrt(n + 1))


def place_grid(correct: ClassCounts, n: ClassCounts) -> GridValues:
    """Points within four standard deviations of every class, thinned, and an even net over all of it."""
    around = np.arcsin(np.sqrt((correct + 0.5) / (n + 1)))[:, None] + noise_of(n)[:, None] * np.linspace(-4, 4, 33)
    low, high = max(0.0, float(around.min())), min(np.pi / 2, float(around.max()))
    near = np.sort(np.clip(around.ravel(), low, high))
    near = near[np.linspace(0, len(near) - 1, min(len(near), POINTS)).astype(np.int64)]
    points = np.unique(np.concatenate([near, np.linspace(low, high, EVEN)]))
    return np.asarray(points[np.diff(points, prepend=-1.0) > 1e-7])


def make_bells(
    angle: GridValues, cell: GridValues, noise: float
) -> tuple[Float[np.ndarray, "w p g"], Float[np.ndarray, " w"]]:
    """Bells of all widths at all places of the grid's range, each of mass 1: what a prior is mixed of.

    With them the chance of each width before any class is seen: it falls as one over the width, down to what nobody
    can tell from equal classes.
    """
    reach = float(angle[-1] - angle[0])
    # Bells much narrower than their distance would be spikes with nothing between: classes would snap to them.
    narrowest = max(NARROWEST * noise, reach / PLACES / 2)
    width = np.geomspace(min(narrowest, 0.25 * reach), 0.5 * reach, WIDTHS)
    place = np.linspace(angle[0], angle[-1], PLACES)
    bells = np.maximum(np.exp(-0.5 * ((angle - place[:, None]) / width[:, None, None]) ** 2) * cell, TINY)
    return bells / bells.sum(-1, keepdims=True), 1 / np.maximum(width, ALIKE * noise)


def sample_priors(
    likelihood: Float[np.ndarray, "c g"],
    bells: Float[np.ndarray, "w p g"],
    chance: Float[np.ndarray, " w"],
    *,
    inside: float,
) -> Float[np.ndarray, "d g"]:
    """Draws from the posterior of the prior: the blocked Gibbs sampler of Ishwaran and James (2001), several chains.

    A sweep moves each part to the place that its classes like and all parts to the width that all classes like, weighs
    the parts, learns from their weights how many are to be expected, and deals the classes out again. A part without
    classes may lie anywhere from 0 to π/2, `inside` the grid or not: else clusters would be the likelier the closer
    the classes are. Only parts that have classes are computed, and without matrix products: these took seconds where
    the threads of BLAS wait for a busy processor.
    """
    c, (w, p, _) = len(likelihood), bells.shape
    chains = 32 if c <= 30 else 12 if c <= 300 else 4
    mixed, rng = bells.reshape(w * p, -1), np.random.default_rng(0)
    fit = np.log(likelihood @ mixed.T + TINY)

    def draw(logs: "np.ndarray") -> "np.ndarray":
        total = np.exp(logs - logs.max(-1, keepdims=True)).cumsum(-1)
        return np.asarray((total < rng.random((*total.shape[:-1], 1)) * total[..., -1:]).sum(-1))

    # Chains begin with one to four parts of neighbours in accuracy.
    part = np.arange(c) * (1 + np.arange(chains)[:, None] % 4) // c
    concentration = np.full(chains, CONCENTRATION)
    kept = []
    for sweep in range(BURN_IN + KEPT):
        used, row = np.unique(PARTS * np.arange(chains)[:, None] + part, return_inverse=True)
        members = np.zeros((len(used), c))
        members[row.ravel(), np.tile(np.arange(c), chains)] = 1.0
        liked = np.einsum("rc,cb->rb", members, fit).reshape(-1, w, p)
        best = liked.max(-1, keepdims=True)
        by_width = np.log(np.exp(liked - best).sum(-1)) + best[..., 0]
        chain = used // PARTS
        width = draw(np.log(chance) + np.add.reduceat(by_width, np.flatnonzero(np.diff(chain, prepend=-1))))
        place, there = rng.integers(p, size=chains * PARTS), rng.random(chains * PARTS) < inside
        place[used], there[used] = draw(liked[np.arange(len(used)), width[chain]]), True
        bell, there = width[:, None] * p + place.reshape(chains, PARTS), there.reshape(chains, PARTS)
        sizes = np.zeros(chains * PARTS)
        sizes[used] = members.sum(1)
        size = sizes.reshape(chains, PARTS)
        left = rng.beta(concentration[:, None] + size[:, ::-1].cumsum(1)[:, ::-1] - size, 1 + size)
        left[:, -1] = 0.0
        share = (1 - left) * np.cumprod(np.concatenate([np.ones((chains, 1)), left[:, :-1]], 1), 1) * there + TINY
        concentration = rng.gamma(PARTS, 1 / (1 / CONCENTRATION - np.log(left[:, :-1] + TINY).sum(1)))
        if sweep >= BURN_IN:
            kept.append(np.einsum("sp,spg->sg", share, mixed[bell]))
        part = draw(np.log(share)[:, None] + fit[:, bell].transpose(1, 0, 2))
    return np.concatenate(kept)


def draw_accuracies(found: AccuracyPosterior, draws: int = 512) -> AccuracyDraws:
    """Joint draws of the true accuracies of the present classes, in the order of their numbers."""
    rng = np.random.default_rng(1)
    each = -(-draws // len(found.priors))
    made = []
    for prior in found.priors:
        below = found.weights(prior).cumsum(1)
        luck = rng.random((2, each, len(below)))
        at = np.minimum((below < luck[0][..., None] * below[:, -1:]).sum(-1), len(found.angle) - 1)
        made.append(found.angle[at] + (luck[1] - 0.5) * found.cell[at])
    drawn = np.sin(np.clip(np.concatenate(made), 0.0, np.pi / 2)) ** 2
    return np.asarray(drawn[:, np.argsort(found.classes)])
