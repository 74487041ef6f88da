"""Two models on the same images: B minus A, over all and class by class."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import bdtr, ndtri

from leastwise.statistics.intervals import CONFIDENCE, Hits, adjust_holm


@dataclass(frozen=True)
class PairedComparison:
    """Two models on the same images: B minus A."""

    n: int
    gained: int  # right under B only
    lost: int  # right under A only
    difference: float  # in accuracy
    low: float
    high: float
    p: float  # exact McNemar test of no difference, two-sided


@dataclass(frozen=True, eq=False)
class ClassWiseComparison:
    """`classes[c]` compares the images of class c and is None where there are none."""

    classes: tuple[PairedComparison | None, ...]
    adjusted: Float[np.ndarray, " k"]  # Holm-adjusted p-values of the classes; NaN where missing


def compare_paired(a: "np.ndarray", b: "np.ndarray", confidence: float = CONFIDENCE) -> PairedComparison:
    """Compare which of the same images A and B get right (boolean arrays).

    The interval is Bonett and Price's adjusted Wald interval for paired proportions (Journal of Educational and
    Behavioral Statistics 2012): one imaginary image is added to each kind of disagreement.
    """
    n, gained, lost = len(a), int((b & ~a).sum()), int((a & ~b).sum())
    z = ndtri((1 + confidence) / 2)
    p_gain, p_loss = (gained + 1) / (n + 2), (lost + 1) / (n + 2)
    centre = p_gain - p_loss
    half = z * np.sqrt((p_gain + p_loss - centre**2) / (n + 2))
    disagreements = gained + lost
    p = min(1.0, 2 * float(bdtr(min(gained, lost), disagreements, 0.5))) if disagreements else 1.0
    difference = (gained - lost) / n if n else float("nan")
    return PairedComparison(
        n, gained, lost, difference, max(-1.0, float(centre - half)), min(1.0, float(centre + half)), p
    )


def compare_class_wise(
    a: Hits, b: Hits, labels: Int[np.ndarray, " n"], *, k: int, confidence: float = CONFIDENCE
) -> ClassWiseComparison:
    """`paired` on each class, the p-values Holm-corrected over the classes; the intervals are of single classes."""
    found = tuple(
        compare_paired(a[labels == c], b[labels == c], confidence) if (labels == c).any() else None for c in range(k)
    )
    p = np.array([one.p if one else np.nan for one in found])
    return ClassWiseComparison(found, adjust_holm(p))
