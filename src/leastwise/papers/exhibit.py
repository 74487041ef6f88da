"""Papers and their exhibits as declarations."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from leastwise.papers.recipes import Absent, Recipe, Trained, trainings
from leastwise.papers.scales import scale

LAST_STEP = "whether an attack counts by its last step or by any is not said: by its last, as in the code it builds on"

BN = "the mode of BatchNorm while crafting is not said: evaluation"

Needs = Mapping[str, Recipe]


@dataclass(frozen=True)
class PaperSetting:
    """An assumption about the paper's own setting: scale full has it, and lite what it says, or its recipe, instead."""

    full: str
    lite: str = ""


Assumption = str | PaperSetting  # of every scale, or of some


def list_assumptions(assumed: Iterable[Assumption], scale_name: str) -> tuple[str, ...]:
    """The sentences that are true of a scale."""
    texts = (
        one if isinstance(one, str) else {"full": one.full, "lite": one.lite}.get(scale_name, "") for one in assumed
    )
    return tuple(text for text in texts if text)


@dataclass(frozen=True)
class Exhibit:
    """A table or figure: what it needs, by role, in the paper's own setting."""

    id: str  # such as tian2021/table3
    title: str
    shows: str  # what the reader sees
    needs: Needs  # empty if it is computed from nothing but the paper
    assumed: tuple[Assumption, ...] = ()  # what the paper leaves open, and what is taken instead
    classes: tuple[int, ...] = ()  # that it is about; all if empty. A scale may put others in their place
    images: tuple[int, ...] = ()  # single test images that it shows, by id

    def __call__(self, scale_name: str) -> dict[str, tuple[Recipe | Absent, ...]]:
        """The recipes at a scale, by role."""
        at = scale(scale_name)
        return {role: at(recipe) for role, recipe in self.needs.items()}

    def trainings(self, scale_name: str) -> tuple[Trained, ...]:
        """Every training it needs at a scale, each once."""
        return trainings(one for parts in self(scale_name).values() for one in parts if not isinstance(one, Absent))


@dataclass(frozen=True)
class Paper:
    """What a paper says of itself, and its exhibits. Its folder has the same name as its id."""

    id: str
    title: str
    authors: str
    where: str
    first_class: int  # the number that the paper gives to the first class
    exhibits: tuple[Exhibit, ...]
    assumed: tuple[str, ...]  # what the whole paper leaves open

    def number(self, cls: int) -> int:
        """A class as the paper counts it."""
        return cls + self.first_class


def is_complete(exhibit: Exhibit, scale_name: str, has: Callable[[Recipe], bool]) -> bool:
    """Whether every row of an exhibit is there in all its parts; what a scale cannot offer is missing."""
    return all(not isinstance(part, Absent) and has(part) for parts in exhibit(scale_name).values() for part in parts)


def count_complete(exhibits: Iterable[Exhibit], scale_name: str, has: Callable[[Recipe], bool]) -> str:
    """Such as: 41 of 62 exhibits are complete."""
    every = [is_complete(one, scale_name, has) for one in exhibits]
    return f"{sum(every)} of {len(every)} exhibit{'s' if len(every) != 1 else ''} complete"
