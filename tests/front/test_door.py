"""`import leastwise as lw`: every name is there, typed, imported late, and the same object whatever came first."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import leastwise as lw

HOME = Path(lw.__file__).parent
HEAVY = ("torch", "numpy", "scipy", "altair", "pandas", "rich", "jaxtyping", "tyro")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def stub_names() -> dict[str, str]:
    """What the stub says where each name is defined."""
    tree = ast.parse((HOME / "__init__.pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname == alias.name for node in imports for alias in node.names), "only `as` makes a name public"
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def table_names() -> dict[str, str]:
    """What the table says, and the packages that can be called."""
    named = {name: f"leastwise.{module}" for module, names in lw.HOMES.items() for name in names.split()}
    return named | {name: vars(getattr(lw, name))["__home__"] for name in lw.PACKAGES}


def test_importing_the_package_and_listing_its_names_imports_nothing_heavy() -> None:
    code = f"import sys, leastwise; dir(leastwise); print([name for name in {HEAVY} if name in sys.modules])"
    assert run(code) == "[]"


def test_the_stub_and_the_table_say_the_same() -> None:
    assert stub_names() == table_names()


def test_every_name_is_offered_by_completion_and_exists() -> None:
    assert set(dir(lw)) == {*table_names(), "__version__"} and sorted(lw.__all__) == lw.__all__
    for name in lw.__all__:
        assert callable(getattr(lw, name)), name


def test_every_name_says_what_it_is() -> None:
    assert [name for name in lw.__all__ if not inspect.getdoc(getattr(lw, name))] == []


def test_a_misspelt_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(AttributeError, match=r"'leastwise' has no attribute 'modell'; did you mean model\?"):
        _ = lw.modell


ORDERS = ("import leastwise.{0}", "from leastwise import {0}", "lw.{0}", "import leastwise.{0}.{1}")
LIGHT = {"data": "cache", "audit": "packing", "report": "html"}  # modules that are imported quickly


@pytest.mark.parametrize("first", range(len(ORDERS)))
@pytest.mark.parametrize("name", lw.PACKAGES)
def test_a_package_that_is_a_function_is_one_object_whatever_was_imported_first(name: str, first: int) -> None:
    lines = [line.format(name, LIGHT[name]) for line in ORDERS]
    check = f"assert lw.{name} is leastwise.{name} is sys.modules['leastwise.{name}'] and callable(lw.{name})"
    others = "\n".join(f"{line}\n{check}" for line in lines[:first] + lines[first + 1 :])
    run(f"import sys, leastwise, leastwise as lw\n{lines[first]}\n{check}\n{others}")


@pytest.mark.parametrize("name", lw.PACKAGES)
def test_a_package_that_is_a_function_has_its_parameters(name: str) -> None:
    package = getattr(lw, name)
    assert inspect.signature(package) == inspect.signature(package.__wrapped__) and package.__wrapped__.__doc__


def test_a_package_that_is_a_function_can_be_reloaded() -> None:
    run("import importlib, leastwise as lw\nimportlib.reload(lw.data)\nassert callable(lw.data)")
