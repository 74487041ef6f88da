"""What `--plan` expects, beside what stored results took: passes that their evidence counted, and seconds."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median

import pytest
from scripts.plan_check import compare_estimates, kind_of, read_seconds

from leastwise.audit.evidence import load_evidence
from leastwise.jobs.images import ImageSet
from leastwise.papers.cost import audit_passes, training_passes
from leastwise.papers.estimate import (
    EXPECTED,
    OVERHEAD,
    Speed,
    count_passes,
    expect_passes,
    is_robust,
    most_work,
    time_pass,
)
from leastwise.papers.recipes import Measured, PaperThreat, Recipe, Trained
from leastwise.papers.stored import PaperStore

STORE = PaperStore(Path(__file__).parents[2] / "results", "lite")
KINDS = {"training", "pgd", "tpgd", "autoattack", "nattack", "cwinf"}


@cache
def seconds() -> dict[Recipe, float]:
    return read_seconds(STORE)


def test_the_passes_that_are_expected_are_those_that_evidence_counted() -> None:
    """Without the work besides passes; no clock in it, so it holds on any machine."""
    ratios: dict[str, list[float]] = {}
    for recipe in seconds():
        if not isinstance(recipe, Measured):
            continue
        evidence = load_evidence(STORE.folder(recipe))
        counted = sum(evidence.conditions[name].forwards for name in recipe.conditions)
        counted += 2 * sum(evidence.conditions[name].backwards for name in recipe.conditions)
        share = next((one for begin, one in EXPECTED.items() if recipe.conditions[0].startswith(begin)), None)
        expected = expect_passes(recipe) / (share.work if share else 1.0)
        assert counted <= count_passes(recipe), recipe  # at most is at most
        ratios.setdefault(kind_of(recipe), []).append(expected / counted)
    assert set(ratios) >= KINDS - {"training"}
    for kind, found in ratios.items():
        assert 0.75 < median(found) < 1.33, (kind, found)


@dataclass(frozen=True)
class RecordedSpeed(Speed):
    """One time for every pass, in the place of what `--plan` would measure now."""

    each: float = 0.0

    def of_pass(self, recipe: Recipe) -> float:
        return self.each


def test_seconds_are_right_within_a_factor_of_two_for_every_kind_of_work() -> None:
    """A pass takes what it took in stored audits under PGD: another machine is faster or slower in all of them."""
    small = {
        one: took for one, took in seconds().items() if (one if isinstance(one, Trained) else one.model).arch == "small"
    }
    each = median(took / expect_passes(one) for one, took in small.items() if kind_of(one) == "pgd")
    ratios = compare_estimates(small, RecordedSpeed(each=each))
    assert set(ratios) >= KINDS
    for kind in KINDS:
        assert 0.5 < median(ratios[kind]) < 2, (kind, median(ratios[kind]))


def test_expectations_by_hand() -> None:
    images = ImageSet("cifar10")
    plain = Trained(images, "small", "standard", epochs=2)
    robust = Trained(images, "small", "pgd-at", threat=PaperThreat(8 / 255, 2 / 255, 5), epochs=2)
    heavy = Measured(robust, ImageSet("cifar10", per_class=10), ("autoattack",), robust.threat)
    most = audit_passes(heavy)
    assert is_robust(heavy) and most == count_passes(heavy) == 100 * (6924 + 2 * 1900)
    assert expect_passes(heavy) == pytest.approx(0.33 * 1.5 * most) and most_work(heavy) == pytest.approx(1.5 * most)
    assert expect_passes(replace(heavy, model=plain)) == pytest.approx(0.03 * 1.5 * most)
    light = Measured(robust, images, ("clean", "pgd20"), robust.threat)
    assert expect_passes(light) == most_work(light) == count_passes(light) == 10_000 * 63
    speed = RecordedSpeed(each=0.001)
    assert speed.seconds(heavy) < speed.most_seconds(heavy) and speed.seconds(light) == speed.most_seconds(light)
    white = replace(light, data=ImageSet("cifar10", ("white_background",), classes=(3,)))
    assert speed.seconds(white) == pytest.approx(OVERHEAD + 0.14 * 1000 + 0.001 * 1000 * 63)
    alone = replace(robust, method="single-class-at")  # a tenth of the images is attacked: 1.5 of 15 passes
    assert training_passes(alone) == 50_000 * 2 * (2 + 3) and training_passes(robust) == 50_000 * 2 * (15 + 3)


def test_a_busy_machine_does_not_make_passes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock runs ten times as fast as this process works: what it spent itself counts."""
    spent = iter(0.01 * n for n in range(1000))
    monkeypatch.setattr("leastwise.papers.estimate.time.process_time", lambda: next(spent))
    monkeypatch.setattr(
        "leastwise.papers.estimate.time.perf_counter", lambda ticks=iter(range(1000)): float(next(ticks))
    )
    assert time_pass("convnet", (1, 8, 8), 3, batch=4, device="cpu") == pytest.approx(0.01 / 4 / 3)
