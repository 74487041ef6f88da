"""Settings of a method that change by epochs, such as the patience of friendly adversarial training (its τ)."""

from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

from leastwise.training.base import Objective


@dataclass(frozen=True)
class Timetable:
    """A setting, by the name that `--set` has for it, and its values from shares of the training on.

    ("attack.patience", ((0, 0), (50 / 120, 1), (90 / 120, 2))) is 0 for the first 50 of 120 epochs, then 1, then 2.
    """

    recipe_name: ClassVar[str] = "Timetable"

    setting: str
    points: tuple[tuple[float, Any], ...]

    def __post_init__(self) -> None:
        shares = [share for share, _ in self.points]
        if not shares or shares[0] != 0 or shares[-1] >= 1 or any(a >= b for a, b in pairwise(shares)):
            raise ValueError(
                f"the values of {self.setting} need rising shares of the training, the first 0 and all below 1, "
                f"but saw {', '.join(f'{share:.4g}' for share in shares) or 'none'}"
            )

    def value(self, epoch: int, epochs: int) -> Any:
        """What it is in an epoch, from 0."""
        begun = [value for share, value in self.points if round(share * epochs, 6) <= epoch]
        return begun[-1]


def apply_timetables(objective: Objective, tables: Sequence[Timetable], epoch: int, *, epochs: int) -> Objective:
    """The objective as it is in an epoch, from 0."""
    for table in tables:
        objective = replace_at(objective, table.setting, table.value(epoch, epochs))
    return objective


def replace_at(value: Any, path: str, new: Any) -> Any:
    """The value with one field, possibly of a part of it, replaced."""
    first, dot, rest = path.partition(".")
    if not is_dataclass(value) or isinstance(value, type) or first not in value.__dataclass_fields__:
        raise ValueError(f"there is no setting {path} that could change by epochs")
    return replace(value, **{first: replace_at(getattr(value, first), rest, new) if dot else new})
