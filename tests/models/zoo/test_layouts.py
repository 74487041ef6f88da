"""Others' files load and mean the same: parameter names, logits, and two networks that others trained."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from leastwise.models.zoo.registry import ARCHITECTURES, build, find_architecture, rename_state

K = 7

# Names and shapes that public checkpoints have, for three channels and K classes.
NAMES: dict[str, dict[str, tuple[int, ...]]] = {
    "lenet5": {"conv1.weight": (6, 3, 5, 5), "fc1.weight": (120, 400), "fc3.bias": (K,)},
    "small-cnn": {
        "feature_extractor.conv1.weight": (32, 3, 3, 3),
        "feature_extractor.conv4.bias": (64,),
        "classifier.fc1.weight": (200, 1600),
        "classifier.fc3.weight": (K, 200),
    },
    "vgg16-bn": {"features.0.weight": (64, 3, 3, 3), "features.41.bias": (512,), "classifier.weight": (K, 512)},
    "vgg19-bn": {"features.49.weight": (512, 512, 3, 3), "features.50.running_var": (512,)},
    "resnet9": {
        "conv1.0.bias": (64,),
        "conv2.1.running_mean": (128,),
        "res1.1.0.weight": (128, 128, 3, 3),
        "conv4.0.weight": (512, 256, 3, 3),
        "classifier.2.weight": (K, 512),
    },
    "resnet18": {
        "conv1.weight": (64, 3, 3, 3),
        "layer1.0.bn2.bias": (64,),
        "layer2.0.shortcut.0.weight": (128, 64, 1, 1),
        "layer2.0.shortcut.1.running_mean": (128,),
        "linear.weight": (K, 512),
    },
    "resnet50": {"layer1.0.shortcut.0.weight": (256, 64, 1, 1), "layer4.2.conv3.weight": (2048, 512, 1, 1)},
    "resnet20": {"layer2.0.conv1.weight": (32, 16, 3, 3), "layer3.2.bn2.weight": (64,), "linear.weight": (K, 64)},
    "resnet56-b": {"layer2.0.downsample.0.weight": (32, 16, 1, 1), "layer3.8.bn1.bias": (64,), "fc.bias": (K,)},
    "preact-resnet18": {"layer2.0.shortcut.0.weight": (128, 64, 1, 1), "bn.running_mean": (512,), "linear.bias": (K,)},
    "wrn-16-4": {
        "block1.layer.0.bn1.weight": (16,),
        "block1.layer.0.convShortcut.weight": (64, 16, 1, 1),
        "block3.layer.1.conv2.weight": (256, 256, 3, 3),
        "bn1.running_var": (256,),
        "fc.weight": (K, 256),
    },
    "densenet121": {
        "conv1.weight": (64, 3, 3, 3),
        "dense1.0.bn1.weight": (64,),
        "dense4.15.conv2.weight": (32, 128, 3, 3),
        "trans3.conv.weight": (512, 1024, 1, 1),
        "bn.weight": (1024,),
        "linear.weight": (K, 1024),
    },
    "googlenet": {
        "pre_layers.0.bias": (192,),
        "a3.b1.0.weight": (64, 192, 1, 1),
        "e4.b3.6.weight": (128, 128, 3, 3),
        "b5.b4.1.weight": (128, 832, 1, 1),
        "linear.bias": (K,),
    },
    "resnext29-32x4d": {
        "conv1.weight": (64, 3, 1, 1),
        "layer1.0.conv2.weight": (128, 4, 3, 3),
        "layer3.2.bn3.weight": (1024,),
        "linear.weight": (K, 1024),
    },
    "vit-small": {
        "cls_token": (1, 1, 384),
        "pos_embed": (1, 65, 384),
        "patch_embed.proj.weight": (384, 3, 4, 4),
        "blocks.11.attn.qkv.weight": (1152, 384),
        "blocks.0.mlp.fc1.weight": (1536, 384),
        "norm.bias": (384,),
        "head.weight": (K, 384),
    },
    "resnet18-imagenet": {"conv1.weight": (64, 3, 7, 7), "layer4.0.downsample.1.bias": (512,), "fc.bias": (K,)},
    "wide-resnet50-2": {"layer1.0.conv2.weight": (128, 128, 3, 3), "layer4.2.conv3.weight": (2048, 1024, 1, 1)},
    "densenet161": {
        "features.conv0.weight": (96, 3, 7, 7),
        "features.denseblock4.denselayer24.norm2.weight": (192,),
        "features.transition2.conv.weight": (384, 768, 1, 1),
        "features.norm5.weight": (2208,),
        "classifier.weight": (K, 2208),
    },
    "vgg16-bn-imagenet": {
        "classifier.0.weight": (4096, 25088),
        "classifier.3.bias": (4096,),
        "classifier.6.bias": (K,),
    },
    "googlenet-imagenet": {
        "conv1.conv.weight": (64, 3, 7, 7),
        "inception3a.branch2.1.bn.weight": (128,),
        "inception5b.branch4.1.conv.weight": (128, 832, 1, 1),
        "aux2.conv.conv.weight": (128, 528, 1, 1),
        "aux1.fc2.weight": (K, 1024),
        "fc.weight": (K, 1024),
    },
    "inception-v3": {
        "Conv2d_1a_3x3.conv.weight": (32, 3, 3, 3),
        "Mixed_5b.branch3x3dbl_3.bn.running_var": (96,),
        "Mixed_6e.branch7x7dbl_5.conv.weight": (192, 192, 1, 7),
        "Mixed_7c.branch3x3_2b.conv.weight": (384, 384, 3, 1),
        "AuxLogits.conv1.conv.weight": (768, 128, 5, 5),
        "AuxLogits.fc.bias": (K,),
        "fc.weight": (K, 2048),
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_parameters_have_the_names_of_public_checkpoints(name: str) -> None:
    entry = ARCHITECTURES[name]
    side = entry.params.shape[1] if entry.size == "imagenet" and entry.params else 32
    with torch.device("meta"):
        state = entry.make((3, side, side), K).state_dict()
    assert {key: tuple(state[key].shape) for key in NAMES[name]} == NAMES[name]


# Logits of torchvision 0.29, timm 1.0 and RobustBench 1.1 for the weights of `settled` and the image of `pixels`:
# side of the image, then one number per class.
OTHERS: dict[str, tuple[int, tuple[float, ...]]] = {
    "resnet18-imagenet": (40, (1.51675, -3.12817, -4.65238, -2.31732, -0.8231, 0.683045, 1.85484)),
    "resnext50-32x4d": (40, (-15.8752, 9.74487, -3.98273, 11.1326, 6.90993, -7.05318, 10.1099)),
    "densenet121-imagenet": (40, (1.52486, -3.94176, -0.297351, 1.09301, 3.32896, -2.08059, -2.52866)),
    "googlenet-imagenet": (40, (-0.785527, -0.821063, 1.34961, 0.445076, -0.488071, -0.788818, 0.0182171)),
    "inception-v3": (75, (3.03377, -2.09491, 1.3302, -0.523303, 0.179186, 1.16034, -2.19308)),
    "vit-small": (16, (1.00513, -0.984111, -1.63978, -1.47298, 0.506868, 2.58377, 1.46226)),
    "resnet18": (32, (0.166719, -3.50236, -3.66138, -1.53602, -1.03361, -0.259837, 2.30986)),
    "preact-resnet18": (32, (1.01472, 1.7507, 1.26078, -0.613895, -2.41166, -1.74396, -0.101336)),
    "preact-resnet18-nobn": (32, (-0.0374407, 0.0806044, 0.196763, -0.320485, -0.298918, 0.181423, 0.00954451)),
    "wrn-10-2": (32, (0.251475, -0.352814, -0.213117, 0.402649, 0.437788, -1.37511, 0.41898)),
}


def spread(start: int, size: int) -> Tensor:
    """Numbers in (-0.5, 0.5) that any machine makes alike."""
    return ((torch.arange(size) * 48271 + 7919 * start) % 65537).double() / 65537 - 0.5


@torch.no_grad()
def settled(net: nn.Module) -> nn.Module:
    """In place: weights of the size He's initialisation has, BatchNorms that do something."""
    for place, (name, value) in enumerate(sorted(net.state_dict().items())):
        if value.dim() > 1:
            value.copy_(spread(place, value.numel()).view(value.shape) * 4 / value[0].numel() ** 0.5)
        elif value.is_floating_point():
            value.copy_(spread(place, value.numel()) * 0.5 + name.endswith(("weight", "running_var")))
    return net.double().eval()


