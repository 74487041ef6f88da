"""Abstract classes whose parts cannot be misspelt: a subclass that defines an unknown name is refused at once.

A method that nobody calls is the quietest of mistakes: the class works, and does nothing of what was meant.
"""

from abc import ABC
from typing import Any

from leastwise.core.text import nearest_name


class Contract(ABC):  # noqa: B024  its subclasses have the abstract methods
    """The base of abstract classes with hooks. Direct subclasses declare hooks; theirs may only fill them in.

    Allowed besides hooks are settings (the fields of a dataclass), a `recipe_name`, and names that begin with an
    underscore. Class variables are no settings, so a misspelt need (`needs_validaton: ClassVar[bool] = True`) is found.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if Contract in cls.__bases__:
            return
        hooks = {name for base in cls.__mro__[1:-1] for name in vars(base) if not name.startswith("_")}
        for name in vars(cls):
            if not (name.startswith("_") or name == "recipe_name" or name in hooks or is_setting(cls, name)):
                nearest = nearest_name(name, sorted(hooks), likeness=0.0)
                raise ValueError(
                    f"{cls.__name__} defines {name}, which nobody asks for: did you mean {nearest}? "
                    "The hooks are " + ", ".join(sorted(hooks)) + "; the name of a helper begins with an underscore"
                )


def is_setting(cls: type, name: str) -> bool:
    """Whether a dataclass made of this class would have the name as a field."""
    kind = vars(cls).get("__annotations__", {}).get(name)
    return kind is not None and not str(kind).startswith(("typing.ClassVar", "ClassVar"))
