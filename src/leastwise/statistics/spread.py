"""How unequal the classes are, without the share that sampling noise adds; which classes can be told apart.

Fractions: CV × 10⁴ is percent².
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import chdtrc, chdtri, gammaln, ndtri

from leastwise.statistics.accuracy import CONFIDENCE, AnyCounts, ClassCounts, ClassValues, adjust_holm

AccuracyRows = Float[np.ndarray, "*rows k"]  # one row of class accuracies, or many


def worst_accuracy(accuracy: AccuracyRows) -> Float[np.ndarray, "..."]:
    """The accuracy of the weakest class."""
    return np.asarray(np.nanmin(accuracy, axis=-1))


def worst_class(accuracy: ClassValues) -> int:
    """The number of the weakest class; the first of equals."""
    return int(np.nanargmin(accuracy))


def class_gap(accuracy: AccuracyRows) -> Float[np.ndarray, "..."]:
    """Best minus worst class: MCD (Tian Def. 4.2), the range that GF-Score calls RDI."""
    return np.asarray(np.nanmax(accuracy, axis=-1) - np.nanmin(accuracy, axis=-1))


def class_variance(accuracy: AccuracyRows) -> Float[np.ndarray, "..."]:
    """Population variance over the classes: CV (Tian Def. 4.1), there in percent squared."""
    return np.asarray(np.nanvar(accuracy, axis=-1))


def class_deviation(accuracy: AccuracyRows) -> Float[np.ndarray, "..."]:
    """Population standard deviation over the classes."""
    return np.asarray(np.nanstd(accuracy, axis=-1))


def gini(accuracy: ClassValues) -> float:
    """Gini's coefficient Σ|a_i − a_j| / (2·C²·mean): 0 for equal classes, 1 − 1/C when one class has everything."""
    a = np.sort(accuracy[~np.isnan(accuracy)])
    c = len(a)
    if not a.sum():
        return float("nan")
    return float((2 * np.arange(1, c + 1) - c - 1) @ a / (c * a.sum()))


def nsd_error(accuracy: ClassValues) -> float:
    """Standard deviation over the mean of the class *errors* (Xu et al., FRL); NaN when nothing is wrong."""
    return ratio(float(class_deviation(accuracy)), 1 - float(np.nanmean(accuracy)))


def nsd_accuracy(accuracy: ClassValues) -> float:
    """Standard deviation over the mean of the class *accuracies* (ABSLD); NaN when nothing is right."""
    return ratio(float(class_deviation(accuracy)), float(np.nanmean(accuracy)))


def worst_k_mean(accuracy: ClassValues, k: int) -> float:
    """Mean accuracy of the k worst classes (of all, if there are fewer)."""
    if k < 1:
        raise ValueError(f"the worst {k} classes have no mean: ask for at least one")
    return float(np.sort(accuracy[~np.isnan(accuracy)])[:k].mean())


def cvar(accuracy: ClassValues, share: float = 0.2) -> float:
    """Mean accuracy of the worst `share` of classes (CFOL); the class at the edge counts with its fraction."""
    if not 0 < share <= 1:
        raise ValueError(f"a share of classes lies in (0, 1], and {share} does not: 0.2 is the worst fifth")
    a = np.sort(accuracy[~np.isnan(accuracy)])
    mass = share * len(a)
    weight = np.clip(mass - np.arange(len(a)), 0.0, 1.0)
    return float(weight @ a / mass)


def rho(worst: float, average: float, *, base_worst: float, base_average: float) -> float:
    """ρ (WAT): relative gain of the worst class minus relative loss of the average, against a baseline."""
    return ratio(worst - base_worst, base_worst) - ratio(base_average - average, base_average)


def boundary_error(clean: ClassValues, robust: ClassValues) -> ClassValues:
    """FRL's R_bndy = clean − robust accuracy. Negative where an attack turned wrong answers into right ones."""
    return clean - robust


def false_positive_rate(confusion: Int[np.ndarray, "k k"]) -> ClassValues:
    """Of the images of all other classes, the share predicted as this one (rows true, columns predicted).

    The in-flow that a Class False-Positive Score measures: a class is also exposed by what is taken for it.
    """
    return false_positive_share(confusion.sum(0) - np.diag(confusion), confusion.sum(1))


