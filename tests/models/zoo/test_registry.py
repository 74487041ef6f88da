"""Every network in the table has the published size, gives logits in both modes, and can be traced."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import jaxtyping
import pytest
import torch
from _pytest.mark import ParameterSet
from torch import fx, nn

from leastwise.models.zoo.lenet import lenet5
from leastwise.models.zoo.registry import ARCHITECTURES, Architecture, build, find_architecture
from leastwise.models.zoo.vit import vit

PUBLISHED = [name for name, entry in ARCHITECTURES.items() if entry.params is not None]
# About a second each: left to the longer run, since a smaller one of the family is in the shorter.
LONGER = (
    *(
        "resnet34",
        "resnet50",
        "resnet32",
        "resnet44",
        "resnet56",
        "resnet110",
        "resnet32-b",
        "resnet44-b",
        "resnet56-b",
    ),
    *("vgg19-bn", "densenet169", "preact-resnet18-nobn", "resnext29-2x64d", "resnext29-32x4d", "googlenet"),
    *("resnet50-imagenet", "resnext50-32x4d", "densenet121-imagenet", "densenet161", "wrn-28-10", "wide-resnet50-2"),
)
LARGE = ("wrn-28-10", "wrn-34-10", "wide-resnet50-2", "vgg16-bn-imagenet")  # seconds to initialise: shapes only
K = 7


def shorter_first(names: Iterable[str]) -> list[ParameterSet]:
    marked = [pytest.param(name, marks=[pytest.mark.slow] if name in LONGER else []) for name in names]
    return sorted(marked, key=lambda entry: len(entry.marks))


def parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def small_images(name: str) -> tuple[int, int, int]:
    """Two channels, not square, as small as the family allows or nearly so."""
    if name == "inception-v3":
        return 2, 75, 80
    return (2, 32, 40) if ARCHITECTURES[name].size == "imagenet" else (2, 16, 20)


@contextmanager
def shapes_unchecked() -> Iterator[None]:
    """While tracing, values are symbols without a shape."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_number_of_parameters_is_the_published_one(name: str) -> None:
    published = ARCHITECTURES[name].params
    assert published is not None
    with torch.device("meta"):
        net = ARCHITECTURES[name].make(published.shape, published.k)
    assert parameters(net) == published.total
    # Dropout draws from a global generator, so that a continued training run could not repeat it.
    assert not [layer for layer in net.modules() if "drop" in type(layer).__name__.lower()]


def test_numbers_of_parameters_that_are_published_for_other_sizes_or_counted_by_hand() -> None:
    with torch.device("meta"):
        # DeiT-S and DeiT-Ti (Touvron et al., 2021): the same transformer on 224 pixels in patches of 16.
        assert parameters(vit((3, 224, 224), 1000, patch=16, width=384, depth=12, heads=6)) == 22_050_664
        assert parameters(vit((3, 224, 224), 1000, patch=16, width=192, depth=12, heads=3)) == 5_717_416
        assert parameters(lenet5((3, 32, 32), 10)) == 62_006  # of the LeNet in the PyTorch tutorial on CIFAR-10
        convolutions = (9 * 1 + 1) * 32 + (9 * 32 + 1) * 32 + (9 * 32 + 1) * 64 + (9 * 64 + 1) * 64
        linear = (64 * 4 * 4 + 1) * 200 + (200 + 1) * 200 + (200 + 1) * 10
        assert parameters(find_architecture("small-cnn").make((1, 28, 28), 10)) == convolutions + linear
        # Projections add two 1x1 convolutions with BatchNorm to the shortcuts without parameters.
        more = 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64
        assert parameters(find_architecture("resnet44-b").make((3, 32, 32), 10)) == 658_586 + more


