"""Class means and variances of penultimate features, in one pass over the images and with memory that does not grow."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from leastwise.audit.evidence import Evidence
from leastwise.audit.record import MOST_SUMMED, ClassMatrix
from leastwise.data.dataset import Dataset
from leastwise.models.classifier import Classifier, inference
from leastwise.statistics.accuracy import ClassValues

BATCH_SIZE = 200

ClassVectors = Float[np.ndarray, "k d"]


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and scatter of the features of each class. They add: batches, shards and machines merge in any order."""

    n: Int[np.ndarray, " k"]
    centre: ClassVectors  # class means; 0 where n is 0, which `means` shows as missing
    scatter: ClassVectors  # sum of squared deviations from the class mean

    @classmethod
    def of(cls, features: Float[np.ndarray, "b d"], labels: Int[np.ndarray, " b"], k: int) -> "Moments":
        n = np.bincount(labels, minlength=k)
        f = features.astype(np.float64)
        # Deviations before squares: Σf² − n·mean² would lose a small variance around a large mean.
        centre = class_sums(f, labels, k) / np.maximum(n, 1)[:, None]
        return cls(n, centre, class_sums((f - centre[labels]) ** 2, labels, k))

    def __add__(self, other: "Moments") -> "Moments":
        """Chan, Golub and LeVeque's rule (1983): the scatter between the two means is added."""
        n = self.n + other.n
        share = (other.n / np.maximum(n, 1))[:, None]
        apart = other.centre - self.centre
        between = apart**2 * share * self.n[:, None]
        return Moments(n, self.centre + apart * share, self.scatter + other.scatter + between)

    @property
    def means(self) -> ClassVectors:
        """Mean feature vector of each class; NaN without images."""
        return np.where(self.n[:, None] > 0, self.centre, np.nan)


def class_sums(values: Float[np.ndarray, "b d"], labels: Int[np.ndarray, " b"], k: int) -> ClassVectors:
    """The sum of the rows of each class."""
    sums = np.zeros((k, values.shape[1]))
    np.add.at(sums, labels, values)
    return sums


def measure_moments(model: Classifier, data: Dataset, batch_size: int = BATCH_SIZE, *, device: str = "cpu") -> Moments:
    """Class means and scatters of the penultimate features of all images, the model in evaluation mode.

    The memory is a batch and 2·k·d numbers.
    """
    if len(data) == 0:
        raise ValueError("there are no features to average: the data set has no examples")
    parts = (Moments.of(f, y, data.k) for f, y in feature_batches(model, data, batch_size, device=device))
    found = next(parts)
    for part in parts:
        found = found + part
    return found


def feature_batches(
    model: Classifier, data: Dataset, batch_size: int = BATCH_SIZE, *, device: str = "cpu"
) -> Iterator[tuple["np.ndarray", "np.ndarray"]]:
    """Features and labels of one batch after the other."""
    model.to(device)
    with inference(model), torch.no_grad():
        for x, y, _ in data.batches(batch_size):
            yield model.features(x.to(device)).cpu().numpy(), y.numpy()


def intra_class_variance(found: Moments, pooled: bool = False) -> ClassValues:
    """Variance of the features of each class (population); NaN without images.

    The paper that uses it (tradeoff2022, §1) does not say which. Its axis (0.01 to 0.07 for 512 dimensions) rules out
    a sum over dimensions. (a) the mean over dimensions of the variance in each; (b) `pooled`: the variance of all
    n·d numbers, which adds the spread of the class mean over the dimensions.
    """
    n = found.n
    with np.errstate(invalid="ignore", divide="ignore"):
        within = np.where(n > 0, found.scatter.mean(1) / n, np.nan)
    return within + found.centre.var(1) if pooled else within


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane in the space of features."""

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
    """The means of the classes that have images."""
    return found.centre[found.n > 0]


def project_images(
    model: Classifier, data: Dataset, plane: Plane, *, batch_size: int = BATCH_SIZE, device: str = "cpu"
) -> tuple[Float[np.ndarray, "n 2"], Int[np.ndarray, " n"]]:
    """Where each image lies in the plane, and its class, in the order of the data set."""
    points = np.empty((len(data), 2))
    done = 0
    for features, _ in feature_batches(model, data, batch_size, device=device):
        points[done : done + len(features)] = plane.project(features.astype(np.float64))
        done += len(features)
    return points, data.labels


def cosines(vectors: ClassVectors) -> ClassMatrix:
    """Cosine of every two rows; NaN where a row is missing (NaN) or has no direction (0)."""
    norms = np.sqrt((vectors**2).sum(1))
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = vectors / np.where(norms > 0, norms, np.nan)[:, None]
    return unit @ unit.T


def inter_class_similarity(means: ClassVectors) -> ClassValues:
    """max over d ≠ c of cos(μ_c, μ_d), uncentred (tradeoff2022, §1); NaN for a class without a mean.

    Features behind a ReLU are not negative, so these cosines are high in every network (0.6 to 0.95 in the paper).
    """
    return drop_diagonal(cosines(means)).max(1)


def most_similar(means: ClassVectors) -> Int[np.ndarray, " k"]:
    """The class that each is most similar to; itself where there is none."""
    between = cosines(means)
    return np.where(np.isnan(inter_class_similarity(means)), np.arange(len(means)), drop_diagonal(between).argmax(1))


def drop_diagonal(between: ClassMatrix) -> ClassMatrix:
    """The matrix without its diagonal: what is left out, like what is missing, never is a maximum."""
    k = len(between)
    off = np.where(np.eye(k, dtype=bool) | np.isnan(between), -np.inf, between)
    # A row with no other class at all is missing altogether.
    return np.where((off == -np.inf).all(1, keepdims=True), np.nan, off)


def mean_logits(evidence: Evidence, condition: str) -> Float[np.ndarray, "k k"]:
    """Row c: mean logit vector of the images of class c; NaN without images."""
    if not evidence.conditions[condition].logit_sum.size:
        raise ValueError(f"sums of logits are kept for up to {MOST_SUMMED:,} classes, but there are {evidence.k:,}")
    n = np.bincount(evidence.labels, minlength=evidence.k)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(n > 0, evidence.conditions[condition].logit_sum / n, np.nan)


def mean_logit_similarity(evidence: Evidence, condition: str, centred: bool = True) -> ClassMatrix:
    """S[c, d] = cos(m_c, m_d) of the mean logit vectors (Benz 2021, §3.2).

    A constant added to all logits of an image changes no prediction but changes the cosine, so by default each m_c
    is freed of its mean. The paper does not say; `centred=False` takes the logits as they are.
    """
    m = mean_logits(evidence, condition)
    return cosines(m - m.mean(1, keepdims=True) if centred else m)


def look_at_features(
    model: Classifier, data: Dataset, batch_size: int = 0, *, device: str = "cpu"
) -> tuple[Moments, Float[np.ndarray, "n 2"] | None]:
    """Moments of the features by class, and the images in a plane in the order of their ids, where there is one.

    Features of two numbers are a plane themselves; of more, the plane is that in which the classes lie furthest apart.
    """
    size = {"batch_size": batch_size} if batch_size else {}
    moments = measure_moments(model, data, **size, device=device)
    plane = own_plane() if moments.centre.shape[1] == 2 else None
    if plane is None and moments.centre.shape[1] > 2 and int((moments.n > 0).sum()) > 2:
        plane = principal_plane(moments)
    if plane is None:
        return moments, None
    points = project_images(model, data, plane, **size, device=device)[0]
    return moments, points[np.argsort(data.ids)]
