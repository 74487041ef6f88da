"""Losses against closed forms and torch's own."""

import math

import pytest
import torch
from torch.nn import functional as F

from leastwise.core.losses import ce, entropy, kl, margin, odds, smooth_labels, soft_ce
from tests.conftest import B, K


@pytest.fixture
def logits() -> torch.Tensor:
    return 3 * torch.randn(B, K, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture
def labels() -> torch.Tensor:
    return torch.arange(B) % K


def test_every_loss_gives_one_number_per_example(logits: torch.Tensor, labels: torch.Tensor) -> None:
    target = smooth_labels(labels, K, 0.1, dtype=torch.float64)
    values = [ce(logits, labels), soft_ce(logits, target), kl(logits, -logits), entropy(logits)]
    values += [margin(logits, labels), odds(logits, labels)]
    assert all(value.shape == (B,) for value in values)


@pytest.mark.parametrize("convention", ["all", "others"])
def test_p7_label_smoothing_of_zero_is_cross_entropy(
    logits: torch.Tensor, labels: torch.Tensor, convention: str
) -> None:
    target = smooth_labels(labels, K, 0.0, convention=convention, dtype=torch.float64)
    assert torch.allclose(soft_ce(logits, target), ce(logits, labels), rtol=1e-12)


def test_p7_ln_k_minus_entropy_is_the_divergence_from_uniform(logits: torch.Tensor) -> None:
    gap = math.log(K) - entropy(logits)
    assert torch.allclose(gap, kl(logits, torch.zeros_like(logits)), rtol=1e-12)
    assert bool((gap >= 0).all())


def test_label_smoothing_conventions_put_091_and_090_on_the_label_of_ten_classes() -> None:
    y = torch.tensor([3])
    assert smooth_labels(y, 10, 0.1)[0, 3].item() == pytest.approx(0.91)
    assert smooth_labels(y, 10, 0.1, convention="others")[0, 3].item() == pytest.approx(0.90)
    for convention in ("all", "others"):
        assert smooth_labels(y, 10, 0.1, convention=convention).sum().item() == pytest.approx(1)


def test_label_smoothing_equals_torchs(logits: torch.Tensor, labels: torch.Tensor) -> None:
    ours = soft_ce(logits, smooth_labels(labels, K, 0.2, dtype=torch.float64))
    theirs = F.cross_entropy(logits, labels, label_smoothing=0.2, reduction="none")
    assert torch.allclose(ours, theirs, rtol=1e-12)


def test_kl_is_torchs_with_the_adversarial_output_first(logits: torch.Tensor) -> None:
    other = logits.flip(0)
    theirs = F.kl_div(other.log_softmax(1), logits.softmax(1), reduction="batchmean")
    assert kl(logits, other).mean().item() == pytest.approx(theirs.item(), rel=1e-12)
    assert not torch.allclose(kl(logits, other), kl(other, logits))


def test_kl_by_hand() -> None:
    clean, adversarial = torch.tensor([[math.log(3.0), 0.0]]), torch.tensor([[0.0, 0.0]])
    expected = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    assert kl(clean, adversarial).item() == pytest.approx(expected, rel=1e-6)


def test_entropy_of_uniform_and_of_certainty() -> None:
    z = torch.tensor([[0.0, 0.0, 0.0, 0.0], [1e30, 0.0, 0.0, -1e30]])
    assert entropy(z).tolist() == pytest.approx([math.log(4), 0.0])


def test_odds_is_minus_the_logit_of_the_true_probability(logits: torch.Tensor, labels: torch.Tensor) -> None:
    p = logits.softmax(1).gather(1, labels[:, None]).squeeze(1)
    assert torch.allclose(odds(logits, labels), (1 - p).log() - p.log(), rtol=1e-9)
    assert torch.allclose(F.softplus(odds(logits, labels)), ce(logits, labels), rtol=1e-9)


def test_margin_is_positive_exactly_when_right(logits: torch.Tensor, labels: torch.Tensor) -> None:
    assert torch.equal(margin(logits, labels) > 0, logits.argmax(1) == labels)
    z = torch.tensor([[5.0, 2.0, 4.5]])
    assert [margin(z, torch.tensor([c])).item() for c in range(3)] == [0.5, -3.0, -0.5]
