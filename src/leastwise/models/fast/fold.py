"""BatchNorm folded into the convolution or linear layer before it.

In evaluation mode BN(Wx + b) = s·(Wx + b) + t with s = gamma / sqrt(var + eps) and t = beta - s·mean per channel, which
is one layer with the weights s·W and the bias s·b + t. A BatchNorm that follows anything else becomes the scale and
shift it is: the same values, and a backward pass that skips the statistics (a third of the time of PyTorch's).
The network given is never changed: a copy is.
"""

import copy
import operator
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from jaxtyping import config as shape_checks
from torch import Tensor, fx, nn
from torch.nn import functional as F

from leastwise.core.types import Images

AnyMaps = Float[Tensor, "b c ..."]

FoldableLayer = nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear
LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class ScaleShift(nn.Module):
    """s·x + t per channel."""

    scale: Tensor
    shift: Tensor

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        scale, shift = scale_and_shift(norm)
        assert isinstance(norm.running_mean, Tensor)
        self.register_buffer("scale", scale.to(norm.running_mean.dtype))
        self.register_buffer("shift", shift.to(norm.running_mean.dtype))

    def forward(self, input: AnyMaps) -> AnyMaps:  # called as BatchNorm calls it: someone may name it
        channels = (1, -1, *(1,) * (input.dim() - 2))
        return torch.addcmul(self.shift.view(channels), input, self.scale.view(channels))


@dataclass(frozen=True, eq=False)
class NetworkCopy:
    """A network that computes the same as its source, and how to renew its weights after the source was trained."""

    net: nn.Module
    source: nn.Module
    folds: tuple[tuple[str, str], ...]  # names of layer and BatchNorm, in the source; the copy's layer has both inside
    alone: tuple[str, ...] = ()  # names of BatchNorms that became a scale and a shift

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the source's present parameters and buffers, folding them again; no new tensors in the copy."""
        if self.net is self.source:
            return
        held = named_tensors(self.net)
        inside = {f"{layer}.{part}" for layer, _ in self.folds for part in ("weight", "bias")}
        for name, value in named_tensors(self.source).items():
            if name in held and name not in inside:
                held[name].copy_(value)
        for layer, norm in self.folds:
            weight, bias = fold_weights(self.source.get_submodule(layer), self.source.get_submodule(norm))
            held[f"{layer}.weight"].copy_(weight)
            held[f"{layer}.bias"].copy_(bias)
        for norm in self.alone:
            scale, shift = scale_and_shift(self.source.get_submodule(norm))
            held[f"{norm}.scale"].copy_(scale)
            held[f"{norm}.shift"].copy_(shift)


def named_tensors(net: nn.Module) -> dict[str, Tensor]:
    """All tensors by name, those that a state dict leaves out included."""
    return dict([*net.named_parameters(remove_duplicate=False), *net.named_buffers(remove_duplicate=False)])


def fold(net: nn.Module, x: Images) -> NetworkCopy:
    """The network with every BatchNorm folded that follows a convolution or linear layer and nothing else sees.

    The graph says which ones where torch.fx can trace the network; else the order in which `x` passes the layers.
    """
    with skip_shape_checks():  # while tracing, values are symbols without a shape
        try:
            return fold_graph(net, x)
        except Exception:  # tracing fails in as many ways as networks are written
            pass
    return fold_by_order(net, x)


class Tracer(fx.Tracer):
    """Heads stay whole, so that a folded copy still knows its features; buffers stay buffers and can be renewed."""

    proxy_buffer_attributes = True

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return getattr(module, "is_head", False) or super().is_leaf_module(module, name)


def fold_graph(net: nn.Module, x: Images) -> NetworkCopy:
    """Fold in the traced graph, where it is plain what follows what."""
    twin = freeze(copy.deepcopy(net))
    flat = {layer for layer, output in record_outputs(twin, x) if output.dim() == 2 or not isinstance(layer, nn.Linear)}
    traced = fx.GraphModule(twin, Tracer().trace(twin))
    modules = dict(traced.named_modules())
    calls = Counter(str(node.target) for node in traced.graph.nodes if node.op == "call_module")
    folds = []
    for node in list(traced.graph.nodes):
        if node.op != "call_module" or not is_foldable_norm(modules[str(node.target)]):
            continue
        before = node.args[0] if node.args else node.kwargs.get("input")
        if not isinstance(before, fx.Node) or before.op != "call_module" or len(before.users) != 1:
            continue
        layer, norm = str(before.target), str(node.target)
        if not is_foldable_layer(modules[layer]) or twin.get_submodule(layer) not in flat:
            continue
        if calls[layer] != 1 or calls[norm] != 1:
            continue
        fold_into(modules[layer], modules[norm])
        node.replace_all_uses_with(before)
        traced.graph.erase_node(node)
        folds.append((layer, norm))
    traced.delete_all_unused_submodules()
    alone = replace_lone_norms(traced)
    rectify_in_place(traced)
    traced.graph.lint()
    traced.recompile()
    return NetworkCopy(freeze(traced), net, tuple(folds), alone)


