"""P17: renumbering the classes renumbers every result of the geometry and changes no number."""

import numpy as np
import pytest

from leastwise.audit.evidence import Evidence, count_confusions, cvc, entropy
from leastwise.insight.agreement import compare_profiles, drop_shares, joint_share, rank_correlation
from leastwise.insight.confusion import (
    affinity,
    count_inside_groups,
    find_communities,
    in_flow,
    measure_symmetry,
    modularity,
    rank_by_confidence,
)
from leastwise.insight.features import Moments, inter_class_similarity, intra_class_variance, mean_logit_similarity
from leastwise.insight.homing import estimate_homing_gain, measure_homing
from tests.insight.evidence_of_logits import NAMES, evidence_of

K, N = 5, 240
ORDER = np.array([3, 0, 4, 1, 2])  # new class i is old class ORDER[i]
NEW = np.argsort(ORDER)  # the new number of each old class
GROUPS = (("insects", (0, 1)), ("mammals", (2, 3, 4)))
NEW_GROUPS = tuple((name, tuple(int(NEW[c]) for c in classes)) for name, classes in GROUPS)


def logits(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.random.default_rng(99).integers(0, K, N)
    return rng.normal(size=(N, K)) + 1.5 * np.eye(K)[labels], labels


def both(seed: int) -> tuple[Evidence, Evidence]:
    z, labels = logits(seed)
    renamed = tuple(NAMES[c] for c in ORDER)
    return evidence_of({"pgd": z}, labels), evidence_of({"pgd": z[:, ORDER]}, NEW[labels], names=renamed)


def test_p17_of_evidence() -> None:
    old, new = both(0)
    for measure in (entropy, cvc):
        assert measure(new, "pgd") == pytest.approx(measure(old, "pgd")[ORDER])
    square = np.ix_(ORDER, ORDER)
    assert mean_logit_similarity(new, "pgd") == pytest.approx(mean_logit_similarity(old, "pgd")[square])
    before, after = count_confusions(old, "pgd"), count_confusions(new, "pgd")
    assert (after == before[square]).all()
    assert in_flow(after) == pytest.approx(in_flow(before)[ORDER])
    assert measure_symmetry(after).score == pytest.approx(measure_symmetry(before).score)
    assert count_inside_groups(after, NEW_GROUPS).share == count_inside_groups(before, GROUPS).share
    assert count_inside_groups(after, NEW_GROUPS).expected == pytest.approx(
        count_inside_groups(before, GROUPS).expected
    )
    assert rank_by_confidence(new, "pgd", int(NEW[3])).tolist() == rank_by_confidence(old, "pgd", 3).tolist()


def test_p17_of_communities_without_ties() -> None:
    old, new = both(1)
    a, b = affinity(count_confusions(old, "pgd")), affinity(count_confusions(new, "pgd"))
    assert modularity(b, find_communities(b)) == pytest.approx(modularity(a, find_communities(a)))
    together = find_communities(a)[:, None] == find_communities(a)[None]
    assert ((find_communities(b)[:, None] == find_communities(b)[None]) == together[np.ix_(ORDER, ORDER)]).all()


def test_p17_of_homing() -> None:
    old, new = both(2)
    others = {j: both(10 + j) for j in range(K)}
    found = measure_homing(old, {j: pair[0] for j, pair in others.items()}, "pgd")
    again = measure_homing(new, {int(NEW[j]): pair[1] for j, pair in others.items()}, "pgd")
    assert (again.homed == found.homed[np.ix_(ORDER, ORDER)]).all() and again.share == found.share
    gain = estimate_homing_gain(old, {j: pair[0] for j, pair in others.items()}, "pgd")
    assert estimate_homing_gain(
        new, {int(NEW[j]): pair[1] for j, pair in others.items()}, "pgd"
    ).value == pytest.approx(gain.value)


def test_p17_of_features_and_profiles() -> None:
    rng = np.random.default_rng(3)
    features, labels = rng.normal(size=(N, 7)), rng.integers(0, K, N)
    old, new = Moments.of(features, labels, K), Moments.of(features, NEW[labels], K)
    assert inter_class_similarity(new.means) == pytest.approx(inter_class_similarity(old.means)[ORDER])
    assert intra_class_variance(new) == pytest.approx(intra_class_variance(old)[ORDER])
    accuracy = rng.random((3, K))
    assert compare_profiles(accuracy[:, ORDER]).cosine == pytest.approx(compare_profiles(accuracy).cosine)
    assert drop_shares(accuracy[0][ORDER], accuracy[0][ORDER] / 2) == pytest.approx(
        drop_shares(accuracy[0], accuracy[0] / 2)[ORDER]
    )
    pair = rank_correlation(accuracy[0], accuracy[1]), rank_correlation(accuracy[0][ORDER], accuracy[1][ORDER])
    assert pair[0].rho == pytest.approx(pair[1].rho)
    before, after = rng.random(N) < 0.9, rng.random(N) < 0.5
    shares = (
        joint_share(before, after, labels, k=K, classes=(0, 3)),
        joint_share(before, after, NEW[labels], k=K, classes=(int(NEW[0]), int(NEW[3]))),
    )
    assert shares[0].value == pytest.approx(shares[1].value)
