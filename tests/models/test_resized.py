"""Resizing inside a network: the sizes of the usual preparations, Pillow's pixels, and gradients."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from leastwise.models.load.huggingface import read_preparation
from leastwise.models.resized import Interpolation, Preparation, Resized


@pytest.mark.parametrize(
    ("preparation", "given", "seen"),
    [
        (Preparation((224, 224)), (32, 32), (224, 224)),
        (Preparation((256,), (224, 224)), (375, 500), (224, 224)),
        (Preparation((256,)), (375, 500), (256, 341)),
        (Preparation((256,)), (500, 375), (341, 256)),
        (Preparation((20,), (28, 28)), (10, 10), (20, 20)),
    ],
)
def test_the_size_that_a_network_sees(preparation: Preparation, given: tuple[int, int], seen: tuple[int, int]) -> None:
    x = torch.rand(2, 3, *given)
    made = Resized(nn.Identity(), preparation)(x)
    assert tuple(made.shape[2:]) == seen == preparation.target(*given)
    assert torch.equal(Resized(nn.Identity(), preparation)(made), made)  # of the right size already


@pytest.mark.parametrize("method", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(40, 60), (90, 30), (150, 170)])
def test_pixels_are_those_of_pillow(method: Interpolation, size: tuple[int, int]) -> None:
    # 0.25 to 0.75, where Pillow clips nothing. It rounds to bytes in each direction, and the absolute weights of the
    # second add up to 1.25 at most. Sides are odd, so that the nearest pixel is never a matter of rounding.
    pixels = np.random.default_rng(0).integers(64, 192, (99, 81, 3), dtype=np.uint8)
    by_pillow = Image.fromarray(pixels).resize(size[::-1], Image.Resampling[method.upper()])
    x = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255
    made = Resized(nn.Identity(), Preparation(size, method=method))(x)[0].permute(1, 2, 0)
    assert float((made - torch.from_numpy(np.asarray(by_pillow) / 255)).abs().max()) <= 0.5 * (1 + 1.25) / 255


def test_the_middle_is_cut_out_and_gradients_reach_what_is_seen() -> None:
    net = Resized(nn.Identity(), Preparation((8,), (4, 4)))
    x = torch.arange(64.0).view(1, 1, 8, 8).requires_grad_()
    made = net(x)
    assert torch.equal(made, x[..., 2:6, 2:6])
    made.sum().backward()
    assert x.grad is not None and float(x.grad.sum()) == 16 and float(x.grad[..., 2:6, 2:6].sum()) == 16


@pytest.mark.parametrize(
    ("processor", "expected"),
    [
        ({}, None),
        ({"do_resize": False, "size": 224}, None),
        ({"size": 224}, Preparation((224,))),
        ({"size": {"height": 384, "width": 384}, "resample": 3}, Preparation((384, 384), None, "bicubic")),
        (
            {"size": {"shortest_edge": 256}, "do_center_crop": True, "crop_size": {"height": 224, "width": 224}},
            Preparation((256,), (224, 224)),
        ),
        ({"size": {"shortest_edge": 256}, "do_center_crop": True, "crop_size": 224}, Preparation((256,), (224, 224))),
        ({"size": {"shortest_edge": 224}, "crop_pct": 0.875, "resample": 2}, Preparation((256,), (224, 224))),
        ({"size": {"shortest_edge": 384}, "crop_pct": 0.875}, Preparation((384,))),
        ({"size": {"longest_edge": 384}}, None),
        ({"size": "large"}, None),
    ],
)
def test_what_a_huggingface_processor_says(processor: dict[str, object], expected: Preparation | None) -> None:
    assert read_preparation(processor, "it") == expected


@pytest.mark.parametrize("size", [0, -3, 10**9])
def test_sizes_that_no_image_has_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="but a side has 1 to 4096 pixels"):
        read_preparation({"size": size}, "it")
