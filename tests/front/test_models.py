"""`lw.model`: what people have becomes a classifier, with data or before there are any."""

from pathlib import Path

import pytest
import torch
from torch import nn

import leastwise as lw
from leastwise.models.load.checkpoint import save_checkpoint
from leastwise.models.load.dispatch import load_model
from leastwise.models.zoo.registry import build
from tests.conftest import SHAPE, K
from tests.models.linear_network import MEAN, NAMES, SIZE, STD, Batch

IMAGES = torch.zeros(K, *SHAPE)
DATA = (IMAGES, list(NAMES))


def test_a_module_is_a_model_before_there_are_data(batch: Batch) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(SIZE, K))
    model = lw.model(net, mean=MEAN, std=STD)
    by_hand = net((batch[0] - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1))
    assert torch.allclose(model(batch[0]), by_hand, atol=1e-5) and model.k == 0 and model.training
    fitted = lw.model(model, DATA)
    assert fitted.k == K and fitted.net is net and lw.model(net, DATA, mean=MEAN, std=STD).digest() == fitted.digest()
    with pytest.raises(ValueError, match="already has its normalisation inside"):
        lw.model(model, mean=MEAN, std=STD)


def test_the_folder_of_a_training_and_its_checkpoint_are_one_model(tmp_path: Path, batch: Batch) -> None:
    saved = build("small", SHAPE, K, seed=4)
    save_checkpoint(tmp_path / "model.pt", saved, SHAPE, names=NAMES)
    for given in (tmp_path, str(tmp_path), tmp_path / "model.pt"):
        model = lw.model(given)
        assert not model.training and torch.equal(model(batch[0]), saved.eval()(batch[0]))
        assert lw.model(given, DATA).digest() == saved.digest() == lw.model(model, DATA).digest()
    with pytest.raises(ValueError, match="was trained on the classes ant, bee, cow, dog, elk, but the data has"):
        lw.model(lw.model(tmp_path), (IMAGES, ["fox", *NAMES[1:]]))
    with pytest.raises(ValueError, match=r"trained on images of shape \(3, 8, 6\)"):
        lw.model(tmp_path, (torch.zeros(K, 3, 9, 9), list(NAMES)))


@pytest.mark.parametrize("arch", ["small", "convnet", "resnet20", "wrn-10-3", "lenet5"])
def test_bare_weights_say_their_network_and_their_classes(
    arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ("convnet", "lenet5", "small", "small-cnn", "resnet20", "wrn-16-4")  # all of them take seconds
    table = {name: found for name, found in load_table().items() if name in few}
    monkeypatch.setattr("leastwise.models.load.guess.ARCHITECTURES", table)
    shape = (1, 28, 28) if arch == "lenet5" else (3, 32, 32)
    saved = build(arch, shape, 7, seed=4)
    torch.save(
        {"state_dict": {f"module.{name}": value for name, value in saved.net.state_dict().items()}}, tmp_path / "w"
    )
    for given in (lw.model(tmp_path / "w"), lw.model(tmp_path / "w", arch=arch)):
        x = torch.rand(2, *shape)
        assert given.k == 7 and given.arch == arch and torch.equal(given(x), saved.eval()(x))
    assert "no other that is known here" in lw.model(tmp_path / "w").notes[0]


def load_table() -> dict[str, object]:
    from leastwise.models.zoo.registry import ARCHITECTURES

    return dict(ARCHITECTURES)


def test_weights_that_fit_several_networks_are_not_guessed(tmp_path: Path) -> None:
    torch.save(build("preact-resnet18-fast", (3, 32, 32), 10).net.state_dict(), tmp_path / "w.pt")
    message = "they fit preact-resnet18-nobn and preact-resnet18-fast: use --arch preact-resnet18-nobn or"
    with pytest.raises(ValueError, match=message):
        load_model(tmp_path / "w.pt", (3, 32, 32), tuple("0123456789"))


def test_names_of_a_module_are_matched_when_the_data_come(batch: Batch) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(SIZE, K))
    net.class_names = ["elk", *NAMES[:-1]]
    early = lw.model(net)
    assert early.class_names[0] == "elk" and torch.equal(early(batch[0]), net(batch[0]))
    assert torch.equal(lw.model(early, DATA)(batch[0]), net(batch[0]).roll(-1, dims=1))
    fewer = (IMAGES[:3], ["ant", "bee", "pig"])
    with pytest.raises(ValueError, match="say which are the same with --map"):
        lw.model(early, fewer)
    chosen = lw.model(early, fewer, map={"pig": "cow"})
    assert torch.equal(chosen(batch[0]), net(batch[0])[:, 1:4])
