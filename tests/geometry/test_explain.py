"""The whole explanation is its parts, and finds the cause that was planted."""

import numpy as np
import pytest

from leastwise.geometry import Moments, explain, in_flow, inter_class_similarity, symmetry
from leastwise.geometry.confusion import confusion
from tests.geometry.given import evidence_of, predicting, random_evidence

GROUPS = (("insects", (0, 1)), ("mammals", (2, 3, 4)))


def test_an_explanation_is_its_parts() -> None:
    evidence = random_evidence(groups=GROUPS)
    found = explain(evidence, "pgd")
    matrix = confusion(evidence, "pgd")
    assert (found.confusion == matrix).all() and found.in_flow == pytest.approx(in_flow(matrix))
    assert found.attractor == int(in_flow(matrix).argmax()) and found.symmetry == symmetry(matrix)
    assert found.inside is not None and found.communities is not None
    assert np.isnan(found.accuracy[2]) and found.accuracy[0] == matrix[0, 0] / matrix[0].sum()
    assert set(found.predicts) == set(found.candidates) == {"clean accuracy", "entropy", "variance of confidence"}
    assert found.predicts["clean accuracy"].n == 4


def test_without_superclasses_or_mistakes_there_is_less_to_say() -> None:
    labels = np.repeat(np.arange(5), 4)
    found = explain(evidence_of({"clean": predicting(labels, 5)}, labels), "clean")
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
    found = explain(evidence, "pgd", found=moments)
    assert found.candidates["similarity to another class"] == pytest.approx(inter_class_similarity(moments.means))
    best = found.predicts["similarity to another class"]
    assert best.rho < -0.9 and best.high < 0 and best.p < 0.01
    assert np.isnan(found.predicts["clean accuracy"].rho)  # all classes were right