def false_positive_share(flows_in: ClassCounts, n: ClassCounts) -> ClassValues:
    """The same from how many images of others are predicted as each class, and how many images each class has."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return flows_in / (n.sum() - n)


def ratio(part: float, whole: float) -> float:
    """The quotient; NaN where it would divide by 0."""
    return part / whole if whole else float("nan")


# Below this many expected hits or misses in a class the chi-square approximation is not trusted (Cochran's rule).
FEW_EXPECTED = 5
BISECTIONS = 30
SHUFFLES = 1999  # of the Monte Carlo test: p-values in steps of 1/2000


@dataclass(frozen=True)
class Spread:
    """Population variance of the class accuracies (CV, Tian Def. 4.1), as printed and without sampling noise."""

    plug_in: float
    noise: float  # what sampling adds to `plug_in` on average
    debiased: float  # plug_in - noise; negative where the classes differ less than noise would make them
    error: float  # standard error of `debiased`
    used: int  # classes
    left_out: tuple[int, ...]  # classes with fewer than two examples: they have no variance

    @property
    def sd(self) -> float:
        """De-biased standard deviation over classes."""
        return float(np.sqrt(max(0.0, self.debiased)))


def measure_spread(correct: ClassCounts, n: ClassCounts) -> Spread:
    """De-biased CV: V − ((C−1)/C²)·Σ v_c, V = (1/C)·Σ d_c², d_c = p̂_c − mean, v_c = p̂_c(1−p̂_c)/(n_c−1).

    Unbiased, because v_c is unbiased for the variance of p̂_c. Standard error: write p̂_c = p_c + e_c with
    independent e_c. The estimate is then linear in e with coefficients a_c = (2/C)·d_c − ((C−1)/C²)·(1−2p_c)/(n_c−1)
    (the second part is the slope of the noise term, as large as the first near 0 and 1), plus the quadratic form
    (1/C)·Σ (e_c − ē)². Their variances add: Σ a_c²·v_c + (2/C²)·((1 − 2/C)·Σ v_c² + (Σ v_c/C)²), the latter for normal
    e. In a_c² the square of the observed d_c is too large by Var(d_c) = (1−2/C)·v_c + Σ v/C², which is subtracted.
    """
    some = n >= 2
    used = int(some.sum())
    left_out = tuple(int(c) for c in np.flatnonzero(~some))
    if used < 2:
        nan = float("nan")
        return Spread(nan, nan, nan, nan, used, left_out)
    p, m = correct[some] / n[some], n[some]
    v = p * (1 - p) / (m - 1)
    d = p - p.mean()
    plug_in = float((d * d).mean())
    share = (used - 1) / used**2
    noise = float(share * v.sum())
    slope = -share * (1 - 2 * p) / (m - 1)
    d_variance = (1 - 2 / used) * v + v.sum() / used**2
    a_squared = (2 / used) ** 2 * (d * d - d_variance) + (4 / used) * d * slope + slope**2
    linear = max(0.0, float((a_squared * v).sum()))
    error = float(np.sqrt(linear + quadratic_variance(v)))
    return Spread(plug_in, noise, plug_in - noise, error, used, left_out)


def variance_bounds(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Approximate interval of the true CV V, at least 0. Its ends solve debiased − V = ± q·√(A·V + Q).

    The variance in `spread` is A·V + Q, A = 4·v/C with v the mean of v_c or its mean weighted by d_c², whichever is
    larger, and Q what is left at V = 0. Above, q is normal as in Wilson's interval for p: this covers where ± z
    standard errors does not (97 % against 89 % for the classes of MNIST). Below, q has the skewness of a noncentral χ²:
    with it 3.8 % at most of audits of 2 to 30 nearly equal classes had a limit above the truth where 2.5 are asked
    for, with the normal one 7 %. One right and one wrong image are added to each class for A and Q, else classes
    without a mistake would leave no doubt.
    """
    found = measure_spread(correct, n)
    if found.used < 2:
        return float("nan"), float("nan")
    some = n >= 2
    m = n[some] + 2
    p = (correct[some] + 1) / m
    v = p * (1 - p) / (m - 1)
    d = p - p.mean()
    largest = max(float(v.mean()), float(np.average(v, weights=d * d)) if d.any() else 0.0)
    share = (found.used - 1) / found.used**2
    slope = share * (1 - 2 * p) / (m - 1)
    square = quadratic_variance(v)
    a, q = 4 * largest / found.used, square + float((slope**2 * v).sum())
    noise = share * float(v.sum())
    tail = (1 - confidence) / 2
    z = float(-ndtri(tail))
    centre = found.debiased + z * z * a / 2
    high = centre + float(np.sqrt(max(0.0, centre**2 - found.debiased**2 + z * z * q)))
    unit = max(square / (2 * noise), a / 4)  # V + noise is about `unit` times a χ² of noise/unit degrees of freedom
    low, beyond = 0.0, max(0.0, found.debiased)
    for _ in range(BISECTIONS if beyond > 0 else 0):
        middle = (low + beyond) / 2
        variance = a * middle + q
        third = unit**2 * (8 * noise + 24 * middle)
        further = found.debiased - middle > skewed_quantile(tail, third / variance**1.5) * np.sqrt(variance)
        low, beyond = (middle, beyond) if further else (low, middle)
    return low, max(0.0, high)


