"""Recipes are values with stable keys; files are whole or absent."""

import dataclasses
import importlib
import json
import os
import pkgutil
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch

import leastwise
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.cli.demo_story import make_jobs
from leastwise.core.files import sha256, write_atomic, write_json
from leastwise.core.recipe import ADDED_LATER, canonical_json, describe_difference, recipe_key, to_plain_json
from leastwise.jobs.job import order_jobs


def test_equal_recipes_have_equal_keys_and_any_change_another() -> None:
    a = PGD(Linf(8 / 255), steps=10)
    assert recipe_key(a) == recipe_key(PGD(Linf(8 / 255), steps=10))
    changed = [a.at(0.03), replace(a, steps=11), replace(a, keep="fooled"), replace(a, step=0.007)]
    assert len({recipe_key(r) for r in [a, *changed]}) == 5


def test_one_and_one_point_zero_are_one_value() -> None:
    @dataclass(frozen=True)
    class R:
        x: float

    assert R(1) == R(1.0) and recipe_key(R(1)) == recipe_key(R(1.0)) and recipe_key(R(1)) != recipe_key(R(1.5))


def test_keys_do_not_change_between_versions() -> None:
    """A golden key: if this fails, every cached result of every user is lost; change it knowingly."""
    text = canonical_json(PGD(Linf(0.1), step=0.025, steps=20))
    assert json.loads(text) == {
        "type": "PGD",
        "ball": {"type": "Linf", "eps": 0.1},
        "goal": {"type": "CE", "inverse_temperature": 1},
        "step": 0.025,
        "steps": 20,
        "start": {"type": "Uniform"},
        "keep": "last",
        "momentum": 0,
        "patience": 0,
    }
    assert recipe_key(PGD(Linf(0.1), step=0.025, steps=20)) == "0f84c91f7c173232"


def test_fields_that_are_not_part_of_the_recipe_are_left_out() -> None:
    @dataclass(frozen=True)
    class R:
        digest: str
        model: object = field(compare=False, metadata={"recipe": False})

    assert to_plain_json(R("ab", object())) == {"type": "R", "digest": "ab"}
    assert R("ab", 1) == R("ab", 2) and recipe_key(R("ab", 1)) == recipe_key(R("ab", 2)) != recipe_key(R("cd", 1))

    @dataclass(frozen=True)
    class Told:
        model: object = field(metadata={"recipe": True})

    with pytest.raises(ValueError, match="a recipe"):
        to_plain_json((R("ab", 1), Told(object())))


def test_a_type_may_be_renamed_and_its_key_stays() -> None:
    @dataclass(frozen=True)
    class SupremumBall:
        recipe_name: ClassVar[str] = "Linf"

        eps: float

    @dataclass(frozen=True)
    class ProjectedGradientAscent(PGD):
        recipe_name: ClassVar[str] = "PGD"

    renamed = ProjectedGradientAscent(SupremumBall(0.1), step=0.025, steps=20)  # type: ignore[arg-type]
    assert recipe_key(renamed) == recipe_key(PGD(Linf(0.1), step=0.025, steps=20)) == "0f84c91f7c173232"


def test_a_subclass_does_not_inherit_the_name_of_another_recipe() -> None:
    @dataclass(frozen=True)
    class Stronger(PGD):
        pass

    assert to_plain_json(Stronger())["type"] == "Stronger" and recipe_key(Stronger()) != recipe_key(PGD())


def test_a_field_that_came_later_leaves_older_keys_alone() -> None:
    @dataclass(frozen=True)
    class Before:
        recipe_name: ClassVar[str] = "R"

        x: int = 1

    @dataclass(frozen=True)
    class Since:
        recipe_name: ClassVar[str] = "R"

        x: int = 1
        y: int = field(default=0, metadata=ADDED_LATER)

    assert recipe_key(Before()) == recipe_key(Since()) != recipe_key(Since(y=1))


def all_recipe_types() -> dict[str, list[str]]:
    """Every type of the package that has a `recipe_name`, with the fields that its key is made of."""
    found: dict[str, list[str]] = {}
    for module in pkgutil.walk_packages(leastwise.__path__, "leastwise."):
        if module.name != "leastwise.__main__":
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and value.__module__ == module.name and "recipe_name" in vars(value):
                    assert value.recipe_name not in found, f"two types are called {value.recipe_name} in recipes"
                    told = [f.name for f in dataclasses.fields(value) if f.metadata.get("recipe", True)]
                    found[value.recipe_name] = told
    return found


def test_names_and_fields_of_recipes_change_only_knowingly() -> None:
    """A field that is renamed, added or dropped changes the keys of stored results: `ADDED_LATER` keeps them.

    Where a change of keys is meant, write the file anew with LEASTWISE_WRITE_GOLDEN=1.
    """
    golden = Path(__file__).parent.parent / "oracles" / "recipe_fields.json"
    if os.environ.get("LEASTWISE_WRITE_GOLDEN"):
        golden.write_text(json.dumps(all_recipe_types(), indent=1, sort_keys=True) + "\n")
    assert all_recipe_types() == json.loads(golden.read_text())


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), [1], {"a": 1}, torch.zeros(2), object(), PGD])
def test_what_is_not_a_value_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="a recipe"):
        to_plain_json(bad)


def test_a_plan_does_each_thing_once_and_needs_first() -> None:
    first = make_jobs()["pgd-at"]
    second = replace(first, seed=1)
    assert order_jobs([first, second, first]) == (first.model, first, second)


def test_write_atomic_replaces_and_leaves_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two" and list(path.parent.iterdir()) == [path]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_json_has_no_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert not (tmp_path / "x.json").exists()


def test_sha256_separates_its_parts() -> None:
    assert sha256(b"ab", b"c") != sha256(b"a", b"bc") != sha256(b"abc")


def test_the_first_difference_is_named_with_its_path() -> None:
    a = {"ball": {"eps": 0.1, "type": "Linf"}, "steps": 20}
    assert describe_difference(a, a) == ""
    assert describe_difference(a, {"ball": {"eps": 0.2, "type": "Linf"}, "steps": 10}) == "ball.eps 0.1 and 0.2"
    assert describe_difference(a, {"ball": {"eps": 0.1, "type": "Linf"}}) == "steps 20 and null"
    assert describe_difference([1], [2]) == "value [1] and [2]"
