"""Networks that others trained, as a user would write them down to audit them."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from leastwise.core.types import Images, Labels
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.models.classifier import Classifier, wrap
from leastwise.models.load.dispatch import load_model
from leastwise.models.load.torch_file import read_torch


def convolutional(channels: int, inside: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, 16, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(inside, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride)) if stride > 1 else nn.Sequential()

    def forward(self, x: Tensor) -> Tensor:
        return (self.conv2(self.conv1(x).relu()) + self.shortcut(x)).relu()


class ResNet2b(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.layer1 = nn.Sequential(Block(8, 16, 2), Block(16, 16, 1))
        self.linear1, self.linear2 = nn.Linear(1024, 100), nn.Linear(100, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.linear1(self.layer1(self.conv1(x).relu()).flatten(1)).relu())


def state(path: Path) -> dict[str, Any]:
    content = read_torch(path)
    held = content.get("state_dict", content)
    return held[0] if isinstance(held, list) else held


def mnist_cnn(folder: Path) -> Classifier:
    return loaded(convolutional(1, 1568), folder / "nets" / "mnist_cnn_a_adv.model", (), ())


def loaded(net: nn.Module, path: Path, mean: tuple[float, ...], std: tuple[float, ...]) -> Classifier:
    net.load_state_dict(state(path))
    return wrap(net, 10, mean=mean, std=std)


CIFAR_MEAN = (0.4914, 0.4822, 0.4465)
IMAGENET_MEAN = (0.485, 0.456, 0.406)


def cifar_network(folder: Path, name: str) -> Classifier:
    nets = folder / "nets"
    match name:
        case "cifar_resnet2b":
            return loaded(ResNet2b(), nets / f"{name}.pth", CIFAR_MEAN, (0.2471, 0.2435, 0.2616))
        case "cifar_wide_kw":
            return loaded(convolutional(3, 2048), nets / f"{name}.pth", IMAGENET_MEAN, (0.225, 0.225, 0.225))
        case "salman_cifar_cnn_small_NOR":
            return loaded(convolutional(3, 2048), nets / f"{name}.pth", CIFAR_MEAN, (0.2023, 0.1994, 0.2010))
    raise AssertionError(name)


CIFAR = ("cifar_resnet2b", "cifar_wide_kw", "salman_cifar_cnn_small_NOR")


def public_network(folder: Path, name: str) -> tuple[Classifier, Dataset, tuple[float, ...]]:
    """A network, 200 test images (100 for the slow ResNets), and two radii of which some survive the first."""
    cifar10 = folder / "cifar10_test_first2000.npz"
    match name:
        case "mnist_cnn_a_adv":
            return mnist_cnn(folder), load(str(folder / "mnist_test.npz")).take(20), (0.1, 0.3)
        case "akamaster":  # the layout of its file says how images are normalised
            data = load(str(cifar10)).take(10)
            file = str(folder / "nets" / "akamaster_cifar10_resnet20.th")
            return load_model(file, data.shape, data.names, arch="resnet20"), data, (0.5 / 255, 8 / 255)
        case "chenyaofo":
            data = load(str(folder / "cifar100_test.npz")).take(1)
            file, mean = str(folder / "nets" / "chenyaofo_cifar100_resnet20.pth"), (0.5070, 0.4865, 0.4409)
            std = (0.2673, 0.2564, 0.2761)
            model = load_model(file, data.shape, data.names, arch="resnet20-b", mean=mean, std=std)
            return model, data, (0.5 / 255, 8 / 255)
    return cifar_network(folder, name), load(str(cifar10)).take(20), (2 / 255, 8 / 255)


def points(test_data: Path, name: str, number: int) -> tuple[Classifier, Images, Labels, Labels]:
    """A network without weight gradients, and the first images of its test set with labels and ids."""
    mnist = name == "mnist_cnn_a_adv"
    data = load(str(test_data / ("mnist_test.npz" if mnist else "cifar10_test_first2000.npz")))
    model = mnist_cnn(test_data) if mnist else cifar_network(test_data, name)
    x, y, ids = data.batch(np.arange(number))
    return model.eval().requires_grad_(False), x, y, ids


def resnet2b() -> Classifier:
    """For the command line: `leastwise audit tests/oracles/networks.py:resnet2b`."""
    return cifar_network(Path(os.environ["LEASTWISE_TEST_DATA"]), "cifar_resnet2b")
