"""Classifiers own their normalisation; checkpoints load without code; anything a user names becomes a Classifier."""

import pickle
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from leastwise.models.classifier import Classifier, wrap
from leastwise.models.load.checkpoint import load_checkpoint, save_checkpoint
from leastwise.models.load.dispatch import load_model
from leastwise.models.zoo.registry import build
from tests.conftest import SHAPE, B, K
from tests.models.linear_network import Payload

NAMES = ("ant", "bee", "cow", "dog", "elk")


def test_normalisation_is_inside(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, _ = batch
    net = build("convnet", SHAPE, K).net
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    by_hand = torch.stack([(x[:, c] - mean[c]) / std[c] for c in range(3)], dim=1)
    assert torch.allclose(wrap(net, K, mean=mean, std=std)(x), net(by_hand), atol=1e-6)
    assert torch.equal(wrap(net, K)(x), net(x))
    with pytest.raises(ValueError, match="one number per channel each, but saw 3 and 1"):
        wrap(net, K, mean=mean, std=(1.0,))
    with pytest.raises(ValueError, match="std positive"):
        wrap(net, K, mean=mean, std=(1.0, 0.0, 1.0))


@pytest.mark.parametrize("arch", ["convnet", "small"])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 9, 17)])
def test_architectures_take_any_image_size_and_number_of_classes(arch: str, shape: tuple[int, int, int]) -> None:
    model = build(arch, shape, 7)
    x = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0))
    assert model(x).shape == (3, 7)
    with torch.no_grad():
        model.eval()
        last = [m for m in model.net.modules() if isinstance(m, nn.Linear)][-1]
        assert torch.allclose(last(model.features(x)), model(x), atol=1e-6)


def test_small_has_the_advertised_size() -> None:
    """0.3 million parameters, counted by hand: convolutions, shortcuts, BatchNorms, linear."""
    widths = (16, 32, 64, 128)
    stem = 9 * 3 * 16
    blocks, inputs = 0, 16
    for w in widths:
        blocks += 9 * inputs * w + 9 * w * w + 2 * inputs + 2 * w + (inputs * w if inputs != w else 0)
        inputs = w
    expected = stem + blocks + 2 * 128 + 128 * 10 + 10
    assert sum(p.numel() for p in build("small", (3, 32, 32), 10).parameters()) == expected


def test_initial_weights_depend_on_the_seed_alone() -> None:
    before = torch.random.get_rng_state()
    a, b, c = build("small", SHAPE, K, seed=1), build("small", SHAPE, K, seed=1), build("small", SHAPE, K, seed=2)
    assert a.digest() == b.digest() != c.digest()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_digest_covers_weights_buffers_and_normalisation() -> None:
    model = build("small", SHAPE, K)
    digests = {model.digest(), wrap(model.net, K, mean=(0.1, 0.1, 0.1), std=(1.0, 1.0, 1.0)).digest()}
    with torch.no_grad():
        model(torch.rand(4, *SHAPE))  # moves BatchNorm's running statistics
    digests.add(model.digest())
    with torch.no_grad():
        next(model.parameters())[0] += 1e-3
    digests.add(model.digest())
    assert len(digests) == 4


def test_checkpoints_load_with_weights_only(
    network: Classifier, tmp_path: Path, batch: tuple[torch.Tensor, ...]
) -> None:
    path = tmp_path / "model.pt"
    save_checkpoint(path, network, SHAPE, names=NAMES)
    assert torch.load(path, weights_only=True)["arch"] == network.arch
    again = load_checkpoint(path).eval()
    assert again.digest() == network.digest() and torch.equal(again(batch[0]), network(batch[0]))


