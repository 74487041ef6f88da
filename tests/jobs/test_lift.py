"""A lift from beginning to end on a small problem, what it leaves, and how it goes on."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from leastwise.attacks.goals import CE
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.data.dataset import Dataset
from leastwise.jobs.events import ignore
from leastwise.jobs.lift.candidate import LiftMaterial, split_parts
from leastwise.jobs.lift.lift import LIFTED, LiftOptions, lift
from leastwise.jobs.lift.search import DECISIONS
from leastwise.models.classifier import Classifier
from leastwise.models.load.checkpoint import load_checkpoint, load_into
from leastwise.models.zoo.registry import build
from leastwise.report.terminal.lift import lift_lines
from leastwise.training.loop import fit
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.recipe import Training, Validation
from leastwise.training.schedules import OneCycle
from tests.training.batches_and_losses import blobs

ATTACK = PGD(Linf(0.03), CE(), step=0.01, steps=4, keep="fooled")
SHORT = {"short": 120, "long": {"trades": 1}}  # decisions that the clock would make


@contextmanager
def show(_label: str) -> Iterator[object]:
    yield ignore


@pytest.fixture(scope="module")
def images() -> tuple[Dataset, Dataset, Dataset]:
    """Training, validation and test images of four classes, of which the last is rare in training."""
    whole = blobs((260, 260, 260, 160), spread=70.0)
    rest, test = whole.split(60, 0)
    train, valid = rest.split(50, 1)
    return train, valid, test


@pytest.fixture(scope="module")
def network(images: tuple[Dataset, Dataset, Dataset]) -> Classifier:
    model = build("convnet", images[0].shape, 4, seed=0)
    *_, _last = fit(model, images[0], Training(PGDAT(ATTACK), 3, 50, OneCycle(0.05), validation=Validation(0)))
    return model.eval()


def material(images: tuple[Dataset, Dataset, Dataset], model: Classifier, folder: Path) -> LiftMaterial:
    return LiftMaterial(model, images[0], images[1], ATTACK, PGD(Linf(0.03), CE(), step=0.01, steps=3), folder)


def decided(folder: Path, decisions: dict[str, object]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DECISIONS).write_text(json.dumps(decisions))
    return folder


@pytest.mark.slow
def test_a_lift_tries_edits_and_tunings_and_goes_on_to_the_same_answer(
    images: tuple[Dataset, Dataset, Dataset], network: Classifier, tmp_path: Path
) -> None:
    before = {name: value.clone() for name, value in network.state_dict().items()}
    options = LiftOptions(give_up=0.05, verify=PGD(Linf(0.03), CE(), step=0.005, steps=10, keep="fooled"))
    whole = lift(material(images, network, decided(tmp_path / "a", SHORT)), images[2], options, show=show)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    names = {one["name"] for one in whole.told["tried"]}
    assert {"", "norms50", "offsets", "trades", "pgd-cfol", "decosam", "trades-1"} <= names
    assert any(name.startswith("soup") for name in names) and whole.told["chosen"] in names
    assert whole.outcome in ("lifted", "not lifted", "undecided") and len(list(lift_lines(whole.told))) > len(names)
    # Killed after some candidates, and given again.
    told: list[str] = []

    def stop(said: str) -> None:
        told.append(said)
        if said.startswith("trades-wat"):
            raise KeyboardInterrupt

    half = decided(tmp_path / "b", SHORT)
    with pytest.raises(KeyboardInterrupt):
        lift(material(images, network, half), images[2], options, show=show, tell=stop)
    again = lift(material(images, network, half), images[2], options, show=show)

    def without_seconds(found: dict) -> dict:
        found = copy.deepcopy(dict(found))
        for one in found["tried"]:
            one.pop("seconds")
        return {name: value for name, value in found.items() if name != "seconds"}

    assert without_seconds(again.told) == without_seconds(whole.told)
    if whole.outcome == "lifted":
        lifted = load_checkpoint(tmp_path / "a" / LIFTED)
        assert any("leastwise lift" in note for note in lifted.notes)


def test_another_network_in_the_same_folder_is_refused(
    images: tuple[Dataset, Dataset, Dataset], network: Classifier, tmp_path: Path
) -> None:
    decisions = {"short": 0}
    lift(material(images, network, decided(tmp_path, decisions)), images[2], LiftOptions(), show=show)
    other = build("convnet", images[0].shape, 4, seed=5).eval()
    with pytest.raises(ValueError, match="holds the lift of another network"):
        lift(material(images, other, tmp_path), images[2], LiftOptions(), show=show)


def test_even_classes_are_left_alone(tmp_path: Path) -> None:
    """A network that is always right has no class that is weaker than another."""
    data = blobs((80,) * 3, spread=1.0)
    mean = torch.stack([data.batch(np.flatnonzero(data.labels == c)).x.mean(0).flatten() for c in range(3)])
    head = nn.Linear(mean.shape[1], 3)
    with torch.no_grad():
        head.weight.copy_(mean)
        head.bias.copy_(-mean.square().sum(1) / 2)
    model = Classifier(nn.Sequential(nn.Flatten(), head), 3).eval()
    train, test = data.split(20, 0)
    rest, valid = train.split(30, 1)
    found = lift(material((rest, valid, test), model, tmp_path), test, LiftOptions(), show=show)
    assert found.outcome == "nothing to lift" and found.exit_code == 1 and not (tmp_path / LIFTED).exists()
    assert "the network stays" in list(lift_lines(found.told))[-1]


def test_a_network_of_ones_own_keeps_its_layout(images: tuple[Dataset, Dataset, Dataset], tmp_path: Path) -> None:
    """It was not built by name: its weights are written for whoever has its code."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(images[0].shape)), 4))
    model = Classifier(net, 4).eval()
    found = lift(material(images, model, decided(tmp_path, SHORT)), images[2], LiftOptions(give_up=1.0), show=show)
    assert {"trades-1", "norms100"} <= {one["name"] for one in found.told["tried"]}
    tuned = tmp_path / "tried" / "trades-1" / "model.pt"
    again = load_into(copy.deepcopy(model), tuned)
    assert not torch.equal(again.net[1].weight, net[1].weight)
    with pytest.raises(ValueError, match="does not say which network its weights belong to"):
        load_checkpoint(tuned)
    with pytest.raises(ValueError, match="does not hold the weights of this network"):
        load_into(build("convnet", images[0].shape, 4), tuned)


def test_both_parts_of_the_validation_images_have_every_class() -> None:
    data = blobs((10, 7, 30), spread=5.0)
    first, rest = split_parts(data)
    assert first.counts.tolist() == [4, 3, 10] and rest.counts.tolist() == [6, 4, 20]
    assert not set(first.ids.tolist()) & set(rest.ids.tolist())