def record_outputs(net: nn.Module, x: Images) -> list[tuple[nn.Module, Tensor]]:
    """What each layer returned, in the order of their calls, for one image."""
    seen: list[tuple[nn.Module, Tensor]] = []
    hooks = [
        m.register_forward_hook(lambda m, _, out: seen.append((m, out))) for m in net.modules() if is_foldable_layer(m)
    ]
    try:
        with torch.no_grad():
            net(x[:1])
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def rectify_in_place(traced: fx.GraphModule) -> None:
    """ReLU overwrites its input where nothing else needs it: less memory to walk through, a few percent of the time.

    The backward passes of these layers and of additions do not look at their own output.
    """
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        as_module = node.op == "call_module" and type(modules[str(node.target)]) is nn.ReLU
        as_function = node.op == "call_function" and node.target in (F.relu, torch.relu)
        before = node.args[0] if node.args else None
        if not (as_module or as_function) or not isinstance(before, fx.Node) or len(before.users) != 1:
            continue
        layer = before.op == "call_module" and isinstance(modules[str(before.target)], (*LAYERS, ScaleShift))
        if layer or (before.op == "call_function" and before.target in (operator.add, torch.add)):
            with traced.graph.inserting_before(node):
                node.replace_all_uses_with(traced.graph.call_function(F.relu, (before,), {"inplace": True}))
            traced.graph.erase_node(node)


def fold_by_order(net: nn.Module, x: Images) -> NetworkCopy:
    """Pairs whose BatchNorm received the very tensor that the layer had just returned, each of them used once.

    That nothing else used the tensor cannot be seen here; whoever takes the copy has to compare it with the source.
    """
    twin = freeze(copy.deepcopy(net))
    names = {module: name for name, module in twin.named_modules()}
    made: dict[int, tuple[nn.Module, Tensor]] = {}  # the tensors are kept, or an address could be used again
    pairs: list[tuple[nn.Module, nn.Module]] = []
    used: Counter[nn.Module] = Counter()

    def after_layer(module: nn.Module, _: object, output: Tensor) -> None:
        used[module] += 1
        if output.dim() == 2 or not isinstance(module, nn.Linear):  # else BatchNorm's channels are not the layer's
            made[id(output)] = module, output

    def before_norm(module: nn.Module, inputs: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
        used[module] += 1
        received = inputs[0] if inputs else named["input"]
        if id(received) in made:
            pairs.append((made[id(received)][0], module))

    layers = [module for module in twin.modules() if is_foldable_layer(module)]
    hooks = [layer.register_forward_hook(after_layer) for layer in layers]
    hooks += [m.register_forward_pre_hook(before_norm, with_kwargs=True) for m in twin.modules() if is_foldable_norm(m)]
    try:
        with torch.no_grad():
            twin(x[:1])
    finally:
        for hook in hooks:
            hook.remove()
    folds = []
    for layer, norm in pairs:
        if used[layer] == 1 and used[norm] == 1:
            fold_into(layer, norm)
            twin.set_submodule(names[norm], nn.Identity())
            folds.append((names[layer], names[norm]))
    return NetworkCopy(freeze(twin), net, tuple(folds), replace_lone_norms(twin))


def replace_lone_norms(net: nn.Module) -> tuple[str, ...]:
    """Turn the BatchNorms that are left into scales and shifts; their names."""
    left = [(name, module) for name, module in net.named_modules() if is_foldable_norm(module)]
    for name, module in left:
        net.set_submodule(name, ScaleShift(module))
    return tuple(name for name, _ in left)


def is_foldable_layer(module: nn.Module) -> bool:
    """A plain layer that owns its weight; a parametrised one computes it anew in every pass."""
    return (
        type(module) in LAYERS
        and isinstance(module._parameters.get("weight"), nn.Parameter)
        and not module._forward_pre_hooks
        and not module._forward_hooks
    )


def is_foldable_norm(module: nn.Module) -> bool:
    """A plain BatchNorm with running statistics; subclasses may compute something else."""
    return type(module) in NORMS and module.running_mean is not None


def fold_into(layer: nn.Module, norm: nn.Module) -> None:
    """Give the layer the weights that do the work of the BatchNorm behind it too."""
    weight, bias = fold_weights(layer, norm)
    layer.weight, layer.bias = nn.Parameter(weight, requires_grad=False), nn.Parameter(bias, requires_grad=False)


@torch.no_grad()
def fold_weights(layer: nn.Module, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight and bias of the one layer that does both; computed in float64, so that only the result is rounded."""
    assert isinstance(layer, LAYERS)
    scale, shift = scale_and_shift(norm)
    if layer.bias is not None:
        shift = shift + scale * layer.bias.double()
    weight = layer.weight.double() * scale.view(-1, *(1,) * (layer.weight.dim() - 1))
    # `layer.weight` may be channels-last; the product keeps that order.
    return weight.to(layer.weight.dtype), shift.to(layer.weight.dtype)


@torch.no_grad()
def scale_and_shift(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """What a BatchNorm does in evaluation mode, in float64."""
    assert isinstance(norm, NORMS) and norm.running_mean is not None and norm.running_var is not None
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight.double()
    shift = -scale * norm.running_mean.double()
    return scale, shift if norm.bias is None else shift + norm.bias.double()


def freeze(net: nn.Module) -> nn.Module:
    """The network in evaluation mode with parameters that take no gradient."""
    return net.eval().requires_grad_(False)


@contextmanager
def skip_shape_checks() -> Iterator[None]:
    """Let tracing pass without shape checks: a proxy has no shape."""
    before = shape_checks.jaxtyping_disable
    shape_checks.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        shape_checks.update("jaxtyping_disable", before)
