"""Functions as black boxes, what their digests cover, containers around logits, and features."""

import copy
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leastwise.models.classifier import inference, wrap
from leastwise.models.load.dispatch import load_model
from leastwise.models.preflight import check_model
from leastwise.models.zoo.registry import build
from tests.conftest import SHAPE, B, K, random_linear
from tests.models.linear_network import BIAS, LINEAR, MEAN, NAMES, SIZE, STD, WEIGHT, Batch


def by_torch(x: torch.Tensor) -> torch.Tensor:
    return LINEAR(x)


def by_numpy(x: torch.Tensor) -> np.ndarray:
    return x.numpy().reshape(len(x), -1).astype(np.float64) @ WEIGHT.numpy().astype(np.float64).T + BIAS.numpy()


def by_lists(x: torch.Tensor) -> list[list[float]]:
    return LINEAR(x).tolist()


def overwriting(x: torch.Tensor) -> torch.Tensor:
    z = LINEAR(x)
    x.zero_()
    return z


@pytest.mark.parametrize("function", [by_torch, by_numpy, by_lists, overwriting])
def test_a_function_is_a_black_box(function: Callable[[torch.Tensor], object], batch: Batch) -> None:
    x, before = batch[0].clone().requires_grad_(), batch[0]
    model = wrap(function, K)
    z = model(x)
    assert torch.allclose(z, LINEAR(before), atol=1e-4) and z.dtype == torch.float32
    assert not z.requires_grad and torch.equal(x, before)
    assert not model.gradients and "only query attacks" in model.notes[0]
    assert LINEAR.gradients and not wrap(nn.Sequential(nn.Identity(), model.net), K).gradients
    centred = wrap(function, K, mean=MEAN, std=STD)(before)
    assert torch.allclose(centred, wrap(LINEAR.net, K, mean=MEAN, std=STD)(before), atol=1e-3)
    assert copy.deepcopy(model).net.function is function
    with inference(model):
        assert torch.equal(model(x), z)


@pytest.mark.parametrize("kind", [torch.int64, torch.uint8, np.int32, list])
def test_a_function_may_name_classes_alone(kind: Any, batch: Batch) -> None:
    def named(x: torch.Tensor) -> object:
        classes = LINEAR(x).argmax(dim=1)
        if kind is list:
            return classes.tolist()
        return classes.to(kind) if isinstance(kind, torch.dtype) else classes.numpy().astype(kind)

    model, x = wrap(named, K), batch[0]
    assert not model.labels_only  # nobody has asked yet
    z = model(x)
    assert model.labels_only and not model.gradients and z.shape == (len(x), K) and z.dtype == x.dtype
    assert torch.equal(z.softmax(dim=1), nn.functional.one_hot(LINEAR(x).argmax(dim=1), K).float())
    assert [note for note in check_model(model, x, K, gradients=False) if "names classes and gives no logits" in note]
    with pytest.raises(ValueError, match=r"names classes \d to \d, but of 1 classes the numbers are 0 to 0"):
        wrap(named, 1)(x)
    with pytest.raises(ValueError, match="how many there are is not known yet: use it with data"):
        wrap(named, 0)(x)
    with pytest.raises(ValueError, match="must name a class for each image, but named 3 for 12 images"):
        wrap(lambda x: LINEAR(x[:3]).argmax(dim=1), K)(x)