@pytest.mark.parametrize("name", shorter_first(name for name in ARCHITECTURES if name not in LARGE))
def test_logits_are_finite_in_both_modes_and_the_same_when_traced_or_in_float64(name: str) -> None:
    shape = small_images(name)
    net = build(name, shape, K, seed=1).net
    x = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        trained = net.train()(x)
        assert trained.shape == (3, K) and bool(trained.isfinite().all())
        z = net.eval()(x)
        assert z.shape == (3, K) and bool(z.isfinite().all()) and len(z.unique()) == z.numel()
        with shapes_unchecked():
            traced = fx.symbolic_trace(net)
        assert torch.equal(traced(x), z)
        exact = net.double()(x.double())
    assert exact.dtype == torch.float64 and torch.allclose(exact.float(), z, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", shorter_first(LARGE))
def test_large_networks_give_logits_and_can_be_traced(name: str) -> None:
    """Smoke test: shapes only, without memory for weights."""
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        net, x = ARCHITECTURES[name].make((2, 32, 40), K), torch.empty(3, 2, 32, 40)
        assert net.train()(x).shape == net.eval()(x).shape == (3, K)
        with shapes_unchecked():
            assert fx.symbolic_trace(net)(x).shape == (3, K)


@pytest.mark.parametrize("name", ["lenet5", "small-cnn", "vgg16-bn", "resnet9", "resnet20", "wrn-16-4", "vit-small"])
def test_networks_for_small_images_take_grey_digits(name: str) -> None:
    with torch.device("meta"):
        assert ARCHITECTURES[name].make((1, 28, 28), K)(torch.empty(2, 1, 28, 28)).shape == (2, K)


LEAST = {
    "lenet5": 12,
    "small-cnn": 16,
    "resnet9": 8,
    "densenet121": 8,
    "densenet121-imagenet": 29,
    "vgg16-bn-imagenet": 32,
    "googlenet-imagenet": 15,
    "inception-v3": 75,
}


@pytest.mark.parametrize("name", LEAST)
def test_images_that_would_shrink_to_nothing_are_refused(name: str) -> None:
    side = LEAST[name]
    with torch.device("meta"):
        assert find_architecture(name).make((3, side, side), K)(torch.empty(2, 3, side, side)).shape == (2, K)
        with pytest.raises(ValueError, match=rf"needs images of at least {side} x {side} pixels, but saw {side} x "):
            find_architecture(name).make((3, side, side - 1), K)


def test_a_transformer_needs_whole_patches() -> None:
    with pytest.raises(ValueError, match="into patches of 4 x 4 pixels, but saw 30 x 32: pad or resize"):
        find_architecture("vit-small").make((3, 30, 32), K)


def test_any_wide_resnet_can_be_named() -> None:
    with torch.device("meta"):
        assert (
            parameters(find_architecture("wrn-40-2").make((3, 32, 32), 10)) == 2_243_546
        )  # 2.2 M in the paper's table
    assert find_architecture("wrn-40-2").about == "wide ResNet of depth 40 and width 2"
    assert find_architecture("wrn-40-2").ignored == ("sub_block1.",)
    with pytest.raises(ValueError, match=r"wrn-32-10 cannot be built.*choose wrn-28-10 or wrn-34-10"):
        find_architecture("wrn-32-10")  # in Tian et al.; the code it cites builds 34
    with pytest.raises(ValueError, match=r"wrn-4-1 cannot be built.*choose wrn-10-1 or wrn-16-1"):
        find_architecture("wrn-4-1")
    with pytest.raises(ValueError, match=r"wrn-28-0 cannot be built"):
        find_architecture("wrn-28-0")


def test_unknown_names_get_the_nearest_one() -> None:
    with pytest.raises(ValueError, match=r"no architecture 'resnet1': did you mean .*`leastwise list models`"):
        find_architecture("resnet1")
    with pytest.raises(ValueError, match="no architecture 'PreAct-ResNet18': did you mean preact-resnet18"):
        find_architecture("PreAct-ResNet18")
    with pytest.raises(ValueError, match=r"unknown part 'cos': choose bin or cosine or 2d"):
        find_architecture("resnet18+cos")
    for twice in ("resnet18+cosine+2d", "resnet18+bin+bin"):
        with pytest.raises(ValueError, match="each part once and at most one head"):
            find_architecture(twice)


def test_every_entry_says_what_it_is() -> None:
    for name, entry in ARCHITECTURES.items():
        assert isinstance(entry, Architecture) and 5 < len(entry.about) < 90 and entry.size in ("cifar", "imagenet")
        assert name == name.lower() and "+" not in name and " " not in name
