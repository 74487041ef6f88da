"""What people and programs read: summary.json key by key, and sentences computed from the evidence."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from leastwise.attacks.base import Clean
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.audit.evidence import Evidence
from leastwise.audit.record import Record
from leastwise.core.counts import Tally
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import audit
from leastwise.models.zoo.registry import build
from leastwise.report.class_changes import compare_pair
from leastwise.report.condition_stats import headline_details
from leastwise.report.summary import summarise
from leastwise.report.terminal.view import headline, print_classes, progress, what_changed
from leastwise.statistics.accuracy import compare_paired, wilson_interval
from leastwise.statistics.worst_class import estimate_worst
from leastwise.training.base import Epoch, Seen
from tests.conftest import SHAPE, K


@pytest.fixture
def evidence(unbalanced: Dataset) -> Evidence:
    attack = PGD(Linf(0.05), step=0.0125, steps=3, keep="fooled")
    return audit(build("convnet", SHAPE, K, seed=3), unbalanced, (("clean", Clean()), ("pgd3", attack)), check=False)


def with_correct(evidence: Evidence, condition: str, correct: "np.ndarray") -> Evidence:
    """The same evidence with the predictions of one condition set right or wrong."""
    r: Record = evidence.conditions[condition]
    predicted = np.where(correct, evidence.labels, (evidence.labels + 1) % K).astype(np.int32)
    return replace(evidence, conditions={**evidence.conditions, condition: replace(r, predicted=predicted)})


def test_summary_has_the_documented_keys_and_units(evidence: Evidence) -> None:
    made = summarise(evidence)
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert made["schema"] == 3 and made["classes"] == ["ant", "bee", "cow", "dog", "elk"]
    assert list(made["conditions"]) == ["clean", "pgd3"]
    frame = evidence.frame()
    for row, condition in enumerate(made["conditions"].values()):
        n, correct = np.array(condition["n"]), np.array(condition["correct"])
        assert n.tolist() == [20, 3, 0, 9, 1] and (correct <= n).all()
        assert condition["accuracy"][2] is None and condition["low"][2] is None and condition["high"][2] is None
        present = [0, 1, 3, 4]
        a = np.array([condition["accuracy"][c] for c in present])
        assert a.tolist() == (correct / np.maximum(n, 1))[present].tolist()
        low, high = wilson_interval(correct, n)
        assert [condition["low"][c] for c in present] == low[present].tolist()
        assert [condition["high"][c] for c in present] == high[present].tolist()
        assert condition["overall"] == pytest.approx(correct.sum() / n.sum())
        assert condition["macro"] == pytest.approx(a.mean())
        assert condition["cv"] == pytest.approx((100 * a).var()) and condition["std"] == pytest.approx((100 * a).std())
        assert condition["mcd"] == pytest.approx(100 * (a.max() - a.min()))
        worst = condition["worst"]
        assert worst["index"] == int(frame.worst[row]) and worst["class"] == made["classes"][worst["index"]]
        naive, found = worst["naive"], estimate_worst(correct, n)
        assert naive["method"] == "wilson" and naive["accuracy"] == a.min() == condition["accuracy"][worst["index"]]
        assert (naive["low"], naive["high"]) == (condition["low"][worst["index"]], condition["high"][worst["index"]])
        assert (worst["corrected"], worst["low"], worst["high"]) == (found.corrected, found.low, found.high)


def test_headline_names_the_class_an_attacker_would_pick(evidence: Evidence) -> None:
    correct = np.ones(len(evidence.ids), dtype=bool)
    dogs = np.flatnonzero(evidence.labels == 3)
    correct[dogs[:7]] = False
    shown = headline(with_correct(with_correct(evidence, "clean", correct | True), "pgd3", correct))
    assert shown.startswith("An attacker would pick dog: ") and shown.endswith(" under pgd3, against 78.8 % overall.")
    told = headline_details(with_correct(with_correct(evidence, "clean", correct | True), "pgd3", correct))[0]
    assert told.startswith("Measured were 22.2 % (naive Wilson interval [6.3, 54.7])")


def test_what_changed_is_the_paired_comparison(evidence: Evidence) -> None:
    none, all_ = np.zeros(len(evidence.ids), dtype=bool), np.ones(len(evidence.ids), dtype=bool)
    half = all_.copy()
    half[np.flatnonzero(evidence.labels == 0)[:15]] = False
    a = with_correct(with_correct(evidence, "clean", all_), "pgd3", none)
    b = with_correct(with_correct(evidence, "clean", half), "pgd3", half)
    shown = what_changed(a, b, ("old", "new"), condition="pgd3")
    whole = compare_paired(none, half)
    assert f"On the same 33 images new changes accuracy under pgd3 by {100 * whole.difference:+.1f} points" in shown
    assert f"[{100 * whole.low:.1f}, {100 * whole.high:.1f}] against old" in shown
    assert "clean accuracy by -45.5 points" in shown
    assert "runs from +25.0 points" in shown and "for ant to +100.0 points" in shown and shown.endswith(".")
    others = [replace(b, ids=b.ids + 1), replace(b, labels=b.labels[::-1]), replace(b, recipe='{"data": "x"}')]
    for other in others:
        with pytest.raises(ValueError, match="same images"):
            compare_pair(a, other, "pgd3")


@pytest.mark.parametrize("k", [10, 100])
def test_the_ends_of_what_changed_cover_nothing_where_nothing_changed(k: int) -> None:
    """Intervals of single classes covered 0 at both ends in 72 % (10 classes) and 25 % (100) of such comparisons."""
    rng = np.random.default_rng(0)
    both = []
    for _ in range(60):
        found = []
        for _ in range(k):
            luck, other = rng.random((2, 100))
            a, b = luck < 0.6, np.where(other < 0.2, rng.random(100), luck) < 0.6
            found.append(compare_paired(a, b, 1 - 0.05 / k))
        ends = (min(found, key=lambda one: one.difference), max(found, key=lambda one: one.difference))
        both.append(all(one.low <= 0 <= one.high for one in ends))
    assert np.mean(both) >= 0.93


def printed(evidence: Evidence, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_classes(console, evidence, "a [bold]title[/bold]")
    return console.file.getvalue()


def test_the_table_fits_shows_everything_and_takes_names_literally(evidence: Evidence) -> None:
    named = replace(evidence, names=("[red]ant", "bee", "cow", "a dog with a very long name indeed", "elk"))
    for width in (60, 80, 200):
        text = printed(named, width)
        assert "…" not in text and max(map(len, text.splitlines())) <= max(width, 60)
        assert "[red]ant" in text and "[bold]title[/bold]" in text and "no images" in text
        assert text.count("as measured") == text.count("worst class") == (2 if width == 60 else 1)
    frame = evidence.frame()
    low, high = wilson_interval(frame.correct.numpy(), frame.n.numpy())
    cell = f"{100 * float(frame.accuracy[0, 3]):.1f}  [{100 * low[0, 3]:.1f}, {100 * high[0, 3]:.1f}]"
    assert cell in printed(evidence, 80).replace("   ", "  ")


def test_ties_for_the_last_place_are_said(evidence: Evidence) -> None:
    none = np.zeros(len(evidence.ids), dtype=bool)
    fallen = with_correct(evidence, "pgd3", none)
    assert "4 classes 0.0" in printed(fallen, 80)
    assert headline(fallen).startswith("An attacker would pick any of 4 classes: 0.0 %")


def test_progress_prints_plain_lines_where_there_is_no_terminal(unbalanced: Dataset) -> None:
    console = Console(file=io.StringIO(), width=80)
    with progress(console, "audit", unbalanced.names) as watch:
        audit(build("convnet", SHAPE, K), unbalanced, (("clean", Clean()),), batch_size=8, listen=watch)
    lines = console.file.getvalue().splitlines()
    assert lines[-1].startswith("audit: 100 %, clean ") and "(worst " in lines[-1]


def test_training_progress_shows_every_epoch_class_by_class() -> None:
    console = Console(file=io.StringIO(), width=200)
    clean, robust = (Tally(torch.tensor([4, 2, 0]), torch.tensor(right)) for right in ([4, 1, 0], [2, 0, 0]))
    confusion = torch.tensor([[2, 2, 0], [2, 0, 0], [0, 0, 0]])
    seen = replace(Seen.empty(3), clean=clean, robust=robust, confusion=confusion, loss=torch.tensor([2.0, 1.0, 0.0]))
    only_clean = replace(Seen.empty(3), clean=clean, confusion=torch.tensor([[4, 0, 0], [1, 1, 0], [0, 0, 0]]))
    with progress(console, "train", ("ant", "bee", "cow")) as watch:
        watch(Epoch(3, 12, 0.1, seen, valid=only_clean))
    assert console.file.getvalue() == (
        "train: epoch  3/12 | loss  0.500 | train clean  83.3 attacked  33.3, worst bee 0.0, spread 50.0 | "
        "valid clean  83.3, worst bee 50.0, spread 50.0\n"
    )


def test_progress_draws_a_bar_in_a_terminal(unbalanced: Dataset) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    with progress(console, "audit", unbalanced.names) as watch:
        audit(build("convnet", SHAPE, K), unbalanced, (("clean", Clean()),), batch_size=8, listen=watch)
    assert "100%" in console.file.getvalue() and "━" in console.file.getvalue()
