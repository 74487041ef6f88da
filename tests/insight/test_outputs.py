"""Entropy, CVC, rankings, drops, profiles, predictors and dynamics against loops, scipy and closed forms."""

from itertools import permutations

import numpy as np
import pytest
import scipy.stats
import torch

from leastwise.audit.evidence import cvc, entropy
from leastwise.core.counts import ClassFrame, Tally
from leastwise.insight.agreement import (
    agreement_difference,
    class_accuracies,
    compare_profiles,
    drop_shares,
    joint_share,
    mean_agreement,
    mean_rank_correlation,
    rank_correlation,
    resample_accuracies,
)
from leastwise.insight.confusion import find_extremes, rank_by_confidence
from leastwise.insight.dynamics import measure_convergence, measure_overfitting
from tests.insight.evidence_of_logits import evidence_of, random_evidence

K = 5


def test_entropy_by_class_is_the_mean_of_shannons() -> None:
    rng = np.random.default_rng(0)
    labels, z = np.repeat([0, 1, 3], 8), rng.normal(size=(24, K))
    found = entropy(evidence_of({"clean": z}, labels), "clean")
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    slow = scipy.stats.entropy(p, axis=1)
    assert found[[0, 1, 3]] == pytest.approx([slow[labels == c].mean() for c in (0, 1, 3)], abs=1e-6)
    assert np.isnan(found[[2, 4]]).all()
    uniform = evidence_of({"clean": np.zeros((2, K))}, np.array([0, 4]))
    assert entropy(uniform, "clean")[[0, 4]] == pytest.approx(np.log(K), abs=1e-6)


def test_p21_cvc_has_its_bounds_and_its_definition() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(K), 20)
    z = rng.normal(size=(100, K)) * rng.choice([0.1, 1, 10], (100, 1))
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    evidence = evidence_of({"clean": z}, labels)
    found = cvc(evidence, "clean")
    # The definition as printed: (1/NC) Σ_i Σ_c (p_c − mean)².
    slow = [((p[labels == c] - p[labels == c].mean(1, keepdims=True)) ** 2).sum() / (20 * K) for c in range(K)]
    assert found == pytest.approx(slow, abs=1e-6)
    assert (found >= 0).all() and (found <= (K - 1) / K**2).all()
    ends = evidence_of({"clean": np.stack([np.zeros(K), 500 * np.eye(K)[2]])}, np.array([0, 1]))
    assert cvc(ends, "clean")[:2] == pytest.approx([0, (K - 1) / K**2], abs=1e-7)
    assert np.isnan(cvc(ends, "clean")[2:]).all(), "classes without images"


def test_p21_cvc_of_cosine_logits_is_tiny_whatever_they_are() -> None:
    """Logits in [-1, 1] and ten classes: the largest probability is 0.4509 and the largest CVC 0.01368."""
    names = tuple("0123456789")
    most = evidence_of({"clean": 2 * np.eye(10)[:1] - 1}, np.array([0]), names=names)
    assert most.conditions["clean"].p_true[0] == pytest.approx(0.4509, abs=5e-5)
    assert cvc(most, "clean")[0] == pytest.approx(0.01368, abs=5e-6)


def test_images_of_a_class_are_ranked_by_confidence_under_attack() -> None:
    evidence = random_evidence()
    found = rank_by_confidence(evidence, "pgd", 3).tolist()
    p = dict(zip(evidence.ids.tolist(), evidence.conditions["pgd"].p_true.tolist(), strict=True))
    members = evidence.ids[evidence.labels == 3].tolist()
    assert found == sorted(members, key=lambda i: (-p[i], i))
    most, least = find_extremes(evidence, "pgd", 3, count=4)
    assert most.tolist() == found[:4] and least.tolist() == found[::-1][:4]
    assert rank_by_confidence(evidence, "pgd", 2).tolist() == []
    with pytest.raises(ValueError, match="out of range"):
        rank_by_confidence(evidence, "pgd", 5)


def test_equal_confidence_is_ranked_by_id_and_no_image_is_both_extremes() -> None:
    evidence = evidence_of({"pgd": np.zeros((5, K))}, np.zeros(5, int), ids=np.array([3, 5, 8, 9, 11]))
    assert rank_by_confidence(evidence, "pgd", 0).tolist() == [3, 5, 8, 9, 11]
    most, least = find_extremes(evidence, "pgd", 0, count=10)
    assert most.tolist() == [3, 5, 8] and least.tolist() == [11, 9]


def test_drop_shares_sum_to_one_and_may_be_negative() -> None:
    before, after = np.array([0.9, 0.8, np.nan, 0.95]), np.array([0.6, 0.85, np.nan, 0.70])
    found = drop_shares(before, after)
    assert found[[0, 1, 3]] == pytest.approx([0.3 / 0.5, -0.05 / 0.5, 0.25 / 0.5]) and np.nansum(found) == 1
    assert np.isnan(drop_shares(after, after)).all()
    rng = np.random.default_rng(0)
    for _ in range(200):  # the same accuracies in another order: what rounding leaves of the sum is no fall
        a = rng.random(K)
        assert np.isnan(drop_shares(a, rng.permutation(a))).all()


