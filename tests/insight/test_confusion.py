"""Confusions, symmetry, superclasses, communities and homing against loops, networkx, scikit-learn and closed forms."""

import networkx as nx
import numpy as np
import pytest
import torch

from leastwise.audit.evidence import Evidence, count_confusions
from leastwise.core.counts import Tally
from leastwise.insight.confusion import (
    adjusted_rand,
    affinity,
    classes_by_group,
    compare_with_groups,
    confusion_rates,
    count_inside_groups,
    find_communities,
    in_flow,
    keep_mistakes,
    measure_symmetry,
    modularity,
    rank_groups,
)
from leastwise.insight.homing import estimate_homing_gain, measure_homing
from tests.insight.evidence_of_logits import NAMES, evidence_of, predicting, random_evidence

K = 5
GROUPS = (("insects", (0, 1)), ("mammals", (2, 3, 4)))


def test_confusion_counts_and_its_rows_sum_to_the_classes() -> None:
    evidence = random_evidence()
    found = count_confusions(evidence, "pgd")
    for i in range(K):
        for j in range(K):
            both = (evidence.labels == i) & (evidence.conditions["pgd"].predicted == j)
            assert found[i, j] == both.sum()
    assert found.sum(1).tolist() == np.bincount(evidence.labels, minlength=K).tolist()
    assert found.diagonal().tolist() == evidence.tally("pgd").correct.tolist()
    wrong, share = keep_mistakes(found), confusion_rates(found)
    assert not wrong.diagonal().any() and (wrong + np.diag(found.diagonal()) == found).all()
    assert np.isnan(share[2]).all() and share[[0, 1, 3, 4]].sum(1) == pytest.approx(1)


def test_in_flow_names_the_attractor() -> None:
    matrix = np.array([[6, 4, 0], [1, 9, 0], [5, 5, 10]])
    assert in_flow(matrix) == pytest.approx([6 / 15, 9 / 15, 0])
    assert np.isnan(in_flow(np.diag([3, 4]))).all()


def test_symmetry_is_one_for_a_symmetric_matrix_and_minus_for_a_cycle() -> None:
    rng = np.random.default_rng(0)
    half = np.triu(rng.integers(0, 40, (6, 6)), 1)
    matrix = half + half.T
    np.fill_diagonal(matrix, 500 - matrix.sum(1))  # balanced, so that counts and rates agree
    found = measure_symmetry(matrix)
    assert found.score == pytest.approx(1) and found.p < 0.01 and found.pairs == 15
    cycle = 100 * np.eye(5, dtype=int) + 50 * np.roll(np.eye(5, dtype=int), 1, axis=1)
    assert measure_symmetry(cycle).score == pytest.approx(
        -1 / 3
    )  # five of twenty cells, none mirrored: −(5/20)/(1 − 5/20)


def test_symmetry_is_the_correlation_with_the_mirror_image_and_does_not_know_the_order_of_classes() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.integers(1, 60, (7, 7))
    r = matrix / matrix.sum(1, keepdims=True)
    pairs = [(r[i, j], r[j, i]) for i in range(7) for j in range(7) if i != j]
    assert measure_symmetry(matrix).score == pytest.approx(np.corrcoef(np.array(pairs).T)[0, 1])
    order = rng.permutation(7)
    assert measure_symmetry(matrix[np.ix_(order, order)]).score == pytest.approx(measure_symmetry(matrix).score)


def test_symmetry_p_values_are_small_seldom_where_nothing_is_symmetric() -> None:
    rng = np.random.default_rng(2)
    p = [measure_symmetry(rng.integers(1, 60, (6, 6)), shuffles=99).p for _ in range(200)]
    assert np.mean(np.array(p) <= 0.05) < 0.10 and 0.4 < np.mean(p) < 0.6


def test_symmetry_of_nothing_is_missing() -> None:
    assert np.isnan(measure_symmetry(np.diag([3, 4, 5])).score)


def test_inside_superclasses_by_hand() -> None:
    matrix = np.array([[8, 2, 0, 0, 0], [1, 7, 2, 0, 0], [0, 0, 10, 0, 0], [0, 1, 3, 5, 1], [0, 0, 0, 4, 6]])
    found = count_inside_groups(matrix, GROUPS)
    assert (found.mistakes, found.inside) == (14, 2 + 1 + 3 + 1 + 4) and found.share == 11 / 14
    # Rows 0, 1 have one partner of four, rows 3, 4 two: (2 + 3)·1/4 + (5 + 4)·2/4 of 14.
    assert found.expected == pytest.approx((5 / 4 + 9 / 2) / 14)
    partly = count_inside_groups(matrix, (("mammals", (2, 3, 4)),))
    assert (partly.mistakes, partly.inside) == (9, 8)