def test_checkpoints_in_safetensors_say_what_they_are_too(network: Classifier, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_checkpoint(path, network, SHAPE, names=NAMES, notes=("chosen on the test set",))
    again = load_checkpoint(path)
    assert again.digest() == network.digest() and again.notes == ("chosen on the test set",)
    assert again.trained_on is not None and again.trained_on.names == NAMES
    state = {name: value.contiguous() for name, value in network.net.state_dict().items()}
    save_file(state, path, metadata={"leastwise": '{"leastwise": 1, "arch": 7}'})
    with pytest.raises(ValueError, match=r"is not a whole checkpoint \(arch, shape"):
        load_checkpoint(path)
    save_file(state, path, metadata={"leastwise": "[1"})
    with pytest.raises(ValueError, match="is not a checkpoint of plain weights"):
        load_checkpoint(path)


@pytest.mark.parametrize("prefix", ["", "module.", "model.", "module.model."])
@pytest.mark.parametrize("key", [None, "state_dict", "model"])
def test_a_bare_state_dict_needs_the_name_of_its_architecture(prefix: str, key: str | None, tmp_path: Path) -> None:
    model = build("convnet", SHAPE, K, seed=4)
    state: dict[str, object] = {prefix + name: value for name, value in model.net.state_dict().items()}
    torch.save({key: state, "epoch": 7} if key else state, tmp_path / "w.pth")
    again = load_model(str(tmp_path / "w.pth"), SHAPE, NAMES, arch="convnet")
    assert again.digest() == model.digest()
    with pytest.raises(ValueError, match=r"has 5 outputs, but the data has 6 classes"):
        load_model(str(tmp_path / "w.pth"), SHAPE, (*NAMES, "fox"), arch="convnet")
    with pytest.raises(ValueError, match="there is no architecture 'resnet1'"):
        load_model(str(tmp_path / "w.pth"), SHAPE, NAMES, arch="resnet1")


def test_safetensors_load_and_two_networks_in_one_file_are_refused(tmp_path: Path) -> None:
    model = build("convnet", SHAPE, K, seed=4)
    save_file(model.net.state_dict(), tmp_path / "w.safetensors")
    assert load_model(str(tmp_path / "w.safetensors"), SHAPE, NAMES, arch="convnet").digest() == model.digest()
    torch.save({"student": model.net.state_dict(), "teacher": model.net.state_dict()}, tmp_path / "two.pt")
    with pytest.raises(ValueError, match="holds 2 state dicts among student, teacher"):
        load_model(str(tmp_path / "two.pt"), SHAPE, NAMES, arch="convnet")


def test_a_checkpoint_refuses_other_classes_and_shapes(network: Classifier, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    save_checkpoint(path, network, SHAPE, names=NAMES)
    assert load_model(str(path), SHAPE, NAMES).trained_on == (SHAPE, NAMES)
    assert load_model(str(path), SHAPE, ("0", "1", "2", "3", "4")).k == K  # data without names of its own
    with pytest.raises(ValueError, match="was trained on the classes ant, bee, cow, dog, elk, but the data has elk"):
        load_model(str(path), SHAPE, NAMES[::-1])
    with pytest.raises(ValueError, match="was trained on images of shape"):
        load_model(str(path), (3, 9, 9), NAMES)


STRANGE = {
    "list": [1, 2],
    "number": {"state_dict": 3},
    "keys": {1: torch.zeros(2)},
    "half": {"leastwise": 1},
    "forged": {"leastwise": 1, "arch": 5, "shape": 3, "names": [1], "mean": "", "std": None, "state_dict": {}},
    "empty": {},
}


@pytest.mark.parametrize(
    "how", ["torch", "pickle", "nothing", "text", "list", "number", "keys", "half", "forged", "empty"]
)
def test_hostile_and_damaged_checkpoints_are_refused_and_run_nothing(how: str, tmp_path: Path) -> None:
    path, trace = tmp_path / "x.pt", tmp_path / "executed"
    if how == "torch":
        torch.save({"state_dict": Payload(trace)}, path)
    elif how == "pickle":
        path.write_bytes(pickle.dumps(Payload(trace)))
    elif how in STRANGE:
        torch.save(STRANGE[how], path)
    else:
        path.write_text("" if how == "nothing" else "<html>not found</html>")
    with pytest.raises(ValueError, match=r"not a checkpoint of plain|must hold a state_dict|0 state dicts|not a whole"):
        load_model(str(path), SHAPE, NAMES, arch="convnet")
    assert not trace.exists()


SOURCE = """
from torch import nn
def build():
    return nn.Sequential(nn.Flatten(), nn.Linear({size}, {k}))
def wrong():
    return "a network"
def fails():
    raise RuntimeError("no weights here")
value = 3
"""


def test_functions_in_files_and_modules_resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = SHAPE[0] * SHAPE[1] * SHAPE[2]
    (tmp_path / "mine.py").write_text(SOURCE.format(size=size, k=K))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    x = torch.rand(B, *SHAPE, generator=torch.Generator().manual_seed(0))
    for spec in (f"{tmp_path}/mine.py:build", "mine.py:build", "mine:build"):
        model = load_model(spec, SHAPE, NAMES, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
        assert model(x).shape == (B, K) and model.mean == (0.5, 0.5, 0.5)
    refusals = {
        "mine.py:other": "names no function",
        "mine.py:value": "names no function",
        "mine.py:wrong": "must return a torch.nn.Module or a function from images to logits, but returned str",
        "mine.py:fails": "RuntimeError: no weights here",
        "mine.py": "say which function",
        "gone.py:build": "there is no file 'gone.py'",
        "no_such_module:build": "cannot import 'no_such_module'",
        "gone.pt": "there is no model 'gone.pt'",
    }
    for spec, message in refusals.items():
        with pytest.raises(ValueError, match=message):
            load_model(spec, SHAPE, NAMES)
    with pytest.raises(ValueError, match="leave --arch out"):
        load_model("mine.py:build", SHAPE, NAMES, arch="small")


def test_a_file_may_import_its_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "neighbour_of_mine.py").write_text("K = 5")
    (tmp_path / "mine.py").write_text("from neighbour_of_mine import K\n" + SOURCE.format(size=144, k="K"))
    assert load_model(f"{tmp_path}/mine.py:build", SHAPE, NAMES).k == K


class Scaled(nn.Module):
    def __init__(self, scale: object) -> None:
        super().__init__()
        self.scale = scale


def test_the_digest_sees_settings_and_tensors_that_are_not_registered() -> None:
    kinds = [1.0, -1.0, (1, 2), torch.ones(3), torch.zeros(3), torch.ones(3).numpy()]
    assert wrap(Scaled(-1.0), K).digest() == wrap(Scaled(-1.0), K).digest()
    assert wrap(Scaled(torch.ones(3)), K).digest() == wrap(Scaled(torch.ones(3)), K).digest()
    assert len({wrap(Scaled(value), K).digest() for value in kinds}) == len(kinds)


def test_the_digest_sees_buffers_that_are_not_saved() -> None:
    def one(value: float) -> Classifier:
        net = nn.Sequential(nn.Flatten())
        net.register_buffer("shift", torch.tensor(value), persistent=False)
        return wrap(net, K)

    assert one(1.0).digest() != one(2.0).digest()
