"""What a model is, as bytes to hash: change the bytes' source and the digest changes.

Of a module: its layers with their settings, parameters, buffers, arrays and hooks, and the code of classes that are not
a library's. Of a Python function: its qualified
name, byte code, defaults, and the values it closes over or reads from its module, as far as these are plain values,
arrays, tensors, modules or functions of the same file. Of a callable object: its class, the code of its `__call__`, and
its plain and array attributes. Not covered: functions of other files, files, servers, and other objects behind a
function; a model is therefore also known by what it answers (`leastwise.models.answers`). Byte code differs between
Python versions, so the digest of a function does too.
"""

from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leastwise.models.blackbox import BlackBox

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