@pytest.mark.parametrize("name", OTHERS)
def test_logits_are_those_of_other_implementations(name: str) -> None:
    side, expected = OTHERS[name]
    with torch.device("meta"):
        net = find_architecture(name).make((3, side, side), K)
    net = settled(net.double().to_empty(device="cpu"))
    pixels = (spread(0, 3 * side * side) + 0.5).view(1, 3, side, side)
    with torch.no_grad():
        assert torch.allclose(net(pixels)[0], torch.tensor(expected).double(), rtol=2e-5, atol=1e-6)


def test_auxiliary_classifiers_are_there_for_the_files_and_change_nothing() -> None:
    net = build("googlenet-imagenet", (3, 32, 32), K).net.eval()
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    unused = [value for name, value in net.state_dict().items() if name.startswith(("aux1.", "aux2."))]
    assert not any(bool(value.any()) for value in unused if value.dim() > 1)
    with torch.no_grad():
        before = net(x)
        for value in unused:
            value += 1
        assert torch.equal(net(x), before)
    for name, prefixes in {"googlenet-imagenet": ("aux1.", "aux2."), "inception-v3": ("AuxLogits.",)}.items():
        assert find_architecture(name).optional == prefixes


def test_names_of_older_and_other_files_are_understood() -> None:
    with torch.device("meta"):
        dense = find_architecture("densenet121-imagenet").make((3, 64, 64), K).state_dict()
        wide = find_architecture("wrn-10-1").make((3, 32, 32), K).state_dict()
    old = {
        name.replace("norm1.", "norm.1.")
        .replace("norm2.", "norm.2.")
        .replace("conv1.", "conv.1.")
        .replace("conv2.", "conv.2."): value
        for name, value in dense.items()
    }
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    assert rename_state(find_architecture("densenet121-imagenet"), old).keys() == dense.keys()
    twice = {f"sub_{name}": value for name, value in wide.items() if name.startswith("block1.")}
    assert rename_state(find_architecture("wrn-10-1"), {**wide, **twice}).keys() == wide.keys()
    assert (
        rename_state(find_architecture("wrn-10-1"), {f"x.{name}": v for name, v in twice.items()}).keys() != wide.keys()
    )


