"""Two phases of one attack: all of it where the sample is everything, and the same answer after an interruption."""

import json
from pathlib import Path

import numpy as np
import pytest

from leastwise.attacks.apgd.apgd import APGD
from leastwise.attacks.autoattack import make_autoattack, make_fast_autoattack, make_opening
from leastwise.attacks.base import Clean
from leastwise.attacks.combine import Cascade
from leastwise.attacks.goals import CE
from leastwise.attacks.hopeless import Hopeless
from leastwise.attacks.naming import Threat
from leastwise.attacks.pgd import PGD
from leastwise.attacks.pma import PMA
from leastwise.attacks.registry import make_attacks
from leastwise.attacks.square import Square
from leastwise.attacks.threats import Linf
from leastwise.audit.auditor import Auditor, Conditions, make_auditor
from leastwise.audit.two_phase import SamplePlan, parse_plan, split_conditions
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.jobs.audit_task import AuditTask
from leastwise.jobs.events import JobEvent, Step
from leastwise.jobs.folder import SECOND, TWO_PHASE
from leastwise.jobs.two_phase import SecondPhase
from leastwise.models.zoo.registry import build
from leastwise.report.gate import refuse_sampled
from leastwise.report.terminal.two_phase import phases_lines
from leastwise.training.loop import fit
from leastwise.training.recipe import Training

BALL = Linf(0.02)
BOTH = Cascade((PGD(BALL, CE(), step=0.01, steps=1, keep="fooled"), Square(BALL, queries=40, keep="fooled")))
CONDITIONS: Conditions = (("clean", Clean()), ("both", BOTH))


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load("fashion-mini/test").take(20)


@pytest.fixture(scope="module")
def whole(data: Dataset) -> Auditor:
    model = build("convnet", data.shape, data.k, seed=0)
    for _ in fit(model, load("fashion-mini/train").take(50), Training(epochs=8)):
        pass
    return make_auditor(model, data, CONDITIONS, batch_size=50)


def phases(whole: Auditor, data: Dataset, folder: Path, plan: SamplePlan) -> tuple[AuditTask, SecondPhase]:
    first, later = split_conditions(CONDITIONS)
    auditor = make_auditor(whole.model, data, first, batch_size=50)
    return AuditTask(auditor, data, folder), SecondPhase(auditor, data, folder, later, plan)


def test_the_whole_sample_is_the_whole_audit(whole: Auditor, data: Dataset, tmp_path: Path) -> None:
    full = AuditTask(whole, data, None).attack()
    task, second = phases(whole, data, tmp_path, SamplePlan("width", 1e-6))
    found, told = second.run(task.attack())
    assert "both" not in found.conditions and set(found.conditions) == {"clean", "first-of-both"}
    survived = np.bincount(full.labels[full.correct("both")], minlength=data.k)
    assert told["survived"] == survived.tolist() and told["drawn"] == told["survivors"]
    assert told["low"] == told["high"] == told["accuracy"] == (survived / 20).tolist()
    assert 0 < sum(told["survived"]) < sum(told["survivors"])  # the second phase did something
    assert told["passes"]["of_a_full_audit"] == 1.0
    assert json.loads((tmp_path / TWO_PHASE).read_text()) == told


def test_a_sample_is_some_survivors_of_each_class_and_said_everywhere(
    whole: Auditor, data: Dataset, tmp_path: Path
) -> None:
    task, second = phases(whole, data, tmp_path, SamplePlan("budget", 0.5))
    first = task.attack()
    found, told = second.run(first)
    survivors = set(first.ids[first.correct("first-of-both")].tolist())
    assert set(told["ids"]) < survivors and len(told["ids"]) == sum(told["drawn"])
    assert told["passes"]["of_a_full_audit"] <= 0.5
    full = AuditTask(whole, data, None).attack()
    accuracy = full.tally("both").accuracy.numpy()
    assert ((np.array(told["low"]) <= accuracy + 1e-9) & (accuracy <= np.array(told["high"]) + 1e-9)).all()
    (said,) = found.cautions()[-1:]
    assert said.startswith(f"both was tried on {sum(told['drawn'])} of {len(survivors)} survivors")
    assert len(phases_lines(told)) == 11
    with pytest.raises(ValueError, match="a gate needs every image"):
        refuse_sampled(tmp_path, {"both"})
    refuse_sampled(tmp_path, {"first-of-both"})


