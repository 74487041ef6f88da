"""Packed evidence: half the size, the same answers, and measures to one part in two thousand."""

import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leastwise.audit.evidence import EVIDENCE_FILE, PACKED_FILE, load_evidence
from leastwise.audit.packing import KEPT_BITS, pack_evidence, round_mantissa
from tests.report.evidence_made_up import evidence


def test_rounding_is_to_so_many_binary_digits_towards_zero() -> None:
    """Against arithmetic on fractions and exponents."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=1000), 10.0 ** rng.uniform(-30, 30, 1000)]).astype(np.float32)
    fraction, exponent = np.frexp(values.astype(np.float64))
    unit = 2.0 ** (KEPT_BITS + 1)
    wanted = np.ldexp(np.floor(np.abs(fraction) * unit) / unit * np.sign(fraction), exponent)
    assert round_mantissa(values) == pytest.approx(wanted, rel=1e-12)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5], np.float32)
    assert np.array_equal(round_mantissa(special), special, equal_nan=True)


def test_packed_evidence_says_the_same_and_damage_is_refused(tmp_path: Path) -> None:
    rng, before = np.random.default_rng(0), evidence(10, 1000)
    noisy = {
        name: replace(one, margin=(one.margin * rng.uniform(0.5, 2, len(one.margin))).astype(np.float32))
        for name, one in before.conditions.items()
    }
    before = replace(before, conditions=noisy)
    before.save(tmp_path / EVIDENCE_FILE)
    whole = len(lzma.compress((tmp_path / EVIDENCE_FILE).read_bytes()))
    pack_evidence(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [PACKED_FILE]
    assert (tmp_path / PACKED_FILE).stat().st_size < 0.8 * whole
    after = load_evidence(tmp_path)
    for name, record in before.conditions.items():
        packed = after.conditions[name]
        assert (packed.predicted == record.predicted).all() and (packed.step == record.step).all()
        assert np.allclose(packed.margin, record.margin, rtol=2.0**-KEPT_BITS, atol=0)
        assert (np.sign(packed.margin) == np.sign(record.margin)).all()
        assert np.array_equal(packed.probability_sum, record.probability_sum)
    content = (tmp_path / PACKED_FILE).read_bytes()
    for damaged in (content[:-20], b"no archive", lzma.compress(b"{}")):
        (tmp_path / PACKED_FILE).write_bytes(damaged)
        with pytest.raises(ValueError, match=r"is damaged or was edited|is not evidence"):
            load_evidence(tmp_path)
