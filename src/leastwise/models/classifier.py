"""The one shape of model the package speaks: pixels in [0, 1] in, logits out.

Normalisation lives in here and nowhere else, so eps is always in pixel units.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from leastwise.store import sha256
from leastwise.types import Images, Logits


class TrainedOn(NamedTuple):
    """The images and classes a checkpoint belongs to."""

    shape: tuple[int, int, int]
    names: tuple[str, ...]


class Classifier(nn.Module):
    """A network with its input normalisation and its number of classes."""

    shift: Tensor
    scale: Tensor

    def __init__(
        self,
        net: nn.Module,
        k: int,
        mean: Sequence[float] = (),
        std: Sequence[float] = (),
        arch: str | None = None,
    ) -> None:
        super().__init__()
        check_normalisation(mean, std)
        self.net = net
        self.k = k
        self.mean, self.std = tuple(mean), tuple(std)
        self.arch = arch  # the name it can be rebuilt from, if any
        self.trained_on: TrainedOn | None = None  # what its checkpoint says, if it has one
        # Not persistent: a checkpoint states mean and std as numbers, beside the weights of the bare network.
        self.register_buffer("shift", torch.tensor(self.mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("scale", torch.tensor(self.std).view(1, -1, 1, 1), persistent=False)

    def forward(self, x: Images) -> Logits:
        return self.net(self.normalised(x))

    def features(self, x: Images) -> Float[Tensor, "b d"]:
        """Penultimate features: what the last linear layer receives."""
        last = [m for m in self.net.modules() if isinstance(m, nn.Linear)]
        if not last:
            raise ValueError("features need a network that ends in a linear layer, but this one has none")
        seen: list[Tensor] = []
        hook = last[-1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        try:
            self(x)
        finally:
            hook.remove()
        return seen[-1].flatten(1)

    def normalised(self, x: Images) -> Images:
        return (x - self.shift) / self.scale if self.mean else x

    def digest(self) -> str:
        """A hash of weights, buffers, normalisation, and the layers with their plain settings.

        What a network computes from elsewhere (a closure, a file, an object that is no module) is not covered.
        """
        parts = [repr((self.k, self.mean, self.std)).encode()]
        for name, module in self.net.named_modules():
            settings = {key: value for key, value in vars(module).items() if key != "training" and is_plain(value)}
            parts.append(repr((name, type(module).__qualname__, sorted(settings.items()))).encode())
        for name, value in sorted(self.net.state_dict().items()):
            parts += [name.encode(), str(value.dtype).encode(), str(tuple(value.shape)).encode()]
            parts.append(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return sha256(*parts)


def wrap(net: nn.Module, k: int, mean: Sequence[float] = (), std: Sequence[float] = ()) -> Classifier:
    """Any module that maps images to logits, as a Classifier. `mean` and `std` go in here, once."""
    if isinstance(net, Classifier):
        if mean or std:
            raise ValueError("this model already has its normalisation inside: leave mean and std out")
        return net
    return Classifier(net, k, mean, std)


def is_plain(value: object) -> bool:
    return isinstance(value, int | float | str | None) or (isinstance(value, tuple) and all(map(is_plain, value)))


def check_normalisation(mean: Sequence[float], std: Sequence[float]) -> None:
    if len(mean) != len(std):
        raise ValueError(f"mean and std need one number per channel each, but saw {len(mean)} and {len(std)}")
    if not (all(math.isfinite(m) for m in mean) and all(math.isfinite(s) and s > 0 for s in std)):
        raise ValueError(f"mean must be finite and std positive, but saw {tuple(mean)} and {tuple(std)}")


@contextmanager
def inference(model: nn.Module) -> Iterator[nn.Module]:
    """Evaluation mode inside; on leaving, every submodule is back in the mode it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield model
    finally:
        for module, training in modes:
            module.training = training
