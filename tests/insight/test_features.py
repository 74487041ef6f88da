"""Class moments, similarity, variance and planes against numpy on all features at once, and closed forms."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn

from leastwise.data.dataset import Dataset
from leastwise.insight.features import (
    Moments,
    cosines,
    inter_class_similarity,
    intra_class_variance,
    mean_logit_similarity,
    measure_moments,
    most_similar,
    own_plane,
    plane_through,
    principal_plane,
    project_images,
)
from leastwise.models.classifier import Classifier, wrap
from leastwise.models.zoo.registry import build
from tests.conftest import SHAPE, K
from tests.insight.evidence_of_logits import evidence_of

D = 7


@pytest.fixture
def cloud() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.choice(K, 90, p=[0.5, 0.2, 0.0, 0.2, 0.1])
    return rng.normal(size=(K, D))[labels] + 0.3 * rng.normal(size=(90, D)), labels


def test_moments_are_those_of_numpy(cloud: tuple[np.ndarray, np.ndarray]) -> None:
    f, y = cloud
    found = Moments.of(f, y, K)
    for c in range(K):
        if c == 2:
            assert np.isnan(found.means[c]).all() and np.isnan(intra_class_variance(found)[c])
            continue
        assert np.allclose(found.means[c], f[y == c].mean(0), atol=1e-14)
        assert np.allclose(found.scatter[c], ((f[y == c] - f[y == c].mean(0)) ** 2).sum(0), atol=1e-12)
        assert intra_class_variance(found)[c] == pytest.approx(f[y == c].var(0).mean())
        assert intra_class_variance(found, pooled=True)[c] == pytest.approx(f[y == c].var())


def test_moments_add_in_any_order_and_around_a_large_mean(cloud: tuple[np.ndarray, np.ndarray]) -> None:
    f, y = cloud
    f = f + 1e7  # Σf² − n·mean² would have lost every digit of the variance here
    whole = Moments.of(f, y, K)
    a, b, c = (Moments.of(f[i::3], y[i::3], K) for i in range(3))
    for found in ((a + b) + c, c + (b + a), a + c + b):
        assert found.n.tolist() == whole.n.tolist()
        assert np.allclose(found.centre, whole.centre, rtol=1e-14)
        assert np.allclose(intra_class_variance(found), intra_class_variance(whole), rtol=1e-6, equal_nan=True)
    assert intra_class_variance(whole)[0] == pytest.approx(f[y == 0].var(0).mean(), rel=1e-6)


def test_streamed_moments_of_a_network_are_those_of_all_its_features(unbalanced: Dataset) -> None:
    model = build("small", SHAPE, K, seed=3).train()
    found = measure_moments(model, unbalanced, batch_size=8)
    assert model.training  # the mode it came in
    model.eval()
    with torch.no_grad():
        f = model.features(unbalanced.batch(np.arange(len(unbalanced))).x).double().numpy()
    whole = Moments.of(f, unbalanced.labels, K)
    assert found.n.tolist() == unbalanced.counts.tolist()
    assert np.allclose(found.centre, whole.centre, atol=1e-6) and np.allclose(found.scatter, whole.scatter, atol=1e-6)


def test_memory_does_not_grow_with_the_images() -> None:
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4096, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(x.flatten(1).repeat(1, 4096))

    model = wrap(Wide(), 2)

    def peak(n: int) -> int:
        data = Dataset.of(np.zeros((n, 1, 1, 1), np.uint8), np.arange(n) % 2)
        tracemalloc.start()
        measure_moments(model, data, batch_size=10)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(400) < 1.5 * peak(40)


def test_empty_data_is_refused(unbalanced: Dataset) -> None:
    nothing = unbalanced.where(np.zeros(len(unbalanced), bool))
    with pytest.raises(ValueError, match="no examples"):
        measure_moments(build("convnet", SHAPE, K), nothing)


def test_similarity_is_the_largest_cosine_to_another_class() -> None:
    # In a plane, at 0°, 30°, 100° and 180°: neighbours' cosines are known.
    angles = np.deg2rad([0, 30, 100, 180])
    means = np.stack([np.cos(angles), np.sin(angles)], 1) * np.array([[1], [5], [0.1], [2]])
    expected = [np.cos(np.pi / 6), np.cos(np.pi / 6), np.cos(np.deg2rad(70)), np.cos(np.deg2rad(80))]
    assert inter_class_similarity(means) == pytest.approx(expected)
    assert most_similar(means).tolist() == [1, 0, 1, 2]
    assert inter_class_similarity(means * 3) == pytest.approx(expected)
    assert cosines(means) == pytest.approx(cosines(means).T)


def test_identical_means_have_similarity_one_and_missing_classes_none() -> None:
    means = np.array([[1.0, 2.0], [1.0, 2.0], [np.nan, np.nan], [-1.0, 0.0]])
    found = inter_class_similarity(means)
    assert found[:2] == pytest.approx([1, 1]) and np.isnan(found[2])
    assert found[3] == pytest.approx(-1 / np.sqrt(5))
    assert most_similar(means).tolist() == [1, 0, 2, 0]
    assert np.isnan(inter_class_similarity(np.ones((1, 3)))).all()


def test_variance_scales_with_the_square_of_the_features(cloud: tuple[np.ndarray, np.ndarray]) -> None:
    f, y = cloud
    for pooled in (False, True):
        once, thrice = (intra_class_variance(Moments.of(s * f, y, K), pooled) for s in (1.0, 3.0))
        assert thrice == pytest.approx(9 * once, nan_ok=True)


def test_mean_logit_similarity_by_hand_and_free_of_shifts() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 3, 4], 6)
    z = rng.normal(size=(24, K))
    shifted = z + rng.normal(size=(24, 1))
    evidence = evidence_of({"clean": z, "shifted": shifted}, labels)
    m = np.stack([z[labels == c].mean(0) for c in (0, 1, 3, 4)])
    for centred in (True, False):
        v = m - m.mean(1, keepdims=True) if centred else m
        found = mean_logit_similarity(evidence, "clean", centred)
        for (i, c), (j, d) in combinations(enumerate((0, 1, 3, 4)), 2):
            expected = v[i] @ v[j] / np.linalg.norm(v[i]) / np.linalg.norm(v[j])
            assert found[c, d] == pytest.approx(expected)
        assert np.isnan(found[2]).all() and np.isnan(found[:, 2]).all()
    centred, moved = (mean_logit_similarity(evidence, name) for name in ("clean", "shifted"))
    assert centred == pytest.approx(moved, nan_ok=True)
    assert not np.allclose(*(mean_logit_similarity(evidence, name, False)[0, 1] for name in ("clean", "shifted")))


def test_principal_plane_is_the_pca_of_the_class_means(cloud: tuple[np.ndarray, np.ndarray]) -> None:
    found = Moments.of(*cloud, K)
    plane = principal_plane(found)
    means = found.means[[0, 1, 3, 4]]
    values, vectors = np.linalg.eigh(np.cov(means.T, ddof=0))
    assert np.abs(plane.axes @ vectors[:, ::-1][:, :2]) == pytest.approx(np.eye(2), abs=1e-9)
    assert plane.project(means).var(0) == pytest.approx(values[::-1][:2])
    assert plane.project(means).mean(0) == pytest.approx([0, 0], abs=1e-12)
    assert all(axis[np.abs(axis).argmax()] > 0 for axis in plane.axes)


def test_plane_through_three_means_keeps_their_distances(cloud: tuple[np.ndarray, np.ndarray]) -> None:
    found = Moments.of(*cloud, K)
    chosen = (3, 0, 4)
    points = plane_through(found, chosen).project(found.centre[list(chosen)])
    assert points[0] == pytest.approx([0, 0]) and points[1, 1] == pytest.approx(0) and points[2, 1] > 0
    for i, j in combinations(range(3), 2):
        apart = np.linalg.norm(found.centre[chosen[i]] - found.centre[chosen[j]])
        assert np.linalg.norm(points[i] - points[j]) == pytest.approx(apart)


def test_planes_that_do_not_exist_are_refused(cloud: tuple[np.ndarray, np.ndarray]) -> None:
    found = Moments.of(*cloud, K)
    with pytest.raises(ValueError, match="three different classes"):
        plane_through(found, (0, 1, 1))
    with pytest.raises(ValueError, match="three different classes"):
        plane_through(found, (0, 1, 2))
    line = Moments.of(np.outer([1.0, 2.0, 3.0], np.ones(D)), np.arange(3), 3)
    with pytest.raises(ValueError, match="one line"):
        plane_through(line, (0, 1, 2))
    with pytest.raises(ValueError, match="three classes"):
        principal_plane(Moments.of(np.eye(2), np.arange(2), 2))


def test_scatter_of_a_network_with_two_features_is_its_features(unbalanced: Dataset) -> None:
    model: Classifier = build("small+2d", SHAPE, K, seed=1)
    points, labels = project_images(model, unbalanced, own_plane(), batch_size=7)
    with torch.no_grad():
        expected = model.eval().features(unbalanced.batch(np.arange(len(unbalanced))).x).numpy()
    assert points == pytest.approx(expected, abs=1e-6) and (labels == unbalanced.labels).all()