def accuracy(net: nn.Module, images: np.ndarray, labels: np.ndarray, mean: Tensor, std: Tensor) -> float:
    x = (torch.from_numpy(images) / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    with torch.no_grad():
        return float((net.eval()(x).argmax(dim=1) == torch.from_numpy(labels)).float().mean())


@pytest.mark.slow
def test_a_public_resnet20_with_projections_loads_and_is_as_accurate_as_known(test_data: Path) -> None:
    """69.2 % of the first thousand test images of CIFAR-100, measured with the code it comes from."""
    state = torch.load(test_data / "nets" / "chenyaofo_cifar100_resnet20.pth", map_location="cpu", weights_only=True)
    net = find_architecture("resnet20-b").make((3, 32, 32), 100)
    net.load_state_dict(state)
    with np.load(test_data / "cifar100_test.npz") as data:
        images, labels = data["images"][:1000], data["fine_labels"][:1000]
    mean, std = torch.tensor([0.5070, 0.4865, 0.4409]), torch.tensor([0.2673, 0.2564, 0.2761])
    assert accuracy(net, images, labels, mean, std) == pytest.approx(0.692, abs=0.002)


@pytest.mark.medium
def test_a_public_resnet20_without_projections_loads_and_is_as_accurate_as_known(test_data: Path) -> None:
    """91.7 % of all test images of CIFAR-10; the first thousand must lie within two standard errors of that."""
    path = test_data / "nets" / "akamaster_cifar10_resnet20.th"
    state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    net = find_architecture("resnet20").make((3, 32, 32), 10)
    misses = net.load_state_dict({name.removeprefix("module."): v for name, v in state.items()}, strict=False)
    assert not misses.unexpected_keys
    assert all(name.endswith("num_batches_tracked") for name in misses.missing_keys)  # the file is from before 0.4.1
    with np.load(test_data / "cifar10_test_first2000.npz") as data:
        images, labels = data["images"][:1000], data["labels"][:1000]
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    assert accuracy(net, images, labels, mean, std) == pytest.approx(0.917, abs=0.0175)
