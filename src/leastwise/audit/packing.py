"""Evidence made small, to be handed on: what the noise in it cannot spare is rounded, and the rest is compressed."""

import lzma
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from leastwise.audit.evidence import EVIDENCE_FILE, PACKED_FILE, Evidence, parse_evidence
from leastwise.audit.record import Record
from leastwise.core.files import write_atomic

KEPT_BITS = 10  # of a mantissa of 23: to one part in two thousand


def pack_evidence(folder: Path) -> None:
    """Make a folder's evidence smaller, to be handed on; it is read as before.

    Predictions, steps and counts stay; margins, probabilities and sizes of single images keep `KEPT_BITS` binary
    digits, more than any mean of them is sure of. The rest is noise that no packing makes smaller: half of the file.
    """
    rounded = round_measures(parse_evidence((folder / EVIDENCE_FILE).read_bytes(), folder / EVIDENCE_FILE))
    write_atomic(folder / PACKED_FILE, lzma.compress(rounded.to_bytes(), preset=9))
    (folder / EVIDENCE_FILE).unlink()


def round_measures(evidence: Evidence) -> Evidence:
    """The evidence with the measures of single images to `KEPT_BITS` binary digits."""
    conditions = {}
    for name, record in evidence.conditions.items():
        columns = {f.name: getattr(record, f.name) for f in fields(Record)}
        rounded: dict[str, Any] = {name: round_mantissa(v) if is_measure(v) else v for name, v in columns.items()}
        conditions[name] = Record(**rounded)
    return replace(evidence, conditions=conditions)


def is_measure(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim == 1


def round_mantissa(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """To `KEPT_BITS` binary digits, towards zero: what has a bound, such as a probability, keeps it."""
    cut = np.uint32(0xFFFFFFFF << (23 - KEPT_BITS) & 0xFFFFFFFF)
    rounded = (np.ascontiguousarray(values).view(np.uint32) & cut).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)
