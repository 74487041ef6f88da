"""The one shape of model the package speaks: pixels in [0, 1] in, logits out; and its digest.

Normalisation lives in here and nowhere else, so eps is always in pixel units.

Of a module the digest covers its layers with their settings, parameters, buffers, arrays and hooks, and the code of
classes that are not a library's. Of a Python function: its qualified name, byte code, defaults, and the values it
closes over or reads from its module, as far as these are plain values, arrays, tensors, modules or functions of the
same file. Of a callable object: its class, the code of its `__call__`, and its plain and array attributes. Not covered:
functions of other files, files, servers, and other objects behind a function; a model is therefore also known by what
it answers (`leastwise.models.answers`). Byte code differs between Python versions, so a function's digest does too.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from leastwise.core.files import sha256
from leastwise.core.types import Images, Logits
from leastwise.models.blackbox import QUERIES_ONLY, BlackBox, logits_from_classes, names_classes
from leastwise.models.exported import Exported, shield

UNSEEN = "a change in files or servers that the function asks is noticed by its answers on some images alone"


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
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__()
        check_normalisation(mean, std)
        self.net = net
        self.k = k  # 0 as long as nobody knows: the data will say
        self.mean, self.std = tuple(mean), tuple(std)
        self.arch = arch  # the name it can be rebuilt from, if any
        self.notes = tuple(notes)  # what to tell the user about how the model was understood
        self.trained_on: TrainedOn | None = None  # what its checkpoint says, if it has one
        self.labels_only = False  # whether it was heard to answer with class numbers instead of logits
        self.class_names: tuple[str, ...] = ()  # how its outputs are called, until they are put into the data's order
        # Not persistent: a checkpoint states mean and std as numbers, beside the weights of the bare network.
        self.register_buffer("shift", torch.tensor(self.mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("scale", torch.tensor(self.std).view(1, -1, 1, 1), persistent=False)

    def with_net(self, net: nn.Module, *, k: int, notes: Sequence[str] = ()) -> "Classifier":
        """The same classifier around another form of its network, and what to tell about that."""
        made = Classifier(net, k, self.mean, self.std, self.arch, (*self.notes, *notes))
        made.trained_on = self.trained_on
        made.training = self.training
        return made

    @property
    def gradients(self) -> bool:
        """Whether the input can be given gradients; black boxes can only be asked."""
        return not any(isinstance(module, BlackBox) for module in self.net.modules())

    def forward(self, x: Images) -> Logits:
        z = logits_of(self.net(self.normalise(x)))
        if z.dim() == 1 and names_classes(z):
            self.labels_only = True
            return logits_from_classes(z, self.k, x)
        return z

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

        What a network computes from elsewhere (a file, a server, an object that is no module) is not covered.
        """
        return sha256(repr((self.k, self.mean, self.std)).encode(), *module_parts(self.net))


def wrap(
    net: nn.Module | Callable[..., Any], k: int, *, mean: Sequence[float] = (), std: Sequence[float] = ()
) -> Classifier:
    """Any module that maps images to logits, as a Classifier. `mean` and `std` go in here, once.

    A function that is no module is a black box: it gets a float tensor on the CPU and returns logits `[b, k]`, or a
    class number for each image. `k` is 0 where it is not known yet.
    """
    if isinstance(net, Classifier):
        if mean or std:
            raise ValueError("this model already has its normalisation inside: leave mean and std out")
        return net if net.k or not k else net.with_net(net.net, k=k)
    if not isinstance(net, nn.Module) or isinstance(net, torch.fx.GraphModule):
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


# The digest, as bytes to hash: change the bytes' source and the digest changes.

HELD = (Tensor, np.ndarray, list, tuple, dict, set, frozenset, FunctionType, BuiltinFunctionType, MethodType, partial)
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
TORCHS_OWN = frozenset(vars(nn.Module()))
LIBRARIES = ("torch", "torchvision", "timm", "transformers", "leastwise", "builtins")


def class_parts(cls: type, seen: set[int]) -> Iterator[bytes]:
    """The code of a class and of those it inherits from, as far as they are the user's own."""
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] not in LIBRARIES:
            for name, value in sorted(vars(base).items()):
                if isinstance(value, FunctionType) or is_plain(value):
                    yield name.encode()
                    yield from value_parts(value, seen)


