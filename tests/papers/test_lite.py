"""What is recorded under results/lite: it belongs to today's declarations, is whole, and says what the networks say."""

import csv
import io
import re
import shlex
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scripts import lite_tables

from leastwise.audit.evidence import load_evidence
from leastwise.data.loading import load
from leastwise.jobs.store import weights_in
from leastwise.models.classifier import inference
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.papers.campaign import rank_work
from leastwise.papers.recipes import Measured, Recipe, Trained
from leastwise.papers.registry import PAPERS
from leastwise.papers.stored import PaperStore
from tests.forked_commands import python

HERE = Path(__file__).parents[2]
STORE = PaperStore(HERE / "results", "lite")
SMALL = 1_500_000  # bytes of weights
SOME = 100  # images that are looked at again
PATH = re.compile(r'"/[^"]{1,200}"')  # packed arrays may begin with a slash too, and are longer


@cache
def recorded() -> list[Recipe]:
    return [one for one in rank_work("lite") if STORE.folder(one).is_dir()]


def test_every_folder_is_a_finished_result_of_a_recipe_of_today() -> None:
    found = recorded()
    there = {path for kind in ("trainings", "audits") for path in (STORE.root / kind).iterdir()}
    assert {STORE.folder(one) for one in found} == there
    assert all(STORE.has(one) for one in found)
    for one in found:
        if isinstance(one, Measured):
            load_evidence(STORE.folder(one)).verify()


def test_weights_are_small_and_no_record_names_a_folder_of_a_machine() -> None:
    for one in recorded():
        if isinstance(one, Trained) and (weights := weights_in(STORE.folder(one))) is not None:
            assert weights.stat().st_size < SMALL
        for file in STORE.folder(one).glob("*.json*"):
            assert not PATH.search(file.read_text()), file


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_networks_say_what_their_evidence_says(name: str) -> None:
    try:
        data = load(f"{name}/test")
    except (ValueError, FileNotFoundError) as error:
        pytest.skip(f"{name} is not on this machine: {error}")
    x, _, ids = data.batch(np.arange(SOME))
    measured = [m for m in recorded() if isinstance(m, Measured) and m.data.name == name and not m.data.change]
    audits = [m for m in measured if "clean" in m.conditions and weights_in(STORE.folder(m.model)) is not None]
    assert audits

    @cache
    def predict(training: Trained) -> list[int]:
        model = load_checkpoint(weights_in(STORE.folder(training)))
        with inference(model):
            return model(x).argmax(1).tolist()

    for m in audits:
        evidence = load_evidence(STORE.folder(m))
        row = {int(one): place for place, one in enumerate(evidence.ids)}
        both = [(ours, row[int(one)]) for ours, one in zip(predict(m.model), ids, strict=True) if int(one) in row]
        same = [ours == evidence.conditions["clean"].predicted[place] for ours, place in both]
        assert both and sum(same) >= len(same) - 1, STORE.folder(m)


@pytest.mark.parametrize("page", [lite_tables.PAGE, lite_tables.LEARNED], ids=lambda page: page.stem)
def test_the_tables_of_the_docs_have_the_numbers_of_the_pages(page: Path) -> None:
    text = page.read_text()
    assert lite_tables.fill_tables(text) == text


def test_the_command_of_the_docs_draws_all_papers() -> None:
    (line,) = [one for one in lite_tables.PAGE.read_text().splitlines() if one.startswith("leastwise reproduce")]
    assert shlex.split(line)[2:] == [*PAPERS, "--scale", "lite", "--draw"]


@pytest.mark.medium
@pytest.mark.parametrize("paper", PAPERS)
def test_pages_redraw_from_what_is_stored_with_every_cell_of_their_csv_as_it_was(paper: str, tmp_path: Path) -> None:
    """No data and no training; compared as text."""
    code = f"""
from pathlib import Path
from leastwise.papers.page import write_page
from leastwise.papers.registry import select_exhibits
from leastwise.papers.reproduce import collect_results
from leastwise.papers.stored import PaperStore
store = PaperStore(Path({str(HERE / "results")!r}), "lite")
(drawn,) = collect_results(select_exhibits({paper!r}), store, {{}})
write_page(drawn.paper, drawn.exhibits, "lite", results=drawn.results, failed={{}}, folder=Path({str(tmp_path)!r}))
"""
    made = python(code)  # in a process that does not verify every shape: three times as fast
    assert made.returncode == 0, made.stderr
    kept = STORE.root / "pages" / paper
    assert {file.name for file in kept.iterdir()} == {file.name for file in tmp_path.iterdir()}
    files = sorted(tmp_path.glob("*.csv"))
    assert files
    for file in files:
        now, then = (list(csv.reader(io.StringIO(one.read_text()))) for one in (file, kept / file.name))
        assert now == then, file.name
        assert file.read_bytes() == (kept / file.name).read_bytes(), file.name
