"""Abstract classes whose hooks cannot be misspelt."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import pytest

from leastwise.core.contract import Contract


class Animal(Contract):
    legs: ClassVar[int] = 4

    @abstractmethod
    def sound(self) -> str: ...


def test_hooks_settings_recipe_names_and_helpers_are_allowed() -> None:
    @dataclass(frozen=True)
    class Duck(Animal):
        recipe_name: ClassVar[str] = "Duck"
        legs: ClassVar[int] = 2
        loudness: int = 1

        def sound(self) -> str:
            return self._once() * self.loudness

        def _once(self) -> str:
            return "quack"

    class LoudDuck(Duck):
        loudness = 2  # what a parent has may be changed

    assert Duck(3).sound() == "quackquackquack" and issubclass(LoudDuck, Animal)


def test_a_misspelt_hook_or_need_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"Cow defines sounds, which nobody asks for: did you mean sound[?]"):
        type("Cow", (Animal,), {"sounds": lambda self: "moo"})
    with pytest.raises(ValueError, match=r"did you mean legs[?]"):

        class Bird(Animal):
            leg: ClassVar[int] = 2

    with pytest.raises(ValueError, match=r"did you mean legs[?]"):

        class Snake(Animal):
            leg: "ClassVar[int]" = 0


def test_a_class_without_a_needed_hook_cannot_be_made() -> None:
    class Fish(Animal):
        legs: ClassVar[int] = 0

    with pytest.raises(TypeError, match="sound"):
        Fish()  # type: ignore[abstract]
