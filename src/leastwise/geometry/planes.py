"""Features seen in a plane: two numbers per image."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from leastwise.data import Dataset
from leastwise.geometry.features import BATCH_SIZE, ClassVectors, Moments, feature_batches
from leastwise.models import Classifier


@dataclass(frozen=True, eq=False)
class Plane:
    origin: Float[np.ndarray, " d"]
    axes: Float[np.ndarray, "2 d"]  # orthonormal

    def project(self, features: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b 2"]:
        return (features - self.origin) @ self.axes.T


def own_plane() -> Plane:
    """The features themselves, of a network with two of them (an architecture with `+2d`)."""
    return Plane(np.zeros(2), np.eye(2))


def principal_plane(found: Moments) -> Plane:
    """The plane in which the class means lie farthest apart: their first two principal components."""
    means = present_means(found)
    if len(means) < 3 or means.shape[1] < 2:
        raise ValueError(
            f"a plane needs three classes and two features, but saw {len(means)} and {means.shape[1]}: "
            "take more classes, or draw the features themselves"
        )
    origin = means.mean(0)
    axes = np.linalg.svd(means - origin, full_matrices=False)[2][:2]
    # The sign of a singular vector is free: its largest entry is made positive, so that a picture can be drawn again.
    largest = np.take_along_axis(axes, np.abs(axes).argmax(1)[:, None], axis=1)
    return Plane(origin, axes * np.sign(largest))


def plane_through(found: Moments, classes: tuple[int, int, int]) -> Plane:
    """The plane of three class means (after Müller et al. 2019), the first at the origin, the second on the x-axis."""
    if len(set(classes)) < 3 or (found.n[list(classes)] == 0).any():
        raise ValueError(f"a plane goes through three different classes with images, but saw {classes}: choose others")
    a, b, c = found.centre[list(classes)]
    across, up = b - a, c - a
    across = across / np.linalg.norm(across)
    up = up - (up @ across) * across
    length = np.linalg.norm(up)
    if not length > 1e-9 * np.linalg.norm(c - a):
        raise ValueError(f"the means of classes {classes} lie on one line and span no plane: choose others")
    return Plane(a, np.stack([across, up / length]))


def present_means(found: Moments) -> ClassVectors:
    return found.centre[found.n > 0]


def scatter(
    model: Classifier, data: Dataset, plane: Plane, batch_size: int = BATCH_SIZE, device: str = "cpu"
) -> tuple[Float[np.ndarray, "n 2"], Int[np.ndarray, " n"]]:
    """Where each image lies in the plane, and its class, in the order of the data set."""
    points = np.empty((len(data), 2))
    done = 0
    for features, _ in feature_batches(model, data, batch_size, device):
        points[done : done + len(features)] = plane.project(features.astype(np.float64))
        done += len(features)
    return points, data.labels
