"""Offsets per class: against exhaustive search, into the bias, and from the command line."""

import itertools
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.models.zoo.registry import build
from leastwise.training.calibrate import (
    attacked_logits,
    best_offsets,
    choose_offsets,
    count_hits,
    score_tally,
    with_offsets,
)
from leastwise.training.loop import fit
from leastwise.training.recipe import Training
from leastwise.training.schedules import OneCycle
from tests.forked_commands import leastwise as command
from tests.training.batches_and_losses import blobs


def unfair_logits(n: int = 400, k: int = 3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy logits in which the first class is favoured and the last one suffers."""
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % k
    z = torch.randn(n, k, generator=g, dtype=torch.float64)
    z[torch.arange(n), y] += 1.5
    return z + torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64), y


@pytest.mark.parametrize("rule", ["worst", "sum"])
def test_the_search_is_near_the_best_of_a_grid(rule: str) -> None:
    for seed in range(2):
        z, y = unfair_logits(seed=seed)
        ours = score_tally(count_hits(z, y, best_offsets(z, y, rule)), rule)
        axis = torch.linspace(-3, 3, 21, dtype=torch.float64)
        tried = [torch.tensor([0, a, b]) for a, b in itertools.product(axis, axis)]
        grid = max(score_tally(count_hits(z, y, offsets), rule) for offsets in tried)
        none = score_tally(count_hits(z, y, torch.zeros(3)), rule)
        assert ours > none and ours >= grid - 0.03


def test_offsets_undo_a_known_shift() -> None:
    z, y = unfair_logits(n=6000)
    found = best_offsets(z, y, "sum")
    assert torch.allclose(found, torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64), atol=0.25)
    assert abs(found.sum().item()) < 1e-12


def test_offsets_go_into_the_bias_and_nowhere_else() -> None:
    model = build("small", (1, 4, 4), 3).eval()
    offsets = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    x = torch.rand(5, 1, 4, 4)
    assert torch.allclose(with_offsets(model, offsets)(x), model(x) + offsets.float(), atol=1e-5)
    with pytest.raises(ValueError, match="bias of a last linear layer"):
        with_offsets(build("small+cosine", (1, 4, 4), 3), offsets)


def test_calibration_lifts_the_worst_class_or_leaves_the_network_alone() -> None:
    data = blobs((60, 60, 60), spread=60.0)
    model = build("convnet", data.shape, data.k)
    for _ in fit(model, data, Training(epochs=12, batch_size=20, schedule=OneCycle(0.1))):
        pass
    with torch.no_grad():
        model.net[-1].bias += torch.tensor([1.0, 0.0, -1.0])  # an unfair network
    attack = PGD(Linf(0.05), step=0.02, steps=3)
    found = choose_offsets(model, data, attack, rule="worst")
    assert found.after.accuracy.min() > found.before.accuracy.min()
    z, y = attacked_logits(with_offsets(model, found.offsets), data, attack)
    assert count_hits(z, y, torch.zeros(3)).correct.tolist() == found.after.correct.tolist()
    again = choose_offsets(with_offsets(model, found.offsets), data, attack, rule="worst", rounds=1)
    assert score_tally(again.after, "worst") >= score_tally(again.before, "worst")


@pytest.mark.medium
def test_the_command_chooses_on_held_out_images_and_reports_the_test_set(tmp_path: Path) -> None:
    leastwise = partial(command, cwd=tmp_path)

    trained = leastwise("train", "standard", "--per-class", "50", "--epochs", "2", "--out", "t")
    assert trained.returncode == 0, trained.stderr
    done = leastwise("calibrate", "t", "--eps", "0.02", "--steps", "2", "--per-class", "10", "--out", "c")
    assert done.returncode == 0, done.stderr
    assert "choosing on 50 validation images" in done.stdout and "On the same 100 images after changes" in done.stdout
    numbers = json.loads((tmp_path / "c" / "calibration.json").read_text())
    assert len(numbers["offsets"]) == 10 and abs(np.sum(list(numbers["offsets"].values()))) < 1e-9
    assert numbers["validation"]["before"]["n"] == [5] * 10
    noted = leastwise("audit", "c/model.pt", "--attack", "clean", "--per-class", "2", "--out", "a")
    assert "logit offsets were chosen on 50 validation images" in noted.stdout
    refused = leastwise("calibrate", "t/model.pt", "--data", "fashion-mini")
    assert refused.returncode == 2 and "give --valid DATA" in refused.stderr
