"""Shapes in signatures are verified in tests, in every test anew, in some calls of each function.

jaxtyping and beartype check what a function gets and what it returns, which takes longer than many of the functions. A
loop calls the same function with the same shapes: the first call in a test is checked, and one whenever the number of
calls has doubled, so that late calls of a long loop are seen as well. Values that are made count as calls of what makes
them. Functions inside functions are made again and again; their calls are counted together.
"""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache, wraps
from types import FunctionType
from typing import Any

import jaxtyping
import pytest

check_always = jaxtyping.jaxtyped
begun = 0  # tests so far
calls: dict[int, list[int]] = {}  # by the identity of code: the test that called it last, and how often


@pytest.fixture(autouse=True)
def counts_calls_anew() -> None:
    """Every test checks its own calls."""
    global begun
    begun += 1


def check_some_calls(part: Any = None, *, typechecker: Any) -> Any:
    """In the place of `jaxtyping.jaxtyped`, which the import hook puts before every function and class."""
    if part is None:
        return lambda part: check_some_calls(part, typechecker=typechecker)
    if isinstance(part, FunctionType):
        return spare_most_calls(part, typechecker)
    if isinstance(part, type):
        making = vars(part).get("__init__")
        if is_dataclass(part) and isinstance(making, FunctionType):
            part.__init__ = spare_most_calls(making, typechecker)  # type: ignore[method-assign]
        return part
    return check_always(part, typechecker=typechecker)


def spare_most_calls(plain: FunctionType, typechecker: Any) -> Callable[..., Any]:
    """The checked function for calls 1, 2, 4, 8, … of a test, and the plain one for the others.

    The checked function is made when it is needed: of thousands, a test calls few.
    """
    seen = calls.setdefault(id(plain.__code__), [0, 0])

    @cache
    def checked() -> Callable[..., Any]:
        return check_always(plain, typechecker=typechecker)

    @wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if seen[0] != begun:
            seen[:] = begun, 0
        seen[1] = number = seen[1] + 1
        return (plain if number & (number - 1) else checked())(*args, **kwargs)

    return call


jaxtyping.jaxtyped = check_some_calls  # type: ignore[assignment]
