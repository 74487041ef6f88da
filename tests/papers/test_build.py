"""Declarations become images and attacks; some exhibits are run whole at smoke scale with the trainings there are."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from leastwise.attacks.combine import Grid
from leastwise.attacks.corruptions import Corrupted
from leastwise.attacks.goals import CE, KL
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import L2, Gaussian, Linf, Uniform
from leastwise.audit.evidence import Evidence
from leastwise.insight.agreement import drop_shares
from leastwise.insight.features import inter_class_similarity, measure_moments, own_plane, project_images
from leastwise.insight.homing import measure_homing
from leastwise.jobs.audit_task import audit
from leastwise.jobs.images import ImageSet, read_images
from leastwise.jobs.job import TransferFrom
from leastwise.models.classifier import Classifier
from leastwise.models.zoo.registry import build
from leastwise.papers.claims.attacks import (
    backgrounds_drive_adversarial_confusion,
    homing_is_pairwise,
    images_come_home,
)
from leastwise.papers.claims.spread import spread_widens
from leastwise.papers.claims.trainings import TrainingPair
from leastwise.papers.jobs import GROUPS, make_attacks, make_conditions
from leastwise.papers.recipes import Absent, Measured, PaperThreat, Trained, trainings
from leastwise.papers.registry import PAPERS, list_recipes, select_exhibits
from leastwise.training.base import Objective
from leastwise.training.loop import fit
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.standard import Standard
from leastwise.training.methods.trades import TRADES
from leastwise.training.recipe import Training

NETWORK = build("convnet", (1, 28, 28), 10, seed=0)


def test_images_of_declarations() -> None:
    few = read_images(ImageSet("fashion-mini", per_class=3), groups=GROUPS["fashion-mini"])
    assert len(few) == 30 and few.k == 10 and sorted(c for _, group in few.groups for c in group) == list(range(10))
    one = read_images(ImageSet("fashion-mini", classes=(3,), per_class=3))
    assert set(one.labels.tolist()) == {3} and one.k == 10 and set(one.ids.tolist()) < set(few.ids.tolist())
    less = read_images(ImageSet("fashion-mini", ("removed", 3), per_class=3))
    assert less.k == 9 and len(less) == 27 and few.names[3] not in less.names
    two = read_images(ImageSet("fashion-mini", ("binary", 3, 5), per_class=3))
    assert two.names == (few.names[3], few.names[5]) and len(two) == 6
    assert read_images(ImageSet("fashion-mini", ("coloured",), per_class=1)).shape == (3, 28, 28)
    white = read_images(ImageSet("fashion-mini", ("white_background",), per_class=1))
    assert (white.batch(np.arange(10)).x == 1).float().mean() > 0.3
    made = read_images(ImageSet("fashion-mini", ("matched",), per_class=1, steps=2), "train", NETWORK)
    assert (made.labels == read_images(ImageSet("fashion-mini", per_class=1), "train").labels).all()
    assert (
        len(read_images(ImageSet("fashion-mini", ("targeted_set", "random"), per_class=1, steps=2), "train", NETWORK))
        == 10
    )
    with pytest.raises(ValueError, match="made with a network"):
        read_images(ImageSet("fashion-mini", ("matched",), per_class=1))
    with pytest.raises(ValueError, match="there is no change"):
        read_images(ImageSet("fashion-mini", ("upside-down",), per_class=1), made_with=NETWORK)


def test_attacks_of_declarations() -> None:
    names = ("clean", "pgd20", "tpgd20-grid", "transfer", "fog:3", "pgd20[1/255]")
    net = Trained(ImageSet("cifar10"), "small")
    recipe = Measured(net, ImageSet("cifar10"), names, PaperThreat(0.031, 0.003, 20), surrogate=net)
    found = dict(make_conditions(recipe))
    assert found["pgd20"] == PGD(Linf(0.031), CE(), 0.003, 20, keep="last")
    assert isinstance(found["tpgd20-grid"], Grid) and isinstance(found["fog:3"], Corrupted)
    assert isinstance(found["transfer"], TransferFrom) and found["transfer"].attack == found["pgd20"]
    own = found["pgd20[1/255]"]
    assert isinstance(own, PGD) and own.ball == Linf(1 / 255) and own.step == pytest.approx(0.003 / 255 / 0.031)
    l2 = Measured(net, ImageSet("cifar10"), ("pgd5",), PaperThreat(0.5, 0.1, norm="l2"))
    ((_, attack),) = make_conditions(l2)
    assert isinstance(attack, PGD) and attack.ball == L2(0.5)
    with pytest.raises(ValueError, match="give the surrogate"):
        make_conditions(replace(recipe, surrogate=None))


def test_every_smoke_recipe_has_images_and_attacks() -> None:
    """A smoke test: that they can be made, not what they are."""
    recipes, _ = list_recipes(tuple(one for paper in PAPERS.values() for one in paper.exhibits), "smoke")
    sets = {net.data for net in trainings(recipes)} | {one.data for one in recipes if isinstance(one, Measured)}
    for images in sets:
        made = images.change[:1] in (("matched",), ("targeted_set",))
        data = read_images(images, "train", NETWORK if made else None)
        assert len(data) > 0
    for recipe in recipes:
        if isinstance(recipe, Measured):
            assert len(make_conditions(recipe)) == len(recipe.conditions)


@pytest.mark.parametrize("scale_name", ["lite", "full"])
def test_every_recipe_has_attacks_and_a_radius_where_it_needs_one(scale_name: str) -> None:
    """Also the parts that a scale cuts a recipe into: what is left without its attack has no radius."""
    recipes, _ = list_recipes(tuple(one for paper in PAPERS.values() for one in paper.exhibits), scale_name)
    for recipe in recipes:
        if isinstance(recipe, Measured):
            assert len(make_conditions(recipe)) == len(recipe.conditions), recipe


# Whole exhibits, as far as their methods exist.


def objective(net: Trained) -> Objective:
    if net.threat is None:
        return Standard()
    ball, step, steps = Linf(net.threat.eps), net.threat.step, net.threat.steps
    makers: dict[str, Callable[[], Objective]] = {
        "pgd-at": lambda: PGDAT(PGD(ball, CE(), step, steps, Uniform())),
        "trades": lambda: TRADES(PGD(ball, KL(), step, steps, Gaussian(0.001)), net.options["beta"]),  # type: ignore[arg-type]
    }
    return makers[net.method]()


@cache
def trained(net: Trained) -> Classifier:
    data = read_images(net.data, "train")
    model = build(net.arch, data.shape, data.k, seed=net.seed)
    for _ in fit(model, data, Training(objective(net), epochs=net.epochs, batch_size=net.batch_size)):
        pass
    return model.eval()


def run(exhibit_id: str) -> dict[str, tuple[Classifier, Evidence]]:
    (exhibit,) = select_exhibits(exhibit_id)
    found = {}
    for role, parts in exhibit("smoke").items():
        (recipe,) = parts
        assert isinstance(recipe, Measured) and not isinstance(recipe, Absent) and isinstance(recipe.model, Trained)
        model = trained(recipe.model)
        found[role] = model, audit(model, read_images(recipe.data), make_attacks(recipe))
    return found


@pytest.mark.slow
def test_smoke_homing_from_eleven_trainings() -> None:
    found = run("tian2021/fig4b")
    without = {c: found[f"without {c}"][1] for c in range(10)}
    full = found["full"][1]
    result = measure_homing(full, without, "pgd2")
    assert (result.homed <= result.misclassified).all() and not result.homed.diagonal().any()
    for part in (images_come_home, homing_is_pairwise):
        assert len(part(full, without, "pgd2")) == 1


@pytest.mark.slow
def test_smoke_similarity_of_three_trainings() -> None:
    (exhibit,) = select_exhibits("tradeoff2022/fig2")
    for role, (model, evidence) in run(exhibit.id).items():
        data = read_images(ImageSet("fashion-mini", per_class=10))
        assert inter_class_similarity(measure_moments(model, data).means).shape == (10,), role
        assert evidence.k == 10


@pytest.mark.slow
def test_smoke_coloured_digits_and_shares_of_the_drop() -> None:
    found = run("tian2021/fig5")
    evidence = found["adversarial"][1]
    assert [len(classes) for _, classes in evidence.groups] == [5, 5]
    assert len(backgrounds_drive_adversarial_confusion(evidence, "clean", "pgd2")) == 1
    pair = run("tradeoff2022/fig1c")
    st, at = (pair[name][1] for name in ("ST", "PGD-AT"))
    shares = drop_shares(*(one.frame().accuracy[0].numpy() for one in (st, at)))
    assert np.isnan(shares).all() or shares.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="1 and 1 of them tell nothing"):
        spread_widens(TrainingPair(((st, "clean"),), ((at, "pgd2"),), ((), ())))


@pytest.mark.slow
def test_smoke_features_of_a_network_with_two() -> None:
    net = trained(select_exhibits("tradeoff2022/fig4")[0]("smoke")["ST"][0].model)  # type: ignore[union-attr, arg-type]
    points, labels = project_images(net, read_images(ImageSet("fashion-mini", per_class=5)), own_plane())
    assert points.shape == (50, 2) and len(labels) == 50