def hits(rng: np.random.Generator, labels: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.asarray(rng.random(len(labels)) < p[labels])


def test_resampling_has_the_moments_of_a_bootstrap_and_keeps_models_paired() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 3], [40, 25, 60])
    a = hits(rng, labels, np.array([0.9, 0.5, 0, 0.7]))
    b = np.where(rng.random(len(a)) < 0.5, a, hits(rng, labels, np.array([0.6, 0.4, 0, 0.7])))
    found = resample_accuracies([a, b], labels, 4, draws=4000)
    assert np.isnan(found[:, :, 2]).all()
    for c in (0, 1, 3):
        x, y = a[labels == c].astype(float), b[labels == c].astype(float)
        n = len(x)
        assert found[:, 0, c].mean() == pytest.approx(x.mean(), abs=0.01)
        # The bootstrap's variance is the population variance over n, of the paired difference too.
        assert found[:, 0, c].std() == pytest.approx(x.std() / np.sqrt(n), rel=0.05)
        assert (found[:, 1, c] - found[:, 0, c]).std() == pytest.approx((y - x).std() / np.sqrt(n), rel=0.05)
    with pytest.raises(ValueError, match="same images"):
        resample_accuracies([a, b[:3]], labels, 4)


def test_interval_of_a_joint_share_covers_the_truth() -> None:
    before, after = np.array([0.9, 0.9, 0.9, 0.9]), np.array([0.5, 0.6, 0.8, 0.8])
    truth = 0.7 / 0.9
    labels = np.repeat(np.arange(4), 150)
    rng = np.random.default_rng(1)
    covered = 0
    for seed in range(60):
        a, b = hits(rng, labels, before), hits(rng, labels, after)
        found = joint_share(a, b, labels, k=4, classes=(0, 1), seed=seed)
        assert found.low <= found.value <= found.high
        assert found.value == pytest.approx(
            drop_shares(class_accuracies(a, labels, 4), class_accuracies(b, labels, 4))[:2].sum()
        )
        covered += found.low <= truth <= found.high
    assert covered >= 52  # 95 % of 60 is 57; fewer than 52 has a chance below 1 %


def test_p22_profile_similarity_is_pearsons_correlation_and_that_of_the_frame() -> None:
    rng = np.random.default_rng(0)
    correct = torch.from_numpy(rng.integers(0, 101, (3, 8)))
    n = torch.full((3, 8), 100)
    found = compare_profiles((correct / n).double().numpy())
    frame = ClassFrame(("a", "b", "c"), tuple("01234567"), n, correct)
    assert found.cosine == pytest.approx(np.corrcoef((correct / n).double().numpy()))
    assert found.cosine == pytest.approx(frame.similarity.numpy())
    assert found.mean == pytest.approx(np.mean([found.cosine[0, 1], found.cosine[0, 2], found.cosine[1, 2]]))


def test_permutation_null_of_profiles_is_that_of_all_orders() -> None:
    a = np.array([[0.1, 0.9, 0.4, 0.5, 0.3], [0.2, 0.7, 0.6, 0.4, 0.3]])
    r = np.corrcoef(a)[0, 1]
    exact = np.mean([np.corrcoef(a[0], a[1][list(order)])[0, 1] >= r - 1e-12 for order in permutations(range(5))])
    found = compare_profiles(a, shuffles=4000)
    assert found.p[0, 1] == pytest.approx(exact, abs=0.012) and found.p[0, 1] == found.p[1, 0]
    assert np.isnan(found.p.diagonal()).all()


def test_profiles_without_direction_or_common_classes() -> None:
    flat = np.array([[0.5, 0.5, 0.5], [0.1, 0.5, 0.9]])
    assert np.isnan(compare_profiles(flat).cosine[0, 1]) and np.isnan(compare_profiles(flat).p[0, 1])
    with pytest.raises(ValueError, match="two classes that all models have"):
        compare_profiles(np.array([[0.1, np.nan], [np.nan, 0.2]]))


def test_agreement_difference_sees_which_group_agrees_more() -> None:
    rng = np.random.default_rng(0)
    common = rng.random(40)
    close = common + 0.05 * rng.normal(size=(4, 40))
    loose = common + 0.5 * rng.normal(size=(3, 40))
    found = agreement_difference(loose, close, draws=300)
    assert 0 < found.low < found.value < found.high
    none = agreement_difference(close, close, draws=100)
    assert none.value == 0 and none.low == 0 == none.high


@pytest.mark.parametrize(
    ("k", "models", "cosine"), [(10, 2, 0.8), (10, 4, 0.8), (10, 2, 0.3), (20, 3, 0.6), (6, 3, 0.7)]
)
def test_interval_of_the_mean_agreement_covers(k: int, models: int, cosine: float) -> None:
    """Percentiles of a bootstrap over ten classes covered 87 to 93 %."""
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(300):
        shared, own = rng.normal(size=(1, k)), rng.normal(size=(models, k))
        found = mean_agreement(np.sqrt(cosine) * shared + np.sqrt(1 - cosine) * own)
        inside.append(found.low <= cosine <= found.high)
    assert np.mean(inside) >= 0.93