def module_parts(net: nn.Module, seen: set[int] | None = None) -> Iterator[bytes]:
    """The layers of a network with their settings, the code that is the user's own, and all tensors."""
    seen = set() if seen is None else seen
    for name, module in net.named_modules():
        settings = {key: value for key, value in vars(module).items() if key != "training" and is_plain(value)}
        yield repr((name, type(module).__qualname__, sorted(settings.items()))).encode()
        yield from class_parts(type(module), seen)
        if isinstance(module, torch.jit.ScriptModule):
            yield str(module.inlined_graph).encode()
            continue
        for key, value in sorted(vars(module).items()):
            # Also what is held without being registered, as many normalising layers do. A traced graph is its code,
            # which is a plain setting; what else it holds are notes and checks of torch, new in every process.
            kinds = (Tensor, np.ndarray) if isinstance(module, torch.fx.GraphModule) else HELD
            hook = key in HOOKS and not isinstance(module, torch.fx.GraphModule)
            if hook or (key not in TORCHS_OWN and isinstance(value, kinds)):
                yield key.encode()
                yield from value_parts(value, seen)
        if isinstance(module, BlackBox) and not module.content:
            yield from callable_parts(module.function, seen)
    # By name and not from state_dict(): buffers that are not saved are part of the function too.
    tensors = [*net.named_parameters(remove_duplicate=False), *net.named_buffers(remove_duplicate=False)]
    for name, value in sorted(tensors, key=lambda entry: entry[0]):
        yield name.encode()
        yield from tensor_parts(value)


def tensor_parts(value: Tensor) -> Iterator[bytes]:
    """The type, shape and bytes of a tensor."""
    yield str(value.dtype).encode()
    yield str(tuple(value.shape)).encode()
    yield value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def callable_parts(function: Callable[..., Any], seen: set[int] | None = None) -> Iterator[bytes]:
    """A function, or an object with `__call__` and the values it holds."""
    seen = set() if seen is None else seen
    if isinstance(function, FunctionType | MethodType | partial | nn.Module):
        yield from value_parts(function, seen)
    else:
        yield from object_parts(function, seen)


def object_parts(value: object, seen: set[int]) -> Iterator[bytes]:
    """The class of an object, the code of its `__call__`, and what it holds."""
    yield name_of(value)
    yield from value_parts(vars(type(value)).get("__call__"), seen)
    for key, held in sorted(getattr(value, "__dict__", {}).items()):
        if is_plain(held) or isinstance(held, Tensor | np.ndarray | nn.Module):
            yield key.encode()
            yield from value_parts(held, seen)


def value_parts(value: object, seen: set[int]) -> Iterator[bytes]:
    """Any value that code may hold, each object once."""
    if is_plain(value) or isinstance(value, complex | bytes):
        yield repr(value).encode()
        return
    yield name_of(value)
    if id(value) in seen:  # a function that calls itself
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield from tensor_parts(value)
    elif isinstance(value, np.ndarray):
        yield repr((value.dtype.str, value.shape)).encode()
        yield b"" if value.dtype.hasobject else value.tobytes()  # an array of objects holds addresses
    elif isinstance(value, nn.Module):
        yield from module_parts(value, seen)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from value_parts(item, seen)
    elif isinstance(value, set | frozenset):
        yield from sorted(repr(item).encode() for item in value if is_plain(item))
    elif isinstance(value, dict):
        for key in sorted(value, key=repr):
            yield from value_parts((key, value[key]), seen)
    elif isinstance(value, CodeType):
        yield value.co_code
        yield repr(value.co_names).encode()
        yield from value_parts(value.co_consts, seen)
    elif isinstance(value, FunctionType):
        yield from function_parts(value, seen)
    elif isinstance(value, MethodType):
        yield from value_parts(value.__func__, seen)
        yield from object_parts(value.__self__, seen)
    elif isinstance(value, partial):
        yield from callable_parts(value.func, seen)
        yield from value_parts((value.args, value.keywords), seen)


def function_parts(function: FunctionType, seen: set[int]) -> Iterator[bytes]:
    """The code of a function, its defaults, and the values that it closes over or reads."""
    yield from value_parts(function.__code__, seen)
    yield from value_parts((function.__defaults__, function.__kwdefaults__), seen)
    for cell in function.__closure__ or ():
        try:
            yield from value_parts(cell.cell_contents, seen)
        except ValueError:  # a cell that is still empty
            yield b"empty"
    for name in sorted(names_in(function.__code__) & function.__globals__.keys()):
        held = function.__globals__[name]
        foreign = isinstance(held, FunctionType) and held.__module__ != function.__module__
        yield name.encode()
        yield from () if foreign else value_parts(held, seen)


def names_in(code: CodeType) -> set[str]:
    """Global names a function may read, those of the functions defined inside it included."""
    inner = [names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


def name_of(value: object) -> bytes:
    """The qualified name of a function or class, or of the class of a value."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}".encode()


def is_plain(value: object) -> bool:
    """Whether a value is a number, a text, nothing, or a tuple of these."""
    return isinstance(value, int | float | str | None) or (isinstance(value, tuple) and all(map(is_plain, value)))