def test_a_module_may_name_classes_alone(batch: Batch) -> None:
    class Named(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return LINEAR(x).argmax(dim=1)

    model = wrap(Named(), K)
    assert torch.equal(model(batch[0]).argmax(dim=1), LINEAR(batch[0]).argmax(dim=1)) and model.labels_only


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a torch.nn.Module or a function from images to logits, but saw the class"):
        wrap(nn.Linear, K)


SOURCE = f"""
import torch
from torch import nn
net = nn.Sequential(nn.Flatten(), nn.Linear({SIZE}, {K}))
def box():
    return lambda x: net(x).detach().numpy()
def answers(x):
    return net(x)
def needs(x, y):
    return net(x)
def leaves():
    raise SystemExit(3)
"""


def test_specs_name_functions_boxes_and_modules(tmp_path: Path, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "boxes.py").write_text(SOURCE)
    box = load_model(f"{tmp_path}/boxes.py:box", SHAPE, NAMES)
    assert box(batch[0]).shape == (B, K) and not box.gradients
    net = load_model(f"{tmp_path}/boxes.py:net", SHAPE, NAMES, mean=MEAN, std=STD)
    assert net.gradients and net.mean == MEAN and isinstance(net.net, nn.Sequential)
    assert load_model(net, SHAPE, NAMES) is net and load_model(net.net, SHAPE, NAMES).net is net.net
    assert load_model(by_torch, SHAPE, NAMES).net.function is by_torch
    answers = load_model(f"{tmp_path}/boxes.py:answers", SHAPE, NAMES)
    assert not answers.gradients and answers(batch[0]).shape == (B, K)
    with pytest.raises(ValueError, match=r"failed with TypeError: needs.. missing 2 required positional arguments"):
        load_model(f"{tmp_path}/boxes.py:needs", SHAPE, NAMES)
    with pytest.raises(ValueError, match="failed with SystemExit: 3"):
        load_model(f"{tmp_path}/boxes.py:leaves", SHAPE, NAMES)


def closure(factor: object, power: int = 1) -> Callable[[torch.Tensor], object]:
    def inner(x: torch.Tensor) -> object:
        return factor * LINEAR(x) ** power  # type: ignore[operator]

    return inner


class Box:
    def __init__(self, scale: float, weight: np.ndarray) -> None:
        self.scale, self.weight, self.lock = scale, weight, object()

    def __call__(self, x: torch.Tensor) -> object:
        return self.scale * x.numpy() @ self.weight

    def method(self, x: torch.Tensor) -> object:
        return self(x)


def test_the_digest_of_a_function_covers_code_and_values() -> None:
    ones = np.ones((SIZE, K))
    same = [
        (closure(2.0), closure(2.0)),
        (closure(ones), closure(ones.copy())),
        (Box(1.0, ones), Box(1.0, ones.copy())),
        (functools.partial(by_torch, y=[1, {"a": 2}]), functools.partial(by_torch, y=[1, {"a": 2}])),
    ]
    for one, other in same:
        assert wrap(one, K).digest() == wrap(other, K).digest()
    different = [
        *(by_torch, by_numpy, by_lists, closure(2.0), closure(3.0), closure(2.0, 2), closure(ones), closure(2 * ones)),
        *(closure(torch.ones(3)), closure(torch.zeros(3)), closure(LINEAR), closure(random_linear(K, seed=1))),
        *(Box(1.0, ones), Box(2.0, ones), Box(1.0, 2 * ones), Box(1.0, ones).method),
        *(functools.partial(by_torch, y=1), functools.partial(by_torch, y=2), lambda x: x, lambda x: -x, len),
    ]
    assert len({wrap(function, K).digest() for function in different}) == len(different)
    assert wrap(by_torch, K).digest() != wrap(by_torch, K, mean=MEAN, std=STD).digest()


WRITTEN = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear({size}, {k})
        self.settings, self.act = {settings}, torch.{act}
    def forward(self, x):
        return self.act(self.fc(x.flatten(1) * {factor}))
def build():
    net = Net()
    {hook}
    return net
"""


def test_the_digest_of_a_network_covers_its_code_settings_and_hooks(tmp_path: Path) -> None:
    """The same weights in another function are another model: old evidence must not be taken for it."""
    same = {"settings": "{'t': 1}", "act": "relu", "factor": "1", "hook": ""}
    changes = [
        {},
        {"factor": "7"},
        {"act": "tanh"},
        {"settings": "{'t': 9}"},
        {"settings": "[1, 2]"},
        {"hook": "net.fc.register_forward_hook(lambda m, i, o: o.roll(1, 1))"},
    ]
    digests = []
    for number, change in enumerate([*changes, {}]):
        (tmp_path / f"net{number}.py").write_text(WRITTEN.format(size=SIZE, k=K, **(same | change)))
        digests.append(load_model(f"{tmp_path}/net{number}.py:build", SHAPE, NAMES).digest())
    assert len(set(digests[:-1])) == len(changes)
    (tmp_path / "net0.py").write_text(WRITTEN.format(size=SIZE, k=K, **same) + "# a comment")
    assert load_model(f"{tmp_path}/net0.py:build", SHAPE, NAMES).digest() == digests[0]


def test_the_digest_of_a_function_follows_the_network_it_reads() -> None:
    before = wrap(by_torch, K).digest()
    with torch.no_grad():
        LINEAR.net.bias[0] += 1.0
        changed = wrap(by_torch, K).digest()
        LINEAR.net.bias[0] -= 1.0
    assert before != changed


@pytest.mark.medium
def test_the_digest_of_a_function_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(x, y={'b', 'a', 'c'}):\n    return [g for g in {'p', 'q', 'r'} if g in y]\n")
    code = "from leastwise.models import wrap; import f; print(wrap(f.f, 5).digest())"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(runs[0].strip()) == 64 and runs[0] == runs[1]


class Named(NamedTuple):
    logits: torch.Tensor
    aux: torch.Tensor


OUTPUTS: dict[str, Callable[[torch.Tensor], object]] = {
    "named": lambda z: Named(z, -z),
    "dict": lambda z: {"loss": -z, "logits": z},
    "one": lambda z: (z,),
    "list": lambda z: [z],
    "entry": lambda z: {"out": z},
}


class Ending(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(LINEAR(x))


@pytest.mark.parametrize("kind", OUTPUTS)
def test_logits_are_taken_out_of_containers(kind: str, batch: Batch) -> None:
    assert torch.equal(wrap(Ending(OUTPUTS[kind]), K)(batch[0]), LINEAR(batch[0]))


class Reversed(nn.Module):
    """The head is registered before the layer it stands behind."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(7, K)
        self.body = nn.Linear(SIZE, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x.flatten(1)).relu())