def test_few_classes_say_nothing_of_agreement() -> None:
    found = mean_agreement(np.array([[0.1, 0.5, 0.9], [0.2, 0.5, 0.8]]))
    assert found.value == pytest.approx(1) and (found.low, found.high) == (-1, 1)


def test_rank_correlation_is_scipys_with_bonett_and_wrights_interval() -> None:
    rng = np.random.default_rng(0)
    x = rng.random(30)
    y = x + 0.4 * rng.random(30)
    y[3] = np.nan
    found = rank_correlation(x, y)
    keep = ~np.isnan(y)
    rho = scipy.stats.spearmanr(x[keep], y[keep]).statistic
    assert found.n == 29 and found.rho == pytest.approx(rho)
    half = 1.959964 * np.sqrt((1 + rho**2 / 2) / 26)
    assert (found.low, found.high) == pytest.approx((np.tanh(np.arctanh(rho) - half), np.tanh(np.arctanh(rho) + half)))
    assert found.p == 1 / 2000


def test_rank_correlation_p_value_is_that_of_scipys_permutation_test() -> None:
    x, y = np.array([1.0, 2, 3, 4, 5, 6]), np.array([2.0, 1, 4, 3, 6, 5.5])
    exact = scipy.stats.permutation_test(
        (x,), lambda v: scipy.stats.spearmanr(v, y).statistic, permutation_type="pairings"
    )
    assert rank_correlation(x, y, shuffles=4000).p == pytest.approx(exact.pvalue, abs=0.012)


def test_rank_correlation_interval_covers() -> None:
    """Normal pairs of correlation 0.7 have Spearman's ρ = (6/π)·asin(0.35)."""
    rng = np.random.default_rng(3)
    truth = 6 / np.pi * np.arcsin(0.35)
    draws = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], size=(400, 50))
    found = [rank_correlation(d[:, 0], d[:, 1], shuffles=1) for d in draws]
    assert 0.92 <= np.mean([one.low <= truth <= one.high for one in found]) <= 0.98


def test_rank_correlation_of_nothing_is_missing() -> None:
    assert np.isnan(rank_correlation(np.ones(5), np.arange(5.0)).rho)
    assert rank_correlation(np.arange(3.0), np.arange(3.0)).low == -1


def test_a_split_whose_classes_are_tied_counts_as_no_correlation() -> None:
    order = np.arange(6.0)
    both = mean_rank_correlation(np.stack([order, np.ones(6)]), np.stack([order, order]))
    assert both.rho == pytest.approx(0.5) and both.low < 0.5 < both.high
    assert np.isnan(mean_rank_correlation(np.ones((2, 6)), np.stack([order, order])).rho)


@pytest.mark.parametrize("n", [4, 5, 10])
def test_a_perfect_order_of_few_classes_is_not_certain(n: int) -> None:
    up = rank_correlation(np.arange(n * 1.0), np.arange(n * 1.0))
    down = rank_correlation(np.arange(n * 1.0), -np.arange(n * 1.0))
    assert up.rho == pytest.approx(1) and up.high == up.rho and up.low < 0.97
    assert (down.low, down.high) == pytest.approx((-up.high, -up.low))
    assert up.low < 0 or n > 4
    tied = np.eye(n)[0]
    assert rank_correlation(tied, tied).low < 0.97


def tallies(accuracy: list[list[float]], n: int = 100) -> list[Tally]:
    return [
        Tally(torch.full((len(row),), n), torch.tensor([round(n * a) for a in row], dtype=torch.int64))
        for row in accuracy
    ]


def test_convergence_of_made_up_curves() -> None:
    steady = [0.1 * e for e in range(10)]
    wild = [0.5 + (0.2 if e % 2 else -0.2) for e in range(10)]
    found = measure_convergence(tallies([list(row) for row in zip(steady, wild, strict=True)]), last=0.4)
    assert found.final == pytest.approx([np.mean(steady[-4:]), 0.5])
    assert found.mean == pytest.approx([0.45, 0.5])
    assert found.wobble[0] == pytest.approx(0, abs=1e-12)  # still rising is not wobbling
    line = np.polyval(np.polyfit(range(4), wild[-4:], 1), range(4))
    assert found.wobble[1] == pytest.approx(np.std(np.array(wild[-4:]) - line))


def test_overfitting_of_made_up_curves() -> None:
    train = tallies([[0.3, 0.3], [0.6, 0.5], [0.9, 0.6]])
    test = tallies([[0.3, 0.2], [0.5, 0.3], [0.2, 0.4]])
    found = measure_overfitting(train, test)
    assert found.epoch == 1 and found.own_epoch.tolist() == [1, 2]
    assert found.lost == pytest.approx([0.3, -0.1]) and found.own_lost == pytest.approx([0.3, 0.0])
    assert found.gap == pytest.approx([0.7, 0.2])
    with pytest.raises(ValueError, match="same epochs"):
        measure_overfitting(train, test[:2])
    with pytest.raises(ValueError, match="no epochs"):
        measure_convergence([])