def test_expected_share_inside_is_that_of_mistakes_that_fall_anywhere() -> None:
    rng = np.random.default_rng(0)
    wrong = np.array([[0 if i == j else rng.poisson(2000) for j in range(K)] for i in range(K)])
    found = count_inside_groups(wrong, GROUPS)
    assert found.share == pytest.approx(found.expected, abs=0.02)


def test_superclass_order_lists_every_class_once() -> None:
    assert classes_by_group((("b", (3, 0)), ("a", (4,))), 5).tolist() == [3, 0, 4, 1, 2]


def test_superclasses_are_ranked_with_what_their_mean_hides() -> None:
    a, b = (
        Tally(torch.tensor([10, 30, 0, 10, 10]), torch.tensor(correct))
        for correct in ([9, 15, 0, 1, 9], [7, 21, 0, 3, 9])
    )
    best, last = rank_groups([a, b], (("insects", (0, 1)), ("mammals", (2, 3, 4))))
    assert best.name == "insects" and best.accuracy == pytest.approx((24 / 40 + 28 / 40) / 2)
    assert (best.lowest, best.highest) == pytest.approx(((0.5 + 0.7) / 2, (0.9 + 0.7) / 2))
    assert last.accuracy == pytest.approx((10 / 20 + 12 / 20) / 2)
    assert (last.lowest, last.highest) == pytest.approx((0.2, 0.9))
    assert rank_groups([a], (("cows", (2,)),)) == ()


def random_graph(k: int, seed: int) -> tuple[np.ndarray, nx.Graph]:
    rng = np.random.default_rng(seed)
    graph = np.triu(rng.random((k, k)) * (rng.random((k, k)) < 0.5), 1)
    graph = graph + graph.T
    return graph, nx.from_numpy_array(graph)


@pytest.mark.parametrize("seed", range(6))
def test_communities_are_those_of_networkx(seed: int) -> None:
    graph, peer = random_graph(12, seed)
    found = find_communities(graph)
    theirs = nx.community.greedy_modularity_communities(peer, weight="weight")
    parts = [set(np.flatnonzero(found == c).tolist()) for c in range(found.max() + 1)]
    assert modularity(graph, found) == pytest.approx(nx.community.modularity(peer, parts))
    assert sorted(map(sorted, parts)) == sorted(map(sorted, theirs))


def test_communities_find_planted_superclasses() -> None:
    matrix = np.full((K, K), 1)
    for _, classes in GROUPS:
        matrix[np.ix_(classes, classes)] = 30
    np.fill_diagonal(matrix, 100)
    found = compare_with_groups(matrix, GROUPS)
    assert found.found.tolist() == [0, 0, 1, 1, 1] and found.agreement == 1
    assert found.modularity == pytest.approx(found.of_groups)
    assert len(set(find_communities(affinity(matrix), count=3).tolist())) == 3
    assert find_communities(np.zeros((4, 4))).tolist() == [0, 1, 2, 3]


def test_communities_are_of_classes_that_have_images_and_a_superclass() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.integers(1, 30, (K, K)) + 100 * np.eye(K, dtype=int)
    one_group = compare_with_groups(matrix, (("insects", (0, 1)),), as_many=True)
    assert np.isnan(one_group.agreement) and (one_group.found == -1).all()
    some = compare_with_groups(matrix, (("a", (0, 1)), ("b", (3,))), as_many=True)
    assert some.found[[2, 4]].tolist() == [-1, -1] and len(set(some.found[[0, 1, 3]].tolist())) == 2
    matrix[1] = 0  # no images of it: neither joins the others nor counts
    without = compare_with_groups(matrix, GROUPS, as_many=True)
    assert without.found[1] == -1 and len(set(without.found[[0, 2, 3, 4]].tolist())) == 2
    right = compare_with_groups(np.diag(np.full(K, 9)), GROUPS, as_many=True)
    assert np.isnan([right.agreement, right.modularity, right.of_groups]).all()


def test_two_classes_have_no_symmetry() -> None:
    """Centred, their two confusions are always opposites."""
    assert np.isnan(measure_symmetry(np.array([[700, 300], [301, 699]])).score)
    assert np.isnan(measure_symmetry(np.array([[7, 3, 0], [0, 0, 0], [2, 0, 8]])).score)


def test_adjusted_rand_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.integers(0, 4, (2, 15))
        assert adjusted_rand(a, b) == pytest.approx(metrics.adjusted_rand_score(a, b))
    assert adjusted_rand(np.array([0, 0, 1]), np.array([1, 1, 0])) == 1


# Homing.


