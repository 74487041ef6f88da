"""The plan of the house: what stands where, how large it may be, and that tests mirror it."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "leastwise"
BESIDE = {"oracles", "faults", "hostile"}  # tests of several packages: closed forms and peers, kills, bad input


def folders(root: Path) -> set[Path]:
    """Every folder below that holds Python."""
    return {file.parent.relative_to(root) for file in root.rglob("*.py")}


def test_every_folder_of_tests_is_named_after_a_package() -> None:
    ours = {folder for folder in folders(ROOT / "tests") if not BESIDE & set(folder.parts)}
    assert ours - folders(PACKAGE) == set()


def test_every_package_has_tests() -> None:
    packages = {folder for folder in folders(PACKAGE) if len(folder.parts) == 1}
    assert packages - folders(ROOT / "tests") == set()


def test_helpers_are_imported_from_modules_that_are_not_tests() -> None:
    """A helper that lies in a file of tests is found by nobody who looks for it."""
    importers = [
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / "tests").rglob("*.py")
        for line in file.read_text().splitlines()
        if line.startswith("from tests.") and ".test_" in line
    ]
    assert importers == []


# What may still be over a limit while files are being split and types renamed: these lists only get shorter.
LONG_FILES: set[str] = set()
LONG_FUNCTIONS: set[str] = set()
TWICE_DEFINED: set[str] = set()
ASKS_FOR_ATTRIBUTES: set[str] = set()
BATCHES = (  # what attacks and objectives are given: always these, in this order
    ("x", "y", "noise"),
    ("model", "x", "y"),
    ("model", "x", "y", "crafted"),
    ("model", "x", "y", "x_adv"),
    ("model", "x", "z", "y"),
)
MANY_POSITIONS = {
    # Called with a row of a table: (x, noise, *settings of a severity), (view, *case of a rule).
    *(f"data/corrupt/blur.py:{name}" for name in ("glass_blur", "defocus_blur", "motion_blur", "zoom_blur")),
    *(f"data/corrupt/digital.py:{name}" for name in ("saturate", "elastic_transform")),
    *(f"data/corrupt/weather.py:{name}" for name in ("fog", "frost", "snow", "spatter")),
    "papers/judge.py:judge_widening",
    *(f"papers/tradeoff2022/verdicts.py:{name}" for name in ("judge_average", "judge_lift", "judge_similarity")),
    # Called with an estimate: (what, *(value, low, high)).
    "papers/claims/base.py:above",
    "papers/claims/base.py:below",
    # The four entries of a matrix, as they are read.
    "data/augment/pillow_ops.py:make_matrices",
    # Called by a scheduler, which passes on positions.
    "jobs/dask/worker.py:train",
}


@cache
def modules() -> dict[str, ast.Module]:
    """Every file of the package, parsed, by its path."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text()) for file in files}


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def assigned(tree: ast.Module) -> dict[str, ast.expr]:
    """What names at the top of a module are set to."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            found |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found[node.target.id] = node.value
    return found


def type_names(tree: ast.Module) -> set[str]:
    """Classes at any depth, and aliases such as `Progress = Callable[…]`."""
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return classes | {name for name in assigned(tree) if name[0].isupper() and name != name.upper()}


def test_at_most_fourteen_names_stand_at_the_top() -> None:
    names = {entry.name for entry in PACKAGE.iterdir() if not entry.name.startswith("__")} - {"py.typed"}
    assert len(names) <= 14, sorted(names)


def test_files_have_at_most_350_lines() -> None:
    long = {name for name in modules() if len((PACKAGE / name).read_text().splitlines()) > 350}
    assert long - LONG_FILES == set()


def test_functions_have_at_most_60_lines() -> None:
    long = {
        f"{name}:{one.name}"
        for name, tree in modules().items()
        for one in functions(tree)
        if (one.end_lineno or 0) - one.lineno >= 60
    }
    assert long - LONG_FUNCTIONS == set()


def positions(one: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, ...]:
    """The parameters of a function that may be given by position."""
    names = tuple(each.arg for each in (*one.args.posonlyargs, *one.args.args))
    return names[1:] if names[:1] in (("self",), ("cls",)) else names


def test_functions_take_at_most_three_parameters_by_position() -> None:
    """Exempt are batches at the end, dunder methods, `forward` of a network, and functions with `*args`."""
    many = {
        f"{name}:{one.name}"
        for name, tree in modules().items()
        for one in functions(tree)
        if len(given := positions(one)) > 3
        and not one.args.vararg
        and not (one.name == "forward" or one.name.startswith("__"))
        and not any(given[-len(batch) :] == batch for batch in BATCHES)
    }
    assert many == MANY_POSITIONS


def test_no_type_is_defined_twice() -> None:
    homes: dict[str, list[str]] = {}
    for name, tree in modules().items():
        for one in type_names(tree):
            homes.setdefault(one, []).append(name)
    twice = {one: places for one, places in homes.items() if len(places) > 1 and one not in TWICE_DEFINED}
    assert twice == {}


def test_behaviour_is_not_looked_up_by_name() -> None:
    """A misspelt hook must be an error: attacks and trainings have abstract classes for that."""
    asking = {
        name
        for name, tree in modules().items()
        if name.startswith(("attacks/", "training/"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "hasattr"
    }
    assert asking - ASKS_FOR_ATTRIBUTES == set()


def module_name(path: str) -> str:
    return ".".join(("leastwise", *Path(path).with_suffix("").parts)).removesuffix(".__init__")


def imported(tree: ast.Module, known: set[str]) -> set[str]:
    """Modules that a module imports anywhere: at its top, inside functions, for types."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return found & known


def test_modules_import_each_other_in_one_direction() -> None:
    """Lazy imports included, which a linter that looks at the top of files does not see."""
    known = {module_name(path) for path in modules()}
    graph = {module_name(path): imported(tree, known) - {module_name(path)} for path, tree in modules().items()}
    TopologicalSorter(graph).prepare()


# The front door offers more names, and is held by tests/front/test_door.py.
PACKAGES = [name for name in modules() if name.endswith("/__init__.py")]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_says_what_lives_in_it_and_what_it_offers(name: str) -> None:
    tree = modules()[name]
    assert ast.get_docstring(tree)
    found = assigned(tree)
    offered = ast.literal_eval(found["__all__"]) if "__all__" in found else []
    assert len(offered) == len(set(offered)) <= 30
    inside = {entry.stem for entry in (PACKAGE / name).parent.iterdir() if not entry.name.startswith("_")}
    assert set(offered) & inside == set()
    if isinstance(lazy := found.get("__getattr__"), ast.Call):
        homes = ast.literal_eval(lazy.args[1])
        for_types = {alias.asname or alias.name: node for node in type_imports(tree) for alias in node.names}
        package = module_name(name)
        at = {one: f"{package}.{module}" for module, names in homes.items() for one in names.split()}
        assert set(at) == {one for one in offered if one in for_types}
        assert {one: node.module for one, node in for_types.items()} == at


def type_imports(tree: ast.Module) -> list[ast.ImportFrom]:
    """Imports under `if TYPE_CHECKING:`."""
    guards = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return [node for guard in guards for node in guard.body if isinstance(node, ast.ImportFrom)]
