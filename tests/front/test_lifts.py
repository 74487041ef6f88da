"""`lw.lift`: refusals before time is spent, and an answer that shows itself."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import leastwise as lw
from tests.training.batches_and_losses import blobs


def test_what_is_missing_is_said_in_one_sentence(tmp_path: Path) -> None:
    images = (np.zeros((20, 1, 4, 4), np.uint8), np.arange(20) % 2)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    with pytest.raises(ValueError, match="give them as the third argument"):
        lw.lift(net, images, out=tmp_path / "x")
    with pytest.raises(ValueError, match="too few to choose by: give valid="):
        lw.lift(net, images, images, out=tmp_path / "x")
    with pytest.raises(ValueError, match="budget= must be like"):
        lw.lift(net, images, images, budget="soon", out=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_network_whose_classes_are_alike_is_left_as_it_is(tmp_path: Path) -> None:
    data = blobs((220,) * 3, spread=1.0)
    train, test = data.split(20, 0)
    mean = torch.stack([data.batch(np.flatnonzero(data.labels == c)).x.mean(0).flatten() for c in range(3)])
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    with torch.no_grad():
        net[1].weight.copy_(mean)
        net[1].bias.copy_(-mean.square().sum(1) / 2)
    found = lw.lift(net, train, test, eps=0.01, attack="pgd3", verify=None, out=tmp_path, progress=False)
    assert found.outcome == "nothing to lift" and not found.lifted and "the network stays" in repr(found)
    assert "<pre>" in found._repr_html_()
    with pytest.raises(ValueError, match="there is no lifted network"):
        found.model()