def skewed_quantile(tail: float, skewness: float) -> float:
    """What a gamma distribution of mean 0, variance 1 and this skewness exceeds with probability `tail`."""
    freedom = 8 / skewness**2
    return float((chdtri(freedom, tail) - freedom) / np.sqrt(2 * freedom))


def quadratic_variance(v: "np.ndarray") -> float:
    """Variance of (1/C)·Σ (e_c − ē)² for independent normal e_c of variances v_c."""
    c = len(v)
    return 2 / c**2 * ((1 - 2 / c) * float((v * v).sum()) + (float(v.sum()) / c) ** 2)


def homogeneity(correct: ClassCounts, n: ClassCounts, seed: int = 0) -> float:
    """p-value of "all classes have the same accuracy": Pearson's chi-square on the classes × {right, wrong} table.

    Where some class expects fewer than five right or wrong, the reference distribution is drawn: the observed
    number of right answers dealt out at random over the images, always with the same seed.
    """
    k, m = correct[n > 0], n[n > 0]
    total, right = int(m.sum()), int(k.sum())
    if len(m) < 2 or right in (0, total):
        return 1.0
    p = right / total
    observed = float(pearson_statistic(k[None], m, p)[0])
    if min(p, 1 - p) * m.min() >= FEW_EXPECTED:
        return float(chdtrc(len(m) - 1, observed))
    dealt = np.random.default_rng(seed).multivariate_hypergeometric(m, right, size=SHUFFLES)
    as_extreme = int((pearson_statistic(dealt, m, p) >= observed * (1 - 1e-9)).sum())
    return (1 + as_extreme) / (1 + SHUFFLES)


def pearson_statistic(k: Int[np.ndarray, "tables k"], m: ClassCounts, p: float) -> Float[np.ndarray, " tables"]:
    """Pearson's chi-square of right answers against equal accuracy, for many tables at once."""
    return ((k - m * p) ** 2 / m).sum(-1) / (p * (1 - p))


# Which classes can be told apart.

CELLS = 1_000_000  # hypergeometric terms held at a time: 8 MB for each of a few arrays


@dataclass(frozen=True, eq=False)
class Ranking:
    """Classes from worst to best, and which of them cannot be told apart."""

    order: tuple[int, ...]  # present classes, lowest accuracy first
    adjusted: Float[np.ndarray, "k k"]  # Holm-adjusted p-value of every two classes; NaN without images
    groups: tuple[tuple[int, ...], ...]  # classes of which no two differ significantly; may overlap


