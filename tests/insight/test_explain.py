"""The whole explanation is its parts, and finds the cause that was planted."""

import numpy as np
import pytest

from leastwise.audit.evidence import count_confusions
from leastwise.insight.agreement import rank_correlation
from leastwise.insight.confusion import in_flow, measure_symmetry
from leastwise.insight.explain import correlate_halves, explain_classes, split_in_two
from leastwise.insight.features import Moments, inter_class_similarity
from tests.insight.evidence_of_logits import evidence_of, predicting, random_evidence

GROUPS = (("insects", (0, 1)), ("mammals", (2, 3, 4)))


def test_an_explanation_is_its_parts() -> None:
    evidence = random_evidence(groups=GROUPS)
    found = explain_classes(evidence, "pgd")
    matrix = count_confusions(evidence, "pgd")
    assert (found.confusion == matrix).all() and found.in_flow == pytest.approx(in_flow(matrix))
    assert found.attractor == int(in_flow(matrix).argmax()) and found.symmetry == measure_symmetry(matrix)
    assert found.inside is not None and found.communities is not None
    assert np.isnan(found.accuracy[2]) and found.accuracy[0] == matrix[0, 0] / matrix[0].sum()
    assert set(found.predicts) == set(found.candidates) == {"clean accuracy", "entropy", "variance of confidence"}
    assert found.predicts["clean accuracy"].n == 4


def test_without_superclasses_or_mistakes_there_is_less_to_say() -> None:
    labels = np.repeat(np.arange(5), 4)
    found = explain_classes(evidence_of({"clean": predicting(labels, 5)}, labels), "clean")
    assert found.inside is None and found.communities is None and found.attractor is None
    assert np.isnan(found.predicts["entropy"].rho)


def test_similar_classes_are_found_to_be_the_weak_ones() -> None:
    """Eight classes on a line of angles: the closer to its neighbour, the lower the accuracy that was planted."""
    rng = np.random.default_rng(0)
    k, each = 8, 400
    apart = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    angles = np.concatenate([[0], np.cumsum(apart)])
    nearest = np.minimum(np.append(apart, np.inf), np.append(np.inf, apart))
    accuracy = 0.2 + nearest
    labels = np.repeat(np.arange(k), each)
    wrong = rng.random(len(labels)) > accuracy[labels]
    logits = predicting(np.where(wrong, (labels + 1) % k, labels), k)
    evidence = evidence_of({"clean": predicting(labels, k), "pgd": logits}, labels, names=tuple("abcdefgh"))
    features = np.stack([np.cos(angles), np.sin(angles)], 1)[labels]
    moments = Moments.of(features, labels, k)
    found = explain_classes(evidence, "pgd", found=moments)
    assert found.candidates["similarity to another class"] == pytest.approx(inter_class_similarity(moments.means))
    best = found.predicts["similarity to another class"]
    assert best.rho < -0.9 and best.high < 0 and best.p < 0.01
    assert np.isnan(found.predicts["clean accuracy"].rho)  # all classes were right


@pytest.mark.parametrize(("k", "each"), [(10, 40), (60, 40)])
def test_classes_that_are_all_alike_do_not_seem_to_follow_each_other(k: int, each: int) -> None:
    """Every class has 80 % without attack and 40 % under one, always of the same images: on the same images the rank
    correlation of chance with chance is 0.4, and at sixty classes nine of ten intervals exclude 0."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(k), each)
    names = tuple(map(str, range(k)))
    sure, rho, on_the_same = 0, [], []
    for _ in range(60):
        clean = rng.random(len(labels)) < 0.8
        robust = clean & (rng.random(len(labels)) < 0.5)
        wrong = (labels + 1) % k
        logits = {
            name: predicting(np.where(hit, labels, wrong), k) for name, hit in (("clean", clean), ("pgd", robust))
        }
        evidence = evidence_of(logits, labels, names=names)
        found = correlate_halves(evidence, "pgd", "clean")["clean accuracy"]
        sure += found.low > 0 or found.high < 0
        rho.append(found.rho)
        both = (evidence.tally(name).accuracy.numpy() for name in ("clean", "pgd"))
        on_the_same.append(rank_correlation(*both, shuffles=0).rho)
    assert sure <= 8 and abs(np.mean(rho)) < 0.1 and np.mean(on_the_same) > 0.25


def test_the_clean_accuracy_of_classes_that_differ_still_predicts() -> None:
    rng = np.random.default_rng(1)
    k, each = 10, 200
    labels = np.repeat(np.arange(k), each)
    clean = rng.random(len(labels)) < np.linspace(0.95, 0.5, k)[labels]
    robust = clean & (rng.random(len(labels)) < 0.5)
    logits = {
        n: predicting(np.where(hit, labels, (labels + 1) % k), k) for n, hit in (("clean", clean), ("pgd", robust))
    }
    found = correlate_halves(evidence_of(logits, labels, names=tuple("abcdefghij")), "pgd", "clean")["clean accuracy"]
    assert found.rho > 0.85 and found.low > 0.4 and found.p < 0.01


def test_halves_have_half_of_every_class() -> None:
    labels = np.array([3, 0, 0, 3, 1, 3, 0, 3, 0, 3])
    halves = list(split_in_two(labels, splits=30))
    assert {tuple(np.bincount(labels[half], minlength=4)) for half in halves} == {(2, 1, 0, 3)}
    assert len({tuple(half) for half in halves}) > 10
