"""Shapes in signatures are verified in tests, in every test anew, by the first calls of each function.

jaxtyping and beartype check what a function gets and what it returns, which takes longer than many of the functions. A
loop calls the same function with the same shapes, so that its first calls in a test say what the others would.
"""

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

import jaxtyping
import pytest

FIRST = 10  # calls of a function that are checked in a test

check_always = jaxtyping.jaxtyped
begun = 0  # tests so far


@pytest.fixture(autouse=True)
def counts_calls_anew() -> None:
    """Every test checks its own first calls."""
    global begun
    begun += 1


def check_first_calls(part: Any = None, *, typechecker: Any) -> Any:
    """In the place of `jaxtyping.jaxtyped`, which the import hook puts before every function and class."""
    if part is None:
        return lambda part: check_first_calls(part, typechecker=typechecker)
    checked = check_always(part, typechecker=typechecker)
    return spare_later_calls(part, checked) if isinstance(part, FunctionType) else checked


def spare_later_calls(plain: Callable[..., Any], checked: Callable[..., Any]) -> Callable[..., Any]:
    """The checked function for its first calls in a test, and the plain one after them."""
    test = calls = 0

    @wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        nonlocal test, calls
        if test != begun:
            test, calls = begun, 0
        calls += 1
        return (checked if calls <= FIRST else plain)(*args, **kwargs)

    return call


jaxtyping.jaxtyped = check_first_calls  # type: ignore[assignment]
