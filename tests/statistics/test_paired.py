"""Two models on the same images against statsmodels and by hand; groups of models with known components."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from leastwise.statistics.accuracy import compare_class_wise, compare_paired
from leastwise.statistics.seeds import compare_class_groups, compare_groups, find_dominated, measure_agreement


def arrays(gained: int, lost: int, n: int) -> tuple["np.ndarray", "np.ndarray"]:
    a, b = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    b[:gained] = True
    a[gained : gained + lost] = True
    both = slice(gained + lost, gained + lost + (n - gained - lost) // 2)
    a[both] = b[both] = True
    return a, b


@pytest.mark.parametrize(("gained", "lost", "n"), [(0, 0, 10), (5, 0, 20), (30, 12, 200), (12, 30, 200), (7, 7, 50)])
def test_paired_difference_and_exact_mcnemar(gained: int, lost: int, n: int) -> None:
    a, b = arrays(gained, lost, n)
    found = compare_paired(a, b)
    assert (found.n, found.gained, found.lost) == (n, gained, lost)
    assert found.difference == pytest.approx(b.mean() - a.mean())
    table = [[(a & b).sum(), lost], [gained, (~a & ~b).sum()]]
    assert found.p == pytest.approx(mcnemar(table, exact=True).pvalue if gained + lost else 1.0)
    assert -1 <= found.low <= found.difference <= found.high <= 1


def test_paired_interval_by_hand() -> None:
    """30 gained and 12 lost of 200: exact limits of both shares, their distances squared and added."""
    found = compare_paired(*arrays(30, 12, 200))
    up, down = 0.15, 0.06
    tie = np.sqrt(up * down / ((1 - up) * (1 - down)))

    def distance(more: int, less: int) -> float:
        above = stats.beta.ppf(0.975, more + 1, 200 - more) - more / 200
        below = less / 200 - stats.beta.ppf(0.025, less, 201 - less)
        return float(np.sqrt(above**2 + below**2 + 2 * tie * above * below))

    assert (found.low, found.high) == pytest.approx((0.09 - distance(12, 30), 0.09 + distance(30, 12)))
    assert (found.low, found.high) == pytest.approx((0.025931, 0.152287), abs=0.005)  # Bonett and Price (2012)


@pytest.mark.parametrize(("n", "confidence"), [(1, 0.95), (5, 0.95), (10, 0.95), (10, 0.9995), (50, 0.9995)])
def test_paired_intervals_cover_with_few_images_and_where_many_classes_share_the_error(
    n: int, confidence: float
) -> None:
    """Summed over all outcomes. Bonett and Price's missed 11 % of 10 images, and ten times what 100 classes allow."""
    kinds = [(g, m - g) for m in range(n + 1) for g in range(m + 1)]
    ends = [compare_paired(*arrays(g, lost, n), confidence) for g, lost in kinds]
    for p, q in ((0.5, 0.5), (0.5, 0.35), (0.9, 0.1), (0.2, 0.0), (0.03, 0.01), (1.0, 0.0)):
        chance = stats.multinomial.pmf([(g, lost, n - g - lost) for g, lost in kinds], n, [p, q, max(0.0, 1 - p - q)])
        outside = np.array([not one.low - 1e-9 <= p - q <= one.high + 1e-9 for one in ends])
        assert chance[outside].sum() <= 1 - confidence


@pytest.mark.parametrize("disagreement", [0.02, 0.2, 0.6])
def test_mcnemar_keeps_its_level(disagreement: float) -> None:
    """Summed over all outcomes, not simulated."""
    n, level = 100, 0.0
    for m in range(n + 1):
        gained = np.arange(m + 1)
        p = [compare_paired(*arrays(int(g), int(m - g), n)).p for g in gained]
        level += stats.binom.pmf(m, n, disagreement) * stats.binom.pmf(gained, m, 0.5)[np.array(p) <= 0.05].sum()
    assert level <= 0.05


def test_class_wise_is_paired_class_by_class_with_holm() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 500)
    labels[labels == 2] = 3  # class 2 has no images
    a = rng.random(500) < 0.4
    b = rng.random(500) < 0.4 + 0.1 * (labels == 3) + 0.3 * (labels == 0)
    found = compare_class_wise(a, b, labels, k=5)
    assert found.classes[2] is None and found.classes[4] is None and np.isnan(found.adjusted[[2, 4]]).all()
    present = [0, 1, 3]
    for c in present:
        assert found.classes[c] == compare_paired(a[labels == c], b[labels == c])
    expected = multipletests([found.classes[c].p for c in present], method="holm")[1]
    assert found.adjusted[present].tolist() == pytest.approx(expected.tolist())


def models(
    rng: "np.random.Generator", count: int, base: float, training: float, image: "np.ndarray"
) -> list["np.ndarray"]:
    """Hits of models whose skill varies between trainings on images of varying difficulty."""
    z = base + training * rng.normal(size=(count, 1)) + image
    return list(rng.random((count, len(image))) < 1 / (1 + np.exp(-z)))


