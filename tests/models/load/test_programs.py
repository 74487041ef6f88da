"""TorchScript programs and pickled networks: what they answer with trust, and that nothing in them runs without."""

import argparse
from pathlib import Path

import pytest
import torch
from torch import nn

from leastwise.models.classifier import inference
from leastwise.models.load.dispatch import load_model
from leastwise.models.zoo.registry import build
from tests.conftest import SHAPE, K
from tests.models.linear_network import MEAN, NAMES, SIZE, STD, Batch, Payload

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*torch.jit")


def network() -> nn.Module:
    torch.manual_seed(4)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(96, K))
    net(torch.rand(20, *SHAPE))
    return net.eval()


def check_same(path: Path, net: nn.Module, batch: Batch) -> None:
    """The file's logits and input gradients are the network's, behind the normalisation that is given."""
    x = batch[0].clone().requires_grad_()
    model = load_model(path, SHAPE, NAMES, mean=MEAN, std=STD, trust=True)
    with inference(model):
        found = model(x)
        by_hand = net((x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1))
        ours, theirs = (torch.autograd.grad(z[:, 1].sum(), x)[0] for z in (found, by_hand))
    assert torch.allclose(found, by_hand, atol=1e-5) and torch.allclose(ours, theirs, atol=1e-5)
    assert model.gradients and load_model(path, SHAPE, NAMES, mean=MEAN, std=STD, trust=True).digest() == model.digest()


def test_a_script_needs_trust_and_answers_like_its_network(tmp_path: Path, batch: Batch) -> None:
    net, path = network(), tmp_path / "script.pt"
    torch.jit.save(torch.jit.script(net), path)
    with pytest.raises(ValueError, match="is a TorchScript program, which is code: add --trust if you trust"):
        load_model(path, SHAPE, NAMES)
    check_same(path, net, batch)
    other = nn.Sequential(nn.Flatten(), nn.Linear(SIZE, K))
    torch.jit.save(torch.jit.script(other), tmp_path / "other.pt")
    assert (
        len({load_model(tmp_path / name, SHAPE, NAMES, trust=True).digest() for name in ("script.pt", "other.pt")}) == 2
    )
    with pytest.raises(ValueError, match="brings its own network: leave --arch out"):
        load_model(path, SHAPE, NAMES, arch="small", trust=True)


@pytest.mark.parametrize("old", [False, True])
def test_a_pickled_network_needs_trust_and_answers_like_it(old: bool, tmp_path: Path, batch: Batch) -> None:
    net, path = network(), tmp_path / "whole.pt"
    torch.save({"epoch": 3, "model": net}, path, _use_new_zipfile_serialization=not old)
    with pytest.raises(ValueError, match=r"is not a checkpoint of plain weights \(.*\): save a state_dict"):
        load_model(path, SHAPE, NAMES)
    check_same(path, net, batch)
    torch.save(net, path, _use_new_zipfile_serialization=not old)
    check_same(path, net, batch)


def test_what_a_pickle_holds_is_named_without_opening_it(tmp_path: Path) -> None:
    path, trace = tmp_path / "x.pt", tmp_path / "executed"
    torch.save({"state_dict": Payload(trace)}, path)
    with pytest.raises(
        ValueError, match=r"\(it holds posix.mkdir\): save a state_dict .*, or add --trust if you trust"
    ):
        load_model(path, SHAPE, NAMES, arch="small")
    assert not trace.exists()
    with pytest.raises(ValueError, match="holds 0 state dicts"):  # trusted, it runs; it still is no network
        load_model(path, SHAPE, NAMES, arch="small", trust=True)
    assert trace.exists()


def test_weights_beside_objects_are_read_with_trust(tmp_path: Path) -> None:
    model, path = build("small", SHAPE, K, seed=4), tmp_path / "w.pth"
    torch.save({"state_dict": model.net.state_dict(), "args": argparse.Namespace(lr=0.1)}, path)
    with pytest.raises(ValueError, match=r"it holds argparse.Namespace"):
        load_model(path, SHAPE, NAMES, arch="small")
    assert load_model(path, SHAPE, NAMES, arch="small", trust=True).digest() == model.digest()


def test_several_networks_and_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"a": nn.Flatten(), "b": nn.Flatten()}, path)
    with pytest.raises(ValueError, match="there are 2 networks in it, a, b: save one alone"):
        load_model(path, SHAPE, NAMES, trust=True)
    torch.save({"teacher": nn.Flatten(), "model": nn.Sequential(nn.Flatten(), nn.Linear(SIZE, K))}, path)
    assert isinstance(load_model(path, SHAPE, NAMES, trust=True).net, nn.Sequential)
    path.write_bytes(b"rubbish" * 9)
    with pytest.raises(ValueError, match=r"cannot be unpickled \(.*\): its classes have to be importable"):
        load_model(path, SHAPE, NAMES, trust=True)
