"""Does a misclassified image come home once the class it was taken for is gone from training? (Tian 2021, Def. 6.1)"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from leastwise.audit.evidence import ConfusionMatrix, Evidence, count_confusions
from leastwise.insight.agreement import IntervalEstimate
from leastwise.insight.confusion import keep_mistakes
from leastwise.statistics.accuracy import CONFIDENCE


@dataclass(frozen=True, eq=False)
class Homing:
    """[i, j]: images of class i that the full model takes for class j under attack."""

    misclassified: ConfusionMatrix
    homed: Float[np.ndarray, "k k"]  # those of them that the model without class j gets right; NaN if there is none

    @property
    def share(self) -> float:
        """Of the misclassified images whose confound class was removed, those that came home."""
        tried = ~np.isnan(self.homed)
        total = int(self.misclassified[tried].sum())
        return float(self.homed[tried].sum()) / total if total else float("nan")

    @property
    def concentration(self) -> Float[np.ndarray, " k"]:
        """Of the images of each class that came home, the share that came from its main confound class; else NaN."""
        homed = np.nan_to_num(self.homed)
        total = homed.sum(1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(total > 0, homed.max(1) / total, np.nan)


def measure_homing(full: Evidence, without: Mapping[int, Evidence], condition: str) -> Homing:
    """Count what comes home, from audits of the full model and of each retrained without a class, attacked anew.

    A retrained model may have kept its k outputs or have one less: its classes are recognised by their names.
    Everything that is wrong under attack counts, also what was wrong without one, as in Tian's Fig. 4.
    """
    wrong = keep_mistakes(count_confusions(full, condition))
    homed = np.full(wrong.shape, np.nan)
    for j, other in without.items():
        if not 0 <= j < full.k:
            raise ValueError(f"class {j} cannot have been removed: the full model has classes 0 to {full.k - 1}")
        rows = np.flatnonzero((full.conditions[condition].predicted == j) & (full.labels != j))
        homed[:, j] = np.bincount(full.labels[rows[is_right(full, other, rows, condition=condition)]], minlength=full.k)
    return Homing(wrong, homed)


def estimate_homing_gain(
    full: Evidence, without: Mapping[int, Evidence], condition: str, *, confidence: float = CONFIDENCE
) -> IntervalEstimate:
    """How much more often an image comes home when its confound class is removed than when some other class is.

    Retraining alone turns many mistakes right. Tian's count has no such control; here each image that is wrong under
    attack is its own: right without its confound class (0 or 1) minus the share of right answers without each other
    class but its own. Images for which no such other class was removed do not count. Normal interval over the rest.
    """
    predicted, labels = full.conditions[condition].predicted, full.labels
    rows = np.flatnonzero((predicted != labels) & np.isin(predicted, list(without)))
    home, other, others = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    for j, model in without.items():
        known = labels[rows] != j
        came = np.zeros(len(rows))
        came[known] = is_right(full, model, rows[known], condition=condition)
        confound = predicted[rows] == j
        home += came * confound
        other += came * (known & ~confound)
        others += known & ~confound
    compared = others > 0
    if compared.sum() < 2:
        return IntervalEstimate(float("nan"), float("nan"), float("nan"))
    gain = (home - other / np.maximum(others, 1))[compared]
    half = float(ndtri((1 + confidence) / 2) * gain.std(ddof=1) / np.sqrt(len(gain)))
    return IntervalEstimate(float(gain.mean()), float(gain.mean()) - half, float(gain.mean()) + half)


def is_right(full: Evidence, other: Evidence, rows: "np.ndarray", *, condition: str) -> "np.ndarray":
    """Which of the full model's examples the other model gets right under its own attack."""
    if condition not in other.conditions:
        raise ValueError(
            f"the retrained model was not audited under {condition}, only under {', '.join(other.conditions)}: use the "
            "same attacks"
        )
    ids = full.ids[rows]
    at = np.minimum(np.searchsorted(other.ids, ids), max(len(other.ids) - 1, 0))
    if len(ids) and (not len(other.ids) or (other.ids[at] != ids).any()):
        raise ValueError("the retrained model was not audited on all of the full model's images: use the same test set")
    same_class = [full.names[a] == other.names[b] for a, b in zip(full.labels[rows], other.labels[at], strict=True)]
    if not all(same_class):
        raise ValueError("the retrained model was audited with other labels: keep the names of the classes")
    return np.asarray(other.correct(condition)[at])
