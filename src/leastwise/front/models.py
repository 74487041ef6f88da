"""`lw.model`: a classifier from what people have."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from leastwise.models.classifier import Classifier


def model(
    given: "str | Path | nn.Module | Callable[..., Any]",
    data: Any = None,
    *,
    arch: str | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    map: Mapping[str, str] | None = None,
    trust: bool = False,
    resize: bool = True,
) -> "Classifier":
    """A classifier, pixels in [0, 1] in and logits out, from what people have.

    `given` is a torch module; a checkpoint or the folder of a training; `hf:`, `timm:`, `torchvision:` or
    `robustbench:` and a name; an `.onnx` file; `path/file.py:function`; a function from images to logits, or to one
    class number for each image. TorchScript, `.pt2`, pickled modules and folders with code of their own run code when
    they are loaded, and need `trust=True`.

    `arch=` names the architecture of bare weights where their layout fits several. `mean=` and `std=` are the
    normalisation that goes inside; libraries bring their own. With `data`, anything that `lw.data` reads, the model is
    checked against it: classes by name (`map=` says, for names of the data, what the model calls them) and size.
    Without, that happens when the model is used with data. A model that says how it resizes images does that itself,
    unless `resize=False`.

    >>> import torch, leastwise as lw
    >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
    >>> lw.model(net, mean=[0.29], std=[0.35])(torch.rand(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    from leastwise.front.datasets import data as read_data
    from leastwise.models.load.dispatch import load_model

    shown = None if data is None else read_data(data)
    found = load_model(
        given,
        None if shown is None else shown.shape,
        () if shown is None else shown.names,
        arch=arch,
        mean=tuple(mean),
        std=tuple(std),
        trust=trust,
        mapping=map,
        resize=resize,
    )
    return found.eval() if isinstance(given, str | Path) else found  # modules of the user's own keep their mode
