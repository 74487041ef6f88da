"""Evidence made from logits, without a network."""

from collections.abc import Mapping

import numpy as np
import torch

from leastwise.attacks.base import clean_outcome
from leastwise.audit.auditor import make_record
from leastwise.audit.evidence import Evidence
from leastwise.data.classes import Groups

NAMES = ("ant", "bee", "cow", "dog", "elk")


def evidence_of(
    logits: Mapping[str, np.ndarray],
    labels: np.ndarray,
    names: tuple[str, ...] = NAMES,
    groups: Groups = (),
    ids: np.ndarray | None = None,
) -> Evidence:
    """What an audit would have written had the network given these logits under each condition."""
    y = torch.from_numpy(labels.astype(np.int64))
    x = torch.zeros(len(y), 1, 1, 1)
    records = {}
    for name, values in logits.items():
        z = torch.from_numpy(np.asarray(values, dtype=np.float64))
        records[name] = make_record(z, y, x, outcome=clean_outcome(z, x, y))
    ids = np.arange(len(y)) if ids is None else ids
    return Evidence(ids.astype(np.int32), labels.astype(np.int32), names, records, '{"data":"made"}', groups)


def predicting(predicted: np.ndarray, k: int, sure: float = 3.0) -> np.ndarray:
    """Logits that are `sure` at the given classes and 0 elsewhere."""
    return sure * np.eye(k)[predicted]


def random_evidence(n: int = 300, k: int = 5, seed: int = 0, groups: Groups = ()) -> Evidence:
    """Unbalanced, with a class that has no images (2), and two conditions."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(k, n, p=[0.4, 0.1, 0.0, 0.3, 0.2])
    clean = rng.normal(size=(n, k)) + 2 * np.eye(k)[labels]
    return evidence_of({"clean": clean, "pgd": clean + rng.normal(size=(n, k))}, labels, groups=groups)