def models(n: int = 400, seed: int = 0) -> tuple[Evidence, dict[int, Evidence], dict[int, Evidence]]:
    """A full model; models without each class with k outputs; and the same with k − 1 outputs, on fewer images."""
    rng = np.random.default_rng(seed)
    labels, predicted = rng.integers(0, K, (2, n))
    ids = np.sort(rng.choice(5 * n, n, replace=False))
    full = evidence_of({"pgd": predicting(predicted, K)}, labels, ids=ids)
    same_head, smaller_head = {}, {}
    for j in range(K):
        others = np.array([c for c in range(K) if c != j])
        again = rng.choice(others, n)
        same_head[j] = evidence_of({"pgd": predicting(again, K)}, labels, ids=ids)
        rows = labels != j
        new = np.cumsum(np.arange(K) != j) - 1
        names = tuple(name for c, name in enumerate(NAMES) if c != j)
        logits = predicting(new[again[rows]], K - 1)
        smaller_head[j] = evidence_of({"pgd": logits}, new[labels[rows]], names=names, ids=ids[rows])
    return full, same_head, smaller_head


def test_p23_homing_is_at_most_what_was_misclassified_and_has_an_empty_diagonal() -> None:
    full, without, _ = models()
    found = measure_homing(full, without, "pgd")
    assert (found.homed <= found.misclassified).all() and not found.homed.diagonal().any()
    assert 0 < found.share < 1


def test_homing_counts_image_by_image_whatever_the_head() -> None:
    full, without, smaller = models()
    slow = np.zeros((K, K))
    for row in range(len(full.ids)):
        i, j = full.labels[row], full.conditions["pgd"].predicted[row]
        if i != j and without[j].conditions["pgd"].predicted[row] == i:
            slow[i, j] += 1
    assert (measure_homing(full, without, "pgd").homed == slow).all()
    assert (measure_homing(full, smaller, "pgd").homed == slow).all()
    assert measure_homing(full, without, "pgd").share == slow.sum() / keep_mistakes(count_confusions(full, "pgd")).sum()
    largest = slow.max(1) / slow.sum(1)
    assert measure_homing(full, without, "pgd").concentration == pytest.approx(largest)


def test_homing_gain_is_over_models_that_lack_another_class() -> None:
    full, without, smaller = models()
    predicted, labels = full.conditions["pgd"].predicted, full.labels
    gains = []
    for row in np.flatnonzero(predicted != labels):
        home = [without[j].conditions["pgd"].predicted[row] == labels[row] for j in range(K)]
        elsewhere = [home[j] for j in range(K) if j not in (predicted[row], labels[row])]
        gains.append(home[predicted[row]] - np.mean(elsewhere))
    found = estimate_homing_gain(full, without, "pgd")
    assert (
        found.value == pytest.approx(np.mean(gains)) and found.value == estimate_homing_gain(full, smaller, "pgd").value
    )
    assert found.high - found.value == pytest.approx(1.959964 * np.std(gains, ddof=1) / np.sqrt(len(gains)))
    assert found.low < 0 < found.high  # these models were drawn at random: no image knows its home
    assert np.isnan(estimate_homing_gain(full, {3: without[3]}, "pgd").value)


def test_homing_gain_leaves_out_images_for_which_no_other_class_was_removed() -> None:
    """Without 3 and without 4 only: who is 3 and taken for 4, or the other way round, has nothing to compare with."""
    full, without, _ = models()
    two = {j: without[j] for j in (3, 4)}
    predicted, labels = full.conditions["pgd"].predicted, full.labels
    rows = np.flatnonzero((predicted != labels) & np.isin(predicted, [3, 4]) & ~np.isin(labels, [3, 4]))
    right = {j: without[j].conditions["pgd"].predicted == labels for j in two}
    gains = [float(right[predicted[i]][i]) - float(right[7 - predicted[i]][i]) for i in rows]
    assert estimate_homing_gain(full, two, "pgd").value == pytest.approx(np.mean(gains))


def test_homing_under_an_attack_that_one_model_was_not_put_to_is_refused() -> None:
    full, _, _ = models()
    other = evidence_of({"fgsm": np.zeros((400, K))}, full.labels, ids=full.ids)
    with pytest.raises(ValueError, match="not audited under pgd, only under fgsm"):
        measure_homing(full, {1: other}, "pgd")


def test_homing_without_every_retraining_says_what_is_missing() -> None:
    full, without, _ = models()
    found = measure_homing(full, {3: without[3]}, "pgd")
    assert np.isnan(found.homed[:, [0, 1, 2, 4]]).all() and not np.isnan(found.homed[:, 3]).any()
    assert found.share == found.homed[:, 3].sum() / found.misclassified[:, 3].sum()


def test_homing_of_other_images_or_labels_is_refused() -> None:
    full, without, smaller = models()
    with pytest.raises(ValueError, match="same test set"):
        measure_homing(full, {0: smaller[1]}, "pgd")
    with pytest.raises(ValueError, match="cannot have been removed"):
        measure_homing(full, {7: without[1]}, "pgd")
    renamed = evidence_of({"pgd": np.zeros((400, K))}, full.labels, names=tuple("abcde"), ids=full.ids)
    with pytest.raises(ValueError, match="keep the names"):
        measure_homing(full, {1: renamed}, "pgd")
