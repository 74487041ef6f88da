"""Names at the door of a package, imported from the module that defines them when they are first asked for.

A package whose name is a verb, such as `leastwise.audit`, can be called like a function, too.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str], packages: Sequence[str] = ()) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `homes` has its modules, each with the names that it defines.

    `packages` are those inside it that are offered themselves.
    """
    modules = {name: f"{package}.{module}" for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name in packages:
            return import_module(f"{package}.{name}")
        if name not in modules:
            from difflib import get_close_matches  # 3 ms that only a misspelt name pays for

            near = get_close_matches(name, [*modules, *packages], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        return getattr(import_module(modules[name]), name)

    return find


class CallablePackage(ModuleType):
    """A package that is a function as well: `leastwise.data` has modules, and `leastwise.data(x)` reads x."""

    __home__: str
    __function__: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__signed__()(*args, **kwargs)

    def __signed__(self) -> Callable[..., Any]:
        """The function that a call means; importing it may import torch."""
        function: Callable[..., Any] = getattr(import_module(self.__home__), self.__function__)
        return function

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """By which `inspect.signature` and notebooks find the parameters and what is said of them."""
        return self.__signed__()


def make_callable(package: str, home: str, function: str) -> None:
    """Let a package be called, which then calls the function of that module.

    Whatever is imported first, the name then means one object: Python puts a sub-package under its name into the
    package above it, where it would hide a function of that name.
    """
    module = sys.modules[package]
    module.__class__ = CallablePackage
    vars(module).update(__home__=home, __function__=function)