def test_an_interrupted_second_phase_goes_on(whole: Auditor, data: Dataset, tmp_path: Path) -> None:
    plan = SamplePlan("budget", 0.5)
    task, second = phases(whole, data, tmp_path / "whole", plan)
    second.run(task.attack())
    task, second = phases(whole, data, tmp_path / "cut", plan)
    first = task.attack()

    def stop(event: JobEvent) -> None:
        if isinstance(event, Step):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        second.run(first, stop)
    assert not (tmp_path / "cut" / TWO_PHASE).exists() and (tmp_path / "cut" / SECOND).is_dir()
    second.run(first)
    assert (tmp_path / "cut" / TWO_PHASE).read_bytes() == (tmp_path / "whole" / TWO_PHASE).read_bytes()


def test_the_opening_is_a_first_phase_and_autoattack_the_second() -> None:
    threat = Threat(BALL, 0.01)
    first, later = split_conditions(make_attacks("clean,autoattack-opened", threat))
    assert dict(first)["first-of-autoattack-opened"] == make_opening(BALL) and set(dict(first)) == {
        "clean",
        later.first,
    }
    assert later.later == make_autoattack(BALL)
    first, later = split_conditions(make_attacks("autoattack-fast+autoattack", threat))
    assert dict(first) == {later.first: make_fast_autoattack(BALL)} and later.later == make_autoattack(BALL)


def test_what_an_opening_leaves_is_sampled(whole: Auditor, data: Dataset, tmp_path: Path) -> None:
    opening = Cascade((PMA(BALL, 4, "fooled"), APGD(BALL, steps=3, targets=2, keep="fooled", aim="difference")))
    conditions: Conditions = (("opened", Cascade((opening, *BOTH.members))),)
    first, later = split_conditions(conditions)
    auditor = make_auditor(whole.model, data, first, batch_size=50)
    found, told = SecondPhase(auditor, data, tmp_path, later, SamplePlan("width", 1e-6)).run(
        AuditTask(auditor, data, tmp_path).attack()
    )
    full = AuditTask(make_auditor(whole.model, data, conditions, batch_size=50), data, None).attack()
    survived = np.bincount(full.labels[full.correct("opened")], minlength=data.k)
    assert told["survived"] == survived.tolist() and told["low"] == told["high"]
    assert 0 < sum(told["survivors"]) < len(data) and set(found.conditions) == {"first-of-opened"}


def test_a_budget_needs_an_attack_whose_survivors_cost_what_is_known(
    whole: Auditor, data: Dataset, tmp_path: Path
) -> None:
    """Hopeless runs are given up, so survivors cost a part of the most: a plan by that would spend more than asked."""
    square = Square(BALL, queries=40, keep="fooled", hopeless=Hopeless(5, 0.5))
    conditions: Conditions = (("both", Cascade((*BOTH.members[:1], square))),)
    first, later = split_conditions(conditions)
    assert later.later.gives_up and not dict(first)[later.first].gives_up and not BOTH.gives_up
    auditor = make_auditor(whole.model, data, first, batch_size=50)
    found = AuditTask(auditor, data, tmp_path).attack()
    with pytest.raises(ValueError, match="nobody knows what both costs: plan its two phases for a width"):
        SecondPhase(auditor, data, tmp_path, later, SamplePlan("budget", 0.5)).run(found)
    _, told = SecondPhase(auditor, data, tmp_path, later, SamplePlan("width", 0.5)).run(found)
    assert sum(told["drawn"]) < sum(told["survivors"])


def test_mistakes_are_refused() -> None:
    assert parse_plan("budget:40%") == SamplePlan("budget", 0.4) and parse_plan("width:0.1").kind == "width"
    for text in ("40%", "budget:", "cost:0.4"):
        with pytest.raises(ValueError, match="such as budget:40%, but saw"):
            parse_plan(text)
    with pytest.raises(ValueError, match="a share of at most 1, but saw 40"):
        parse_plan("budget:40")
    with pytest.raises(ValueError, match="one attack of several members"):
        split_conditions((("clean", Clean()),))
