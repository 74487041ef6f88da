"""Shapes in signatures are verified in the test run: a wrong rank or type raises at the call."""

import pytest
import torch
from jaxtyping import TypeCheckError

from leastwise.attacks.pgd import PGD
from leastwise.core.losses import ce, kl
from leastwise.core.noise import Noise
from leastwise.models.classifier import Classifier
from tests.conftest import SHAPE, B, K


def test_a_wrong_rank_raises() -> None:
    with pytest.raises(TypeCheckError):
        ce(torch.zeros(B, K, 1), torch.zeros(B, dtype=torch.int64))


def test_a_wrong_type_raises() -> None:
    with pytest.raises(TypeCheckError):
        ce(torch.zeros(B, K), torch.zeros(B))


def test_axes_with_one_name_must_agree() -> None:
    with pytest.raises(TypeCheckError):
        ce(torch.zeros(B, K), torch.zeros(B + 1, dtype=torch.int64))
    with pytest.raises(TypeCheckError):
        kl(torch.zeros(B, K), torch.zeros(B, K + 1))


def test_an_attack_on_flat_images_raises(network: Classifier) -> None:
    x, y = torch.zeros(B, *SHAPE), torch.zeros(B, dtype=torch.int64)
    with pytest.raises(TypeCheckError):
        PGD().run(network, x.flatten(1), y, Noise(0, torch.arange(B)))