def compare_two_classes(
    a_correct: AnyCounts, a_n: AnyCounts, *, b_correct: AnyCounts, b_n: AnyCounts
) -> Float[np.ndarray, "..."]:
    """Two-sided p-value of equal accuracy: Fisher's exact test, twice the smaller tail.

    Its level is at most what it says at any sizes. Mid-P, which counts half of the observed table, has more power and
    reaches 5.7 % at 50 images each.
    """
    tables = np.stack(np.broadcast_arrays(a_correct, a_n, b_correct, b_n), axis=-1)
    # Classes of few images repeat the same tables: 1,000 classes of 50 have half a million pairs, 2,601 tables at most.
    distinct, place = np.unique(tables.reshape(-1, 4), axis=0, return_inverse=True)
    size = max(1, CELLS // (int(distinct[:, [0, 2]].max(initial=0)) + 1))
    parts = [fisher_test(distinct[at : at + size]) for at in range(0, len(distinct), size)]
    return np.concatenate([np.empty(0), *parts])[place.ravel()].reshape(tables.shape[:-1])


def fisher_test(tables: Int[np.ndarray, "m 4"]) -> Float[np.ndarray, " m"]:
    """Given all right answers, those of the class that did worse are hypergeometric: twice the lower tail."""
    a, a_n, b, b_n = tables.T
    swap = a * b_n > b * a_n
    a, a_n, b, b_n = np.where(swap, (b, b_n, a, a_n), (a, a_n, b, b_n))
    right = a + b
    terms = np.arange(int(a.max()) + 1)
    others = right[:, None] - terms
    possible = (terms <= a[:, None]) & (others <= b_n[:, None])
    log_factorial = gammaln(np.arange(int((a_n + b_n).max()) + 1) + 1.0)

    def log_choose(n: "np.ndarray", k: "np.ndarray") -> "np.ndarray":
        k = np.clip(k, 0, n)
        return log_factorial[n] - log_factorial[k] - log_factorial[n - k]

    logs = log_choose(a_n[:, None], terms) + log_choose(b_n[:, None], others)
    tail = np.where(possible, np.exp(logs - log_choose(a_n + b_n, right)[:, None]), 0.0).sum(1)
    return np.minimum(1.0, 2 * tail)


def rank_classes(correct: ClassCounts, n: ClassCounts, confidence: float = CONFIDENCE) -> Ranking:
    """All pairs tested and Holm-corrected, and the tests as groups (a compact letter display).

    Two classes that differ significantly share no group, two that do not share at least one, whatever their sizes. With
    very unequal sizes a group may pass over a class between two of its members that differs from one of them.
    """
    present = np.flatnonzero(n > 0)
    order = present[np.argsort(correct[present] / n[present], kind="stable")]
    i, j = np.triu_indices(len(order), 1)
    a, b = order[i], order[j]
    adjusted = np.full((len(n), len(n)), np.nan)
    adjusted[a, b] = adjusted[b, a] = adjust_holm(compare_two_classes(correct[a], n[a], b_correct=correct[b], b_n=n[b]))
    differs = adjusted[np.ix_(order, order)] <= 1 - confidence  # NaN on the diagonal compares as False
    groups = tuple(tuple(int(c) for c in order[list(group)]) for group in find_groups(differs))
    return Ranking(tuple(map(int, order)), adjusted, groups)


def find_groups(differs: "np.ndarray") -> list[tuple[int, ...]]:
    """Sets in which nothing differs, as large as they get, so many that every pair which does not differ is in one."""
    found: dict[tuple[int, ...], None] = {}
    apart = differs.copy()  # or already together
    for first in range(len(differs)):
        while True:
            alone = not found or not any(first in group for group in found)
            partners = np.flatnonzero(~apart[first])
            partners = partners[partners > first]
            if not len(partners) and not alone:
                break
            group = grow_group([first, *partners[:1].tolist()], differs)
            found[group] = None
            apart[np.ix_(group, group)] = True
    return sorted(found)


def grow_group(members: list[int], differs: "np.ndarray") -> tuple[int, ...]:
    """Add whoever differs from no member, the nearest in rank first."""
    free = np.asarray(~differs[members].any(0))
    free[members] = False
    places = np.arange(len(differs))
    away = np.abs(places[:, None] - np.array(members)).min(1)
    while free.any():
        others = np.flatnonzero(free)
        nearest = int(others[away[others].argmin()])
        members = [*members, nearest]
        away = np.minimum(away, np.abs(places - nearest))
        free &= ~differs[nearest]
        free[nearest] = False
    return tuple(sorted(members))
