"""Class means and variances of penultimate features, in one pass over the images and with memory that does not grow."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from leastwise.data import Dataset
from leastwise.models import Classifier, inference

BATCH_SIZE = 200

PerClass = Float[np.ndarray, " k"]
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
    sums = np.zeros((k, values.shape[1]))
    np.add.at(sums, labels, values)
    return sums


def moments(model: Classifier, data: Dataset, batch_size: int = BATCH_SIZE, device: str = "cpu") -> Moments:
    """Of the penultimate features of all images, the model in evaluation mode. Memory: a batch and 2·k·d numbers."""
    if len(data) == 0:
        raise ValueError("there are no features to average: the data set has no examples")
    parts = (Moments.of(f, y, data.k) for f, y in feature_batches(model, data, batch_size, device))
    found = next(parts)
    for part in parts:
        found = found + part
    return found


def feature_batches(
    model: Classifier, data: Dataset, batch_size: int = BATCH_SIZE, device: str = "cpu"
) -> Iterator[tuple["np.ndarray", "np.ndarray"]]:
    """Features and labels of one batch after the other."""
    model.to(device)
    with inference(model), torch.no_grad():
        for x, y, _ in data.batches(batch_size):
            yield model.features(x.to(device)).cpu().numpy(), y.numpy()


def intra_class_variance(found: Moments, pooled: bool = False) -> PerClass:
    """Variance of the features of each class (population); NaN without images.

    The paper that uses it (tradeoff2022, §1) does not say which. Its axis (0.01 to 0.07 for 512 dimensions) rules out
    a sum over dimensions. (a) the mean over dimensions of the variance in each; (b) `pooled`: the variance of all
    n·d numbers, which adds the spread of the class mean over the dimensions.
    """
    n = found.n
    with np.errstate(invalid="ignore", divide="ignore"):
        within = np.where(n > 0, found.scatter.mean(1) / n, np.nan)
    return within + found.centre.var(1) if pooled else within
