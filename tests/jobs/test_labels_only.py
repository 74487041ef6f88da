"""Audits of models that name classes and give no logits: attacks on predicted classes run, others say why not."""

import numpy as np
import pytest
import torch

from leastwise.attacks.base import Attack, Clean
from leastwise.attacks.corners import Corners
from leastwise.attacks.min_norm.hop_skip_jump import HopSkipJump
from leastwise.attacks.pgd import PGD
from leastwise.attacks.square import Square
from leastwise.attacks.threats import L2, Linf
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import audit
from leastwise.models.classifier import wrap
from tests.attacks.networks_to_attack import mixed
from tests.conftest import K


def scene() -> tuple[Dataset, torch.nn.Module]:
    model, x, y = mixed(torch.float32)
    pixels = (255 * x).round().to(torch.uint8).numpy()
    return Dataset.of(pixels, y.numpy().astype(np.int64), tuple("abcde")), model


def test_predicted_classes_are_enough_for_an_audit() -> None:
    data, model = scene()

    def named(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return model(x).argmax(dim=1)

    conditions: tuple[tuple[str, Attack], ...] = (
        ("clean", Clean()),
        ("hsj", HopSkipJump(L2(0.2), queries=80, probes=10, keep="fooled")),
        ("corners", Corners(Linf(0.2), draws=3)),
    )
    found = audit(wrap(named, K), data, conditions)
    reference = audit(model, data, conditions)
    for name, _ in conditions:
        assert torch.equal(found.tally(name).correct, reference.tally(name).correct)
    assert 0 < int(found.tally("hsj").correct.sum()) < int(found.tally("clean").correct.sum())
    assert bool((found.conditions["clean"].p_predicted == 1).all())
    assert [note for note in found.warnings if "names classes and gives no logits" in note]


@pytest.mark.parametrize(
    ("name", "attack", "message"),
    [
        ("pgd", PGD(Linf(0.1)), "black box without gradients: use query attacks"),
        (
            "square",
            Square(Linf(0.1)),
            "gives no logits, which square would read: use attacks on predicted classes, such",
        ),
    ],
)
def test_attacks_that_read_more_are_refused_with_the_fix(name: str, attack: Attack, message: str) -> None:
    data, model = scene()
    with pytest.raises(ValueError, match=message):
        audit(wrap(lambda x: model(x).argmax(dim=1), K), data, ((name, attack),))
