"""The one shape of model the package speaks: pixels in [0, 1] in, logits out.

Normalisation lives in here and nowhere else, so eps is always in pixel units.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.export import ExportedProgram

from leastwise.core.files import sha256
from leastwise.core.types import Images, Logits
from leastwise.models.blackbox import QUERIES_ONLY, BlackBox
from leastwise.models.fingerprint import module_parts
from leastwise.models.foreign import silence_libraries

UNSEEN = "a change in files or servers that the function asks is noticed by its answers on some images alone"


class TrainedOn(NamedTuple):
    """The images and classes a checkpoint belongs to."""

    shape: tuple[int, int, int]
    names: tuple[str, ...]


class Exported(nn.Module):
    """An exported graph, shielded from train() and eval(), which it refuses: its mode was fixed by the export."""

    def __init__(self, graph: nn.Module, content: str = "") -> None:
        super().__init__()
        self.graph = graph
        self.content = content  # hash of the file it came from; part of the digest like any plain setting

    def forward(self, x: Images) -> Any:
        return self.graph(x)

    def train(self, mode: bool = True) -> "Exported":
        self.training = mode
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Exported":
        with silence_libraries():  # torch warns about its own tree specifications when it copies them
            return Exported(copy.deepcopy(self.graph, memo), self.content)


def shield(net: Any) -> Any:
    """Exported programs and their graphs as modules that have an evaluation mode; anything else unchanged."""
    if isinstance(net, ExportedProgram):
        return Exported(net.module())
    # torch.export replaces `train` on the instance by a method that raises.
    if isinstance(net, torch.fx.GraphModule) and "train" in vars(net):
        return Exported(net)
    return net


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
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__()
        check_normalisation(mean, std)
        self.net = net
        self.k = k
        self.mean, self.std = tuple(mean), tuple(std)
        self.arch = arch  # the name it can be rebuilt from, if any
        self.notes = tuple(notes)  # what to tell the user about how the model was understood
        self.trained_on: TrainedOn | None = None  # what its checkpoint says, if it has one
        # Not persistent: a checkpoint states mean and std as numbers, beside the weights of the bare network.
        self.register_buffer("shift", torch.tensor(self.mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("scale", torch.tensor(self.std).view(1, -1, 1, 1), persistent=False)

    @property
    def gradients(self) -> bool:
        """Whether the input can be given gradients; black boxes can only be asked."""
        return not any(isinstance(module, BlackBox) for module in self.net.modules())

    def forward(self, x: Images) -> Logits:
        return logits_of(self.net(self.normalise(x)))

    def features(self, x: Images) -> Float[Tensor, "b d"]:
        """Penultimate features: what the head receives, the last linear layer (or `is_head = True`) that is called."""
        seen: list[tuple[Tensor, Tensor]] = []

        def note(_: nn.Module, inputs: tuple[Any, ...], output: object) -> None:
            if inputs and isinstance(output, Tensor):
                seen.append((inputs[0], output))

        hooks = [module.register_forward_hook(note) for module in self.net.modules() if is_head(module)]
        try:
            z = self(x)
        finally:
            for hook in hooks:
                hook.remove()
        # A last linear layer whose output is not one number per class stands in the middle of the network.
        if not seen or seen[-1][1].flatten(1).shape != z.shape:
            raise ValueError(f"features need a network that ends in a linear layer, but {self.headless()}")
        return seen[-1][0].flatten(1)

    def headless(self) -> str:
        if not self.gradients:
            return "this model is a black box: give the network itself"
        if any(isinstance(module, Exported) for module in self.net.modules()):
            return "this one was exported, which leaves no layers: give the network itself"
        return "this one has none: set is_head = True on the layer that gives the logits"

    def normalise(self, x: Images) -> Images:
        """(x - mean) / std, in one pass over the images."""
        return torch.addcmul(-self.shift / self.scale, x, 1 / self.scale) if self.mean else x

    def digest(self) -> str:
        """A hash of weights, buffers, normalisation, and the layers with their plain settings.

        `leastwise.models.fingerprint` says what is covered of Python functions. What a network computes from elsewhere
        (a file, a server, an object that is no module) is not covered: `leastwise.models.answers` sees that.
        """
        return sha256(repr((self.k, self.mean, self.std)).encode(), *module_parts(self.net))


def wrap(
    net: nn.Module | Callable[..., Any], k: int, *, mean: Sequence[float] = (), std: Sequence[float] = ()
) -> Classifier:
    """Any module that maps images to logits, as a Classifier. `mean` and `std` go in here, once.

    A function that is no module is a black box: it gets a float tensor on the CPU and returns logits `[b, k]`.
    """
    if isinstance(net, Classifier):
        if mean or std:
            raise ValueError("this model already has its normalisation inside: leave mean and std out")
        return net
    net = shield(net)
    if isinstance(net, nn.Module):
        return Classifier(net, k, mean, std)
    if isinstance(net, type) or not callable(net):
        seen = f"the class {net.__name__}" if isinstance(net, type) else type(net).__name__
        raise ValueError(f"a model is a torch.nn.Module or a function from images to logits, but saw {seen}")
    return Classifier(BlackBox(net), k, mean, std, notes=(f"the model is a Python function: {QUERIES_ONLY}", UNSEEN))


def is_head(module: nn.Module) -> bool:
    """A layer that may give the logits: it says so, or maps so many features to so many outputs as nn.Linear does."""
    sized = isinstance(getattr(module, "in_features", None), int) and hasattr(module, "out_features")
    return sized or getattr(module, "is_head", False) is True


class NoLogits(ValueError):
    """The network returned something that holds no tensor of logits."""


def logits_of(output: object) -> Tensor:
    """The tensor itself, `.logits` (Hugging Face, torchvision's Inception), or the only tensor in a container."""
    if isinstance(output, Tensor):
        return output
    named = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if isinstance(named, Tensor):
        return named
    held = list(output.values()) if isinstance(output, Mapping) else output
    if isinstance(held, list | tuple) and len(held) == 1 and isinstance(held[0], Tensor):
        return held[0]
    raise NoLogits(
        f"the model must return a tensor of logits, but returned {type(output).__name__}: "
        "return the logits from its forward"
    )


def check_normalisation(mean: Sequence[float], std: Sequence[float]) -> None:
    """Refuse a mean and std that do not belong together or that divide by 0."""
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


def backward_bytes(model: Classifier, x: Images) -> int:
    """What a forward pass keeps for its backward pass, in bytes; of a black box, the images."""
    kept: dict[int, int] = {x.data_ptr(): x.nbytes}

    def note(saved: Tensor) -> Tensor:
        kept[saved.data_ptr()] = saved.nbytes
        return saved

    weights = {part.data_ptr() for part in (*model.parameters(), *model.buffers())}
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
        model(x.detach().requires_grad_() if model.gradients else x)
    return sum(size for place, size in kept.items() if place not in weights)
