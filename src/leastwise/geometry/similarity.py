"""How alike classes look to a network: cosines of the class means of its features and of its logits."""

import numpy as np
from jaxtyping import Float, Int

from leastwise.evidence import Evidence
from leastwise.geometry.features import ClassVectors, PerClass

Square = Float[np.ndarray, "k k"]


def cosines(vectors: ClassVectors) -> Square:
    """Cosine of every two rows; NaN where a row is missing (NaN) or has no direction (0)."""
    norms = np.sqrt((vectors**2).sum(1))
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = vectors / np.where(norms > 0, norms, np.nan)[:, None]
    return unit @ unit.T


def inter_class_similarity(means: ClassVectors) -> PerClass:
    """max over d ≠ c of cos(μ_c, μ_d), uncentred (tradeoff2022, §1); NaN for a class without a mean.

    Features behind a ReLU are not negative, so these cosines are high in every network (0.6 to 0.95 in the paper).
    """
    return others(cosines(means)).max(1)


def most_similar(means: ClassVectors) -> Int[np.ndarray, " k"]:
    """The class that each is most similar to; itself where there is none."""
    between = cosines(means)
    return np.where(np.isnan(inter_class_similarity(means)), np.arange(len(means)), others(between).argmax(1))


def others(between: Square) -> Square:
    """Without the diagonal: what is left out, like what is missing, never is a maximum."""
    k = len(between)
    off = np.where(np.eye(k, dtype=bool) | np.isnan(between), -np.inf, between)
    # A row with no other class at all is missing altogether.
    return np.where((off == -np.inf).all(1, keepdims=True), np.nan, off)


def mean_logits(evidence: Evidence, condition: str) -> Float[np.ndarray, "k k"]:
    """Row c: mean logit vector of the images of class c; NaN without images."""
    n = np.bincount(evidence.labels, minlength=evidence.k)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(n > 0, evidence.conditions[condition].logit_sum / n, np.nan)


def mean_logit_similarity(evidence: Evidence, condition: str, centred: bool = True) -> Square:
    """S[c, d] = cos(m_c, m_d) of the mean logit vectors (Benz 2021, §3.2).

    A constant added to all logits of an image changes no prediction but changes the cosine, so by default each m_c
    is freed of its mean. The paper does not say; `centred=False` takes the logits as they are.
    """
    m = mean_logits(evidence, condition)
    return cosines(m - m.mean(1, keepdims=True) if centred else m)
