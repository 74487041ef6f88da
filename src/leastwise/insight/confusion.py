"""Who is taken for whom: the confusion matrix as a graph. Rows are true classes, columns predicted ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from leastwise.audit.evidence import ConfusionMatrix, Evidence
from leastwise.audit.evidence import count_confusions as count_confusions
from leastwise.audit.record import ClassMatrix
from leastwise.core.counts import Tally
from leastwise.data.classes import Groups
from leastwise.statistics.accuracy import ClassValues

Partition = Int[np.ndarray, " k"]  # the number of each class's part

SHUFFLES = 1999  # of permutation tests: p-values in steps of 1/2000


def keep_mistakes(matrix: ConfusionMatrix) -> ConfusionMatrix:
    """The matrix with an empty diagonal (Tian's misclassified confusion matrix)."""
    return matrix - np.diag(np.diag(matrix))


def confusion_rates(matrix: ConfusionMatrix) -> ClassMatrix:
    """Each row as shares of its class; NaN for a class without images."""
    n = matrix.sum(1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(n > 0, matrix / n, np.nan)


def in_flow(matrix: ConfusionMatrix) -> ClassValues:
    """Of all mistakes, the share that ends in each class: the largest is the attractor. NaN without a mistake."""
    wrong = keep_mistakes(matrix)
    total = int(wrong.sum())
    return wrong.sum(0) / total if total else np.full(len(matrix), np.nan)


@dataclass(frozen=True)
class Symmetry:
    """Whether confusions go both ways, as a correlation with a permutation test."""

    pairs: int  # of classes
    score: float  # in [-1, 1]; NaN where the confusions do not vary, and for two classes, where it could only be -1
    p: float  # of a score this high if it did not matter which class is which


def measure_symmetry(matrix: ConfusionMatrix, seed: int = 0, shuffles: int = SHUFFLES) -> Symmetry:
    """Is i taken for j as often as j for i? Pearson's correlation of the off-diagonal rates with their mirror images.

    Every pair counts both ways round, so the score does not depend on the order of the classes, as a correlation of
    the two triangles would. The p-value is of a Mantel test: the classes of the mirrored matrix are permuted together.
    """
    present = matrix.sum(1) > 0
    k = int(present.sum())
    pairs = k * (k - 1) // 2
    r = centre_off_diagonal(confusion_rates(matrix)[np.ix_(present, present)])
    # Permuting classes moves the off-diagonal cells among themselves: their mean is 0 and their norm this one.
    norm = float((r**2).sum())
    if k < 3 or not norm > 0:
        return Symmetry(pairs, float("nan"), float("nan"))
    score = float((r * r.T).sum()) / norm
    rng = np.random.default_rng(seed)
    mirrored = r.T.copy()
    orders = (rng.permutation(k) for _ in range(shuffles))
    as_high = sum(float((r * mirrored[np.ix_(o, o)]).sum()) / norm >= score - 1e-12 for o in orders)
    return Symmetry(pairs, score, (1 + as_high) / (1 + shuffles))


def centre_off_diagonal(r: ClassMatrix) -> ClassMatrix:
    """Off-diagonal cells minus their mean; 0 on the diagonal, and everywhere if they are all alike."""
    off = ~np.eye(len(r), dtype=bool)
    if len(r) < 2 or np.ptp(r[off]) == 0:
        return np.zeros_like(r)
    return np.where(off, r - r[off].mean(), 0.0)


@dataclass(frozen=True)
class InsideGroups:
    """How much of the confusion stays inside superclasses."""

    mistakes: int  # of classes that have a superclass
    inside: int
    expected: float  # share if each mistake fell on any other class alike

    @property
    def share(self) -> float:
        return self.inside / self.mistakes if self.mistakes else float("nan")


def count_inside_groups(matrix: ConfusionMatrix, groups: Groups) -> InsideGroups:
    """Of the mistakes on classes with a superclass, how many stay inside it."""
    part = number_parts(groups, len(matrix))
    wrong = keep_mistakes(matrix)
    wrong[part < 0] = 0
    total = int(wrong.sum())
    same = part[:, None] == part[None]
    partners = same.sum(1) - 1
    by_chance = float(wrong.sum(1) @ partners) / (len(matrix) - 1)
    return InsideGroups(total, int(wrong[same].sum()), by_chance / total if total else float("nan"))


def affinity(matrix: ConfusionMatrix) -> ClassMatrix:
    """The graph of confusions: the mean of both directions' rates, nothing between a class and itself."""
    r = np.nan_to_num(confusion_rates(matrix))
    both = (r + r.T) / 2
    np.fill_diagonal(both, 0.0)
    return both


def modularity(graph: ClassMatrix, part: Partition) -> float:
    """Newman's Q = Σ_parts (share of weight inside − (share of weight that touches it)²); NaN without edges."""
    total = graph.sum()
    if not total > 0:
        return float("nan")
    touches = np.bincount(part, weights=graph.sum(1)) / total
    inside = float(graph[part[:, None] == part[None]].sum() / total)
    return inside - float((touches**2).sum())


def find_communities(graph: ClassMatrix, count: int | None = None) -> Partition:
    """Classes that are confused with each other: greedy joining of the two parts that raises modularity most.

    Clauset, Newman and Moore (2004), deterministic: of equal gains the first. It stops when no joining gains anything,
    or at `count` parts if that is given (modularity alone overlooks parts that are small against the whole).
    """
    k = len(graph)
    part = np.arange(k)
    if not graph.sum() > 0:
        return part
    e = graph / graph.sum()
    a = e.sum(1)
    alive = np.ones(k, dtype=bool)
    upper = np.triu(np.ones((k, k), dtype=bool), 1)
    while alive.sum() > (count or 1):
        gain = np.where(upper & alive[:, None] & alive[None], e - np.outer(a, a), -np.inf)
        i, j = np.unravel_index(int(gain.argmax()), gain.shape)
        if count is None and not gain[i, j] > 1e-15:
            break
        e[i] += e[j]
        e[:, i] += e[:, j]
        a[i] += a[j]
        alive[j] = False
        part[part == j] = i
    return np.unique(part, return_inverse=True)[1]


def adjusted_rand(a: Partition, b: Partition) -> float:
    """Do two partitions put the same classes together? Hubert and Arabie (1985): 1 the same, 0 as by chance."""
    table = np.zeros((int(a.max()) + 1, int(b.max()) + 1))
    np.add.at(table, (a, b), 1)

    def pairs(counts: "np.ndarray") -> float:
        return float((counts * (counts - 1)).sum() / 2)

    both, of_a, of_b, every = pairs(table), pairs(table.sum(1)), pairs(table.sum(0)), pairs(np.array([len(a)]))
    by_chance = of_a * of_b / every if every else 0.0
    most = (of_a + of_b) / 2
    return 1.0 if most == by_chance else (both - by_chance) / (most - by_chance)


@dataclass(frozen=True, eq=False)
class Communities:
    """Communities of the confusion graph beside the superclasses that people made."""

    found: Partition  # -1 for classes that have no images or no superclass
    modularity: float
    of_groups: float  # modularity of the superclasses
    agreement: float  # adjusted Rand index


def compare_with_groups(matrix: ConfusionMatrix, groups: Groups, as_many: bool = False) -> Communities:
    """How well communities match superclasses, over the classes that have images and a superclass.

    There are `as_many` communities as superclasses, or as many as come out.

    NaN without a mistake among these classes, or where they are too few to be put together in two ways.
    """
    part = number_parts(groups, len(matrix))
    known = np.flatnonzero((part >= 0) & (matrix.sum(1) > 0))
    graph, own = affinity(matrix)[np.ix_(known, known)], np.unique(part[known], return_inverse=True)[1]
    present = len(set(own.tolist()))
    found = np.full(len(matrix), -1)
    nan = float("nan")
    if present < 2 or len(known) < 3 or not graph.sum() > 0:
        return Communities(found, nan, nan, nan)
    among = find_communities(graph, present if as_many else None)
    found[known] = among
    return Communities(found, modularity(graph, among), modularity(graph, own), adjusted_rand(among, own))


def rank_by_confidence(evidence: Evidence, condition: str, cls: int) -> Int[np.ndarray, " m"]:
    """Ids of the images of a class by confidence in it under attack, surest first (Tian 2021, §6.2); ties by id."""
    if not 0 <= cls < evidence.k:
        raise ValueError(f"class {cls} is out of range: this evidence has classes 0 to {evidence.k - 1}")
    rows = np.flatnonzero(evidence.labels == cls)
    order = np.lexsort((evidence.ids[rows], -evidence.conditions[condition].p_true[rows]))
    return evidence.ids[rows[order]]


def find_extremes(
    evidence: Evidence, condition: str, cls: int, *, count: int
) -> tuple[Int[np.ndarray, " a"], Int[np.ndarray, " b"]]:
    """The ids of the most and of the least robust images of a class, each with the extreme one first.

    No image is in both, so a class of few images gives fewer than `count`.
    """
    order = rank_by_confidence(evidence, condition, cls)
    half = len(order) // 2
    return order[: min(count, len(order) - half)], order[::-1][: min(count, half)]


def number_parts(groups: Groups, k: int) -> Partition:
    """The number of each class's superclass; -1 for a class without one."""
    part = np.full(k, -1)
    for number, (_, classes) in enumerate(groups):
        part[list(classes)] = number
    return part


def classes_by_group(groups: Groups, k: int) -> Int[np.ndarray, " k"]:
    """The classes superclass by superclass, those without one last: the order in which Benz draws CIFAR-100."""
    listed = [c for _, classes in groups for c in classes]
    return np.array([*listed, *sorted(set(range(k)) - set(listed))])


@dataclass(frozen=True)
class GroupAccuracy:
    """A superclass over several models: the mean of its accuracies, and of its best and its worst class.

    The last two show what the first hides: Ahn's hardest class is in an easy superclass.
    """

    name: str
    accuracy: float  # over images
    lowest: float
    highest: float


def rank_groups(models: Sequence[Tally], groups: Groups) -> tuple[GroupAccuracy, ...]:
    """Superclasses by accuracy, best first (Ahn, Fig. 4); those without images are left out."""
    found = []
    for name, classes in groups:
        members = [c for c in classes if all(int(tally.n[c]) > 0 for tally in models)]
        if members:
            overall = [float(tally.correct[members].sum() / tally.n[members].sum()) for tally in models]
            by_class = np.mean([tally.accuracy[members].tolist() for tally in models], axis=0)
            found.append(GroupAccuracy(name, float(np.mean(overall)), float(by_class.min()), float(by_class.max())))
    return tuple(sorted(found, key=lambda one: -one.accuracy))
