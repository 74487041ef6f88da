"""`lw.model`: a classifier from what people have."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from leastwise.data.dataset import Dataset
    from leastwise.models.classifier import Classifier


def model(
    given: "str | Path | nn.Module | Callable[..., Any]",
    data: "Dataset | None" = None,
    *,
    arch: str | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    trust: bool = False,
) -> "Classifier":
    """A classifier for the images and classes of `data`: of a network, a function, or a file by its name.

    Pixels in [0, 1] go in and logits come out; a normalisation goes inside as `mean` and `std`.
    """
    from leastwise.front.datasets import data as read_data
    from leastwise.models.load.dispatch import load_model

    shown = read_data("fashion-mini") if data is None else data
    return load_model(given, shown.shape, shown.names, arch=arch, mean=mean, std=std, trust=trust)
