"""The plan of the house: what stands where, how large it may be, and that tests mirror it."""

from pathlib import Path

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
