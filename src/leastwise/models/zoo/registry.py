"""The table of networks that can be built by name.

A name may carry parts: `resnet18+bin` has batch-instance normalisation, `resnet18+cosine` a cosine head,
`resnet18+2d` two-dimensional features, `resnet18+bin+cosine` two of them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from leastwise.core.text import nearest_name
from leastwise.core.types import Shape
from leastwise.models.classifier import Classifier
from leastwise.models.zoo import imagenet_inception, wideresnet
from leastwise.models.zoo.convnet import convnet
from leastwise.models.zoo.densenet import densenet121, densenet169
from leastwise.models.zoo.googlenet import googlenet
from leastwise.models.zoo.imagenet_densenet import OLD_NAMES, densenet121_imagenet, densenet161
from leastwise.models.zoo.imagenet_googlenet import UNUSED, googlenet_imagenet
from leastwise.models.zoo.imagenet_inception import inception_v3
from leastwise.models.zoo.imagenet_resnet import resnet18_imagenet, resnet50_imagenet, resnext50_32x4d, wide_resnet50_2
from leastwise.models.zoo.imagenet_vgg import vgg16_bn_imagenet
from leastwise.models.zoo.layers import BottleneckHead, CosineHead, with_bin, with_head
from leastwise.models.zoo.lenet import lenet5, small_cnn
from leastwise.models.zoo.preact import preact_resnet18, preact_resnet18_fast, preact_resnet18_nobn
from leastwise.models.zoo.resnet import resnet9, resnet18, resnet34, resnet50
from leastwise.models.zoo.resnet_thin import option_a, option_b
from leastwise.models.zoo.resnext import resnext29
from leastwise.models.zoo.small import small
from leastwise.models.zoo.vgg import vgg16_bn, vgg19_bn
from leastwise.models.zoo.vit import vit_small, vit_tiny
from leastwise.models.zoo.wideresnet import wide_resnet

ImageScale = Literal["cifar", "imagenet"]


class Published(NamedTuple):
    """How many parameters others count, and for which images and how many classes."""

    total: int
    shape: Shape
    k: int


class Architecture(NamedTuple):
    """A network by name: how it is made, and what is published of it."""

    make: Callable[[Shape, int], nn.Module]  # image shape, number of classes -> network
    about: str
    size: ImageScale = "cifar"  # the images it is meant for: about 32 pixels, or about 224
    params: Published | None = None  # None where nobody publishes the exact count
    ignored: tuple[str, ...] = ()  # prefixes of what others' files hold in vain
    optional: tuple[str, ...] = ()  # prefixes of what others' files may lack, because nothing here uses it
    renamed: tuple[tuple[str, str], ...] = ()  # pattern and replacement for names that older files spell otherwise
    beware: str = ""  # what someone who loads another's file should know


HALF = "torchvision's weights of this network expect --mean .5,.5,.5 --std .5,.5,.5"


def cifar(total: int) -> Published:
    return Published(total, (3, 32, 32), 10)


def imagenet(total: int, side: int = 224) -> Published:
    return Published(total, (3, side, side), 1000)


def wide(depth: int, width: int, total: int | None = None) -> Architecture:
    make, about = wide_resnet(depth, width), f"wide ResNet of depth {depth} and width {width}"
    return Architecture(make, about, params=cifar(total) if total else None, ignored=wideresnet.UNUSED)


ARCHITECTURES: dict[str, Architecture] = {
    "convnet": Architecture(convnet, "three strided convolutions, no BatchNorm"),
    "small": Architecture(small, "pre-activation residual network with BatchNorm, cheap enough to train on two cores"),
    "lenet5": Architecture(lenet5, "LeNet-5 with ReLU and max pooling", params=Published(61_706, (1, 28, 28), 10)),
    "small-cnn": Architecture(small_cnn, "SmallCNN of TRADES for MNIST: four convolutions, three linear layers"),
    "vgg16-bn": Architecture(vgg16_bn, "VGG-16 with BatchNorm, one linear layer", params=cifar(14_728_266)),
    "vgg19-bn": Architecture(vgg19_bn, "VGG-19 with BatchNorm, one linear layer", params=cifar(20_040_522)),
    "resnet9": Architecture(resnet9, "ResNet-9 after the DAWNBench entry", params=cifar(6_575_370)),
    "resnet18": Architecture(resnet18, "ResNet-18 with a 3x3 stem", params=cifar(11_173_962)),
    "resnet34": Architecture(resnet34, "ResNet-34 with a 3x3 stem", params=cifar(21_282_122)),
    "resnet50": Architecture(resnet50, "ResNet-50 with a 3x3 stem", params=cifar(23_520_842)),
    "resnet20": Architecture(option_a(20), "thin ResNet-20, shortcuts without parameters", params=cifar(269_722)),
    "resnet32": Architecture(option_a(32), "thin ResNet-32, shortcuts without parameters", params=cifar(464_154)),
    "resnet44": Architecture(option_a(44), "thin ResNet-44, shortcuts without parameters", params=cifar(658_586)),
    "resnet56": Architecture(option_a(56), "thin ResNet-56, shortcuts without parameters", params=cifar(853_018)),
    "resnet110": Architecture(option_a(110), "thin ResNet-110, shortcuts without parameters", params=cifar(1_727_962)),
    "resnet20-b": Architecture(option_b(20), "thin ResNet-20 with projection shortcuts", params=cifar(272_474)),
    "resnet32-b": Architecture(option_b(32), "thin ResNet-32 with projection shortcuts", params=cifar(466_906)),
    "resnet44-b": Architecture(option_b(44), "thin ResNet-44 with projection shortcuts"),
    "resnet56-b": Architecture(option_b(56), "thin ResNet-56 with projection shortcuts", params=cifar(855_770)),
    "preact-resnet18": Architecture(
        preact_resnet18, "pre-activation ResNet-18 with a final BatchNorm", params=cifar(11_172_170)
    ),
    "preact-resnet18-nobn": Architecture(
        preact_resnet18_nobn,
        "pre-activation ResNet-18 without a final BatchNorm",
        params=cifar(11_171_146),
        beware="files of the fast-adversarial-training code have the same names, but need --arch preact-resnet18-fast",
    ),
    "preact-resnet18-fast": Architecture(
        preact_resnet18_fast,
        "the same, with shortcuts that project x itself",
        params=cifar(11_171_146),
        beware="files of the usual pre-activation ResNet-18 have the same names, but need --arch preact-resnet18-nobn",
    ),
    "wrn-16-4": wide(16, 4, 2_748_890),
    "wrn-28-10": wide(28, 10, 36_479_194),
    "wrn-34-10": wide(34, 10, 46_160_474),
    "densenet121": Architecture(densenet121, "DenseNet-121 with a 3x3 stem", params=cifar(6_956_298)),
    "densenet169": Architecture(densenet169, "DenseNet-169 with a 3x3 stem", params=cifar(12_493_322)),
    "googlenet": Architecture(googlenet, "GoogLeNet with BatchNorm and a 3x3 stem", params=cifar(6_166_250)),
    "resnext29-2x64d": Architecture(resnext29(2, 64), "ResNeXt-29 with 2 groups of 64", params=cifar(9_128_778)),
    "resnext29-32x4d": Architecture(resnext29(32, 4), "ResNeXt-29 with 32 groups of 4", params=cifar(4_774_218)),
    "vit-tiny": Architecture(vit_tiny, "tiny vision transformer on patches of 4 pixels"),
    "vit-small": Architecture(vit_small, "small vision transformer on patches of 4 pixels"),
    "resnet18-imagenet": Architecture(resnet18_imagenet, "ResNet-18 for ImageNet", "imagenet", imagenet(11_689_512)),
    "resnet50-imagenet": Architecture(resnet50_imagenet, "ResNet-50 for ImageNet", "imagenet", imagenet(25_557_032)),
    "wide-resnet50-2": Architecture(wide_resnet50_2, "wide ResNet-50-2 for ImageNet", "imagenet", imagenet(68_883_240)),
    "resnext50-32x4d": Architecture(
        resnext50_32x4d, "ResNeXt-50 with 32 groups of 4 for ImageNet", "imagenet", imagenet(25_028_904)
    ),
    "densenet121-imagenet": Architecture(
        densenet121_imagenet,
        "DenseNet-121 for ImageNet",
        "imagenet",
        imagenet(7_978_856),
        renamed=OLD_NAMES,
    ),
    "densenet161": Architecture(
        densenet161, "DenseNet-161 for ImageNet", "imagenet", imagenet(28_681_000), renamed=OLD_NAMES
    ),
    "vgg16-bn-imagenet": Architecture(
        vgg16_bn_imagenet, "VGG-16 with BatchNorm for ImageNet", "imagenet", imagenet(138_365_992)
    ),
    "googlenet-imagenet": Architecture(
        googlenet_imagenet,
        "GoogLeNet with BatchNorm for ImageNet",
        "imagenet",
        imagenet(13_004_888),
        optional=UNUSED,
        beware=HALF,
    ),
    "inception-v3": Architecture(
        inception_v3,
        "Inception-v3 for ImageNet at 299 pixels",
        "imagenet",
        imagenet(27_161_264, side=299),
        optional=imagenet_inception.UNUSED,
        beware=HALF,
    ),
}


class Part(NamedTuple):
    """What a name can have behind a +: a change of the network that it makes."""

    change: Callable[[nn.Module], nn.Module]
    about: str
    is_head: bool


PARTS: dict[str, Part] = {
    "bin": Part(with_bin, "batch-instance normalisation", is_head=False),
    "cosine": Part(lambda net: with_head(net, CosineHead), "a cosine head", is_head=True),
    "2d": Part(lambda net: with_head(net, BottleneckHead), "two-dimensional features", is_head=True),
}


def find_architecture(name: str) -> Architecture:
    """The network of that name: from the table, any `wrn-DEPTH-WIDTH`, and either with parts behind a +."""
    base, *parts = name.split("+")
    found = find_base(base)
    return add_parts(found, name, parts) if parts else found


def find_base(name: str) -> Architecture:
    if name in ARCHITECTURES:
        return ARCHITECTURES[name]
    if numbers := re.fullmatch(r"wrn-(\d+)-(\d+)", name):
        return wide(int(numbers[1]), int(numbers[2]))
    nearest = nearest_name(name.lower(), ARCHITECTURES, likeness=0.0)
    raise ValueError(
        f"there is no architecture {name!r}: did you mean {nearest}? `leastwise list models` shows what there is"
    )


def add_parts(found: Architecture, name: str, parts: Sequence[str]) -> Architecture:
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"{name} has an unknown part {part!r}: choose {' or '.join(PARTS)}")
    if len(set(parts)) < len(parts) or sum(PARTS[part].is_head for part in parts) > 1:
        raise ValueError(f"{name} must have each part once and at most one head: leave one of them out")

    def make(shape: Shape, k: int) -> nn.Module:
        net = found.make(shape, k)
        for part in parts:
            net = PARTS[part].change(net)
        return net

    about = f"{found.about}, with {' and '.join(PARTS[part].about for part in parts)}"
    return found._replace(make=make, about=about, params=None)


def rename_state(found: Architecture, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Someone's state dict in the names of today, without what the architecture has no use for."""
    kept = {name: value for name, value in state.items() if not name.startswith(found.ignored)}
    for pattern, replacement in found.renamed:
        kept = {re.sub(pattern, replacement, name): value for name, value in kept.items()}
    return kept


def build(
    arch: str, shape: Shape, k: int, *, mean: Sequence[float] = (), std: Sequence[float] = (), seed: int = 0
) -> Classifier:
    """A freshly initialised network; the weights depend on the seed alone and no global generator moves."""
    make = find_architecture(arch).make
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed % 2**63)  # `torch.manual_seed` moves those of other devices too
        return Classifier(make(shape, k), k, mean, std, arch)
