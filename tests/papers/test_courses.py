"""Declared trainings as values of the training loop: nothing is lost on the way."""

from dataclasses import fields, replace
from itertools import combinations

import pytest

from leastwise.attacks.goals import CE, KL
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import L2, Gaussian, Linf, Uniform
from leastwise.jobs.images import ImageSet
from leastwise.papers.ahn.exhibits import METHODS
from leastwise.papers.benz2021 import exhibits as benz2021
from leastwise.papers.benz2021.exhibits import important_class_training
from leastwise.papers.jobs import make_training, starts_from_source
from leastwise.papers.recipes import PaperThreat, Trained, trainings
from leastwise.papers.registry import PAPERS, list_recipes
from leastwise.papers.scales import SCALES
from leastwise.papers.tian2021.exhibits import DEFENCES, network
from leastwise.papers.tradeoff2022.exhibits import TRADES_LS, single
from leastwise.training.averaging import FAWA
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.single_class import SingleClassAT
from leastwise.training.methods.trades import TRADES
from leastwise.training.policies.cfa import CFA
from leastwise.training.policies.weighting import FairWeighting, ImportantClass
from leastwise.training.recipe import SGD, Adam, Validation
from leastwise.training.schedules import Constant, Cyclic, OneCycle, Piecewise, Steps

EXHIBITS = tuple(exhibit for paper in PAPERS.values() for exhibit in paper.exhibits)
# What a task takes besides the value of the training loop. The scale is a name in the key: what it changes is in the
# other fields.
BESIDE = ("data", "arch", "extra", "source", "scale")
BASE = Trained(
    ImageSet("cifar10"), "resnet18", "trades", (("beta", 6.0),), PaperThreat(0.031, 0.007), epochs=100, drops=(75, 90)
)


def all_trainings(scale: str) -> tuple[Trained, ...]:
    return trainings(list_recipes(EXHIBITS, scale)[0])


@pytest.mark.parametrize("scale", SCALES)
def test_recipes_that_differ_make_trainings_that_differ(scale: str) -> None:
    nets = all_trainings(scale)
    made = {net: make_training(net) for net in nets}
    assert len(made) > 130 and sum(starts_from_source(net) for net in nets) == 1
    for a, b in combinations(nets, 2):
        if all(getattr(a, name) == getattr(b, name) for name in BESIDE):
            assert made[a] != made[b], (a, b)


@pytest.mark.parametrize(
    "changed",
    [
        {"method": "mart"},
        {"settings": (("beta", 5.0),)},
        {"settings": (("beta", (6.0,) * 9 + (0.5,)),)},
        {"threat": PaperThreat(0.03, 0.007)},
        {"threat": PaperThreat(0.031, 0.006)},
        {"threat": PaperThreat(0.031, 0.007, 9)},
        {"threat": PaperThreat(0.031, 0.007, norm="l2")},
        {"fair": ("cfa",)},
        {"average": "ema"},
        {"epochs": 110},
        {"batch_size": 64},
        {"optimiser": "nesterov"},
        {"rate": 0.05},
        {"schedule": "cosine", "drops": ()},
        {"drops": (75,)},
        {"weight_decay": 5e-4},
        {"augment": "none"},
        {"keep": "best-test:pgd20"},
        {"seed": 1},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_every_field_takes_effect(changed: dict) -> None:
    assert make_training(replace(BASE, **changed)) != make_training(BASE)


def test_every_field_was_tried() -> None:
    tried = {next(iter(one)) for one in test_every_field_takes_effect.pytestmark[0].args[1]}  # type: ignore[attr-defined]
    assert tried | set(BESIDE) == {field.name for field in fields(Trained)}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"method": "standard", "settings": ()}, "takes no radius"),
        ({"threat": None}, "give it a radius"),
        ({"method": "fgsm-rs", "settings": ()}, "takes 1 of 0.03875"),
        ({"schedule": "cosine"}, "has no drops"),
        ({"schedule": "mart", "drops": ()}, "brings its own rates"),
        ({"fair": ("frl",), "method": "pgd-at", "settings": ()}, "FRL weighs cross-entropy and divergence apart"),
        ({"keep": "best"}, "best-test:pgd"),
        ({"keep": "best-test:pgd20", "average": "fawa"}, "cannot be chosen"),
        ({"settings": (("gamma", 1.0),)}, "has no setting"),
        ({"settings": (("cfa.lambda1", 1.0),)}, "has no setting"),
        ({"fair": ("dcfa",)}, "did you mean"),
        ({"threat": PaperThreat(0.031, 0.007, norm="l7")}, "there is no norm"),
    ],
    ids=str,
)
def test_what_would_do_nothing_is_refused(changed: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_training(replace(BASE, **changed))


def test_a_source_must_be_of_use() -> None:
    with pytest.raises(ValueError, match="give a source"):
        starts_from_source(replace(BASE, data=ImageSet("cifar10", ("matched",))))
    with pytest.raises(ValueError, match="cannot begin with"):
        starts_from_source(replace(BASE, source=replace(BASE, arch="resnet34")))
    assert starts_from_source(replace(BASE, source=BASE))
    assert not starts_from_source(replace(BASE, data=ImageSet("cifar10", ("matched",)), source=BASE))


def test_trainings_of_the_papers_by_hand() -> None:
    smooth = make_training(TRADES_LS)
    attack = PGD(Linf(8 / 256), KL(), 0.008, 10, Gaussian(0.001))
    assert smooth.objective == TRADES(attack, 6.0, smoothing=0.1, convention="all")
    chosen = PGD(Linf(8 / 256), CE(), 0.008, 20, Uniform())
    assert smooth.validation == Validation(0, "average", attack=chosen, on_test=True)
    assert smooth.optimiser == SGD(0.9, False, 2e-4) and smooth.batch_size == 64
    assert make_training(single(3)).objective == SingleClassAT(PGD(Linf(8 / 256), CE(), 0.008, 10), (3,))
    trades = make_training(DEFENCES["TRADES"])
    assert trades.schedule == Steps(0.1, (74 / 76,))  # the drop at 90 never comes
    fast = make_training(network("imagenet", "pgd-at"))
    assert isinstance(fast.objective, PGDAT) and fast.objective.attack.step == 1.25 * 0.007
    assert isinstance(fast.schedule, Piecewise) and max(rate for _, rate in fast.schedule.points) == 0.4
    fair = make_training(benz2021.fair_training("pgd-at"))
    assert fair.policies == (FairWeighting(0.05, 0.05),)
    assert make_training(important_class_training("resnet56", "standard", 20.0)).policies == (ImportantClass(3, 20.0),)
    (adam,) = [net for net in all_trainings("full") if net.optimiser == "adam"]
    assert make_training(adam).optimiser == Adam(weight_decay=1e-4) and make_training(adam).schedule.rate(0.0) == 1e-3
    (cyclic,) = [net for net in all_trainings("full") if net.schedule == "cyclic"]
    assert make_training(cyclic).schedule == Cyclic(0.1)
    cfa = make_training(METHODS["TRADES + CFA"])
    assert cfa.policies == (CFA(),) and cfa.averaging == FAWA() and cfa.validation == Validation(None, "last")
    l2 = make_training(replace(BASE, threat=PaperThreat(0.5, 0.1, norm="l2"))).objective
    assert l2.attack is not None and l2.attack.ball == L2(0.5)
    assert {type(make_training(net).schedule) for net in all_trainings("lite")} == {OneCycle, Cyclic, Constant}