class Marked(nn.Module):
    """A head that is no linear layer, and says so."""

    is_head = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :K] ** 3


class MiddleLinear(nn.Module):
    """A linear layer in the middle and a convolution at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.end = nn.Linear(3, 3), nn.Conv2d(3, K, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.gate(x.mean((2, 3)))
        return self.end(x * gate[:, :, None, None]).mean((2, 3))


def test_features_are_what_the_last_called_head_receives(batch: Batch) -> None:
    x, _ = batch
    net = Reversed()
    assert torch.equal(wrap(net, K).features(x), net.body(x.flatten(1)).relu())
    body = nn.Sequential(nn.Flatten(), nn.Linear(SIZE, 7))
    assert torch.equal(wrap(nn.Sequential(body, Marked()), K).features(x), body(x))
    cosine = build("convnet+cosine", SHAPE, K).eval()
    expected = F.normalize(cosine.features(x), dim=1) @ F.normalize(cosine.net[-1].weight, dim=1).T
    assert torch.allclose(expected, cosine(x), atol=1e-6)
    assert wrap(net, K).features(x).requires_grad and not net.head._forward_hooks


def test_networks_without_a_head_say_so(batch: Batch) -> None:
    with pytest.raises(ValueError, match="this one has none: set is_head = True on the layer that gives the logits"):
        wrap(MiddleLinear(), K).features(batch[0])
    with pytest.raises(ValueError, match="this model is a black box: give the network itself"):
        wrap(by_torch, K).features(batch[0])