def mean_accuracy(base: float, training: float, image: float) -> float:
    z = base + np.sqrt(training**2 + image**2) * stats.norm.ppf((np.arange(20000) + 0.5) / 20000)
    return float((1 / (1 + np.exp(-z))).mean())


@pytest.mark.parametrize(
    ("a", "b", "n", "training", "image"),
    [(3, 3, 500, 0.2, 2.0), (3, 3, 500, 0.0, 2.0), (3, 3, 500, 0.5, 0.1), (1, 3, 300, 0.3, 1.0), (1, 1, 500, 0.0, 2.0)],
)
def test_group_intervals_cover_new_trainings_and_new_images(
    a: int, b: int, n: int, training: float, image: float
) -> None:
    rng = np.random.default_rng(0)
    true = mean_accuracy(-0.2, training, image) - mean_accuracy(-0.6, training, image)
    inside = []
    for _ in range(500):
        difficulty = image * rng.normal(size=n)
        found = compare_groups(models(rng, a, -0.6, training, difficulty), models(rng, b, -0.2, training, difficulty))
        inside.append(found.low <= true <= found.high)
    assert np.mean(inside) >= 0.94


def test_training_spread_is_told_from_test_noise() -> None:
    """Images alike, accuracy 0.5, skill of SD 0.2 on the logit: SD 0.2/4 between trainings; the rest is binomial."""
    rng = np.random.default_rng(0)
    found = [
        compare_groups(models(rng, 4, 0.0, 0.2, np.zeros(400)), models(rng, 4, 0.0, 0.0, np.zeros(400)))
        for _ in range(300)
    ]
    assert np.sqrt(np.mean([f.training_a**2 for f in found])) == pytest.approx(0.05, rel=0.07)
    assert np.sqrt(np.mean([f.training_b**2 for f in found])) < 0.02  # of 0.025 that images make without training
    assert np.mean([f.test for f in found]) == pytest.approx(np.sqrt(2 * 0.25 / 4 / 400), rel=0.03)


def test_one_model_a_side_is_the_paired_t_interval_with_two_imaginary_images() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 60)) < 0.5
    found = compare_groups([a], [b])
    # With one more image that only A, and one more that only B gets right; they do not move the difference itself.
    x, y = np.append(a.astype(float), [1, 0]), np.append(b.astype(float), [0, 1])
    error = (y - x).std(ddof=1) / np.sqrt(62)
    half = stats.t.ppf(0.975, 59) * error
    assert (found.low, found.high) == pytest.approx((found.difference - half, found.difference + half))
    assert found.test == pytest.approx(error) and found.freedom == pytest.approx(59)
    assert np.isnan([found.training_a, found.training_b]).all()


def test_groups_class_by_class_and_refusals() -> None:
    rng = np.random.default_rng(0)
    hits, labels = rng.random((5, 40)) < 0.5, np.repeat([0, 2], 20)
    found = compare_class_groups(list(hits[:2]), list(hits[2:]), labels, k=3)
    alone = compare_groups(list(hits[:2, :20]), list(hits[2:, :20]))
    assert found[1] is None and found[0] is not None
    # Moderated: only the interval differs from that of the class alone.
    same = ("n", "difference", "training_a", "training_b", "test")
    assert [getattr(found[0], name) for name in same] == [getattr(alone, name) for name in same]
    single = compare_groups([hits[0, :1]], [hits[1, :1]])
    assert single.n == 1 and np.isnan([single.low, single.high]).all()
    with pytest.raises(ValueError, match="40 and 20 images: compare results on the same images"):
        compare_groups([hits[0]], [hits[1, :20]])
    with pytest.raises(ValueError, match="at least one result on each side"):
        compare_groups([], [hits[0]])


def test_p22_agreement_equals_scipy_and_leaves_out_missing_classes() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 9)).round(1)  # rounded: with ties
    missing = np.append(a, np.nan), np.append(b, 0.3)
    for found in (measure_agreement(a, b), measure_agreement(*missing)):
        expected = [f(a, b).statistic for f in (stats.kendalltau, stats.spearmanr, stats.pearsonr)]
        assert [found.kendall, found.spearman, found.cosine] == pytest.approx(expected) and found.classes == 9
    assert np.isnan(measure_agreement(np.full(3, 0.5), np.array([0.1, 0.2, 0.3])).cosine)


def test_dominated_models() -> None:
    """Clean, robust, worst: the first beats the second and equals the third; the fourth gives up clean for worst."""
    scores = np.array([[0.8, 0.5, 0.3], [0.8, 0.5, 0.2], [0.8, 0.5, 0.3], [0.7, 0.5, 0.4]])
    assert find_dominated(scores).tolist() == [False, True, False, False]
