"""Sentences of the command line, said to whoever calls a function: `--fresh` there is `fresh=True` here."""

import re
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def in_python_words(function: Function) -> Function:
    """The same function, whose refusals name parameters instead of flags."""
    parameters = signature(function).parameters.values()
    takes_any = any(one.kind is Parameter.VAR_KEYWORD for one in parameters)
    known = None if takes_any else frozenset(one.name for one in parameters)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ValueError as error:
            if len(error.args) == 1 and isinstance(error.args[0], str):
                error.args = (name_parameters(error.args[0], known),)
            raise

    return call  # type: ignore[return-value]


def name_parameters(sentence: str, known: frozenset[str] | None = None) -> str:
    """`give --out DIR` becomes `give out=…` where the function has that parameter (None: any); other flags stay."""

    def parameter(found: re.Match[str]) -> str:
        name = found[1].replace("-", "_")
        if known is not None and name not in known:
            return found[0]
        return f"{name}=True" if name in SWITCHES else f"{name}="

    return re.sub(r"--([a-z][a-z-]*)", parameter, sentence)


SWITCHES = frozenset(("fresh", "force", "trust", "save_adversarial", "anytime", "select_on_test"))
