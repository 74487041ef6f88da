"""From a paper's declarations to jobs: every name resolved, so that equal work is one job whoever asks for it.

A field that would do nothing is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from torch import nn

from leastwise.attacks.base import Attack, Clean
from leastwise.attacks.corruptions import Corrupted
from leastwise.attacks.goals import CE
from leastwise.attacks.naming import Threat
from leastwise.attacks.pgd import PGD
from leastwise.attacks.registry import make_attack
from leastwise.attacks.surrogate import Surrogate
from leastwise.attacks.threats import L2, Linf, Uniform
from leastwise.attacks.transfer import Transfer
from leastwise.core.recipe import recipe_key
from leastwise.data.augment.registry import find_augmentation
from leastwise.data.classes import Groups
from leastwise.jobs.job import AuditJob, EpochAudit, Job, JobConditions, TrainJob, TransferFrom
from leastwise.papers.recipes import Measured, PaperThreat, Recipe, Setting, Trained
from leastwise.papers.registry import PAPERS, list_recipes
from leastwise.papers.scales import scale
from leastwise.training.averaging import find_averaging
from leastwise.training.base import Objective
from leastwise.training.compose import check_policies
from leastwise.training.recipe import SGD, Adam, AdamW, Training, Validation, find_optimiser, with_own_attack
from leastwise.training.registry import apply_settings, find_method, find_policy, find_published
from leastwise.training.schedules import Constant, Cosine, Cyclic, OneCycle, Piecewise, Schedule, Steps, find_schedule

BALLS: dict[str, type[Linf] | type[L2]] = {"linf": Linf, "l2": L2}
# Superclasses where the data set has none of its own, so that a small scale goes through the same steps.
GROUPS: dict[str, Groups] = {"fashion-mini": (("shoes and bags", (5, 7, 8, 9)), ("clothes", (0, 1, 2, 3, 4, 6)))}
NO_ATTACK = PaperThreat(0.0, 0.0)
TRANSFER = "transfer"  # the condition that is crafted on a surrogate
OWN, ROBUST = "own", "robust"  # the names of what is measured on a training's own images, without and with attack
RECORD_STEPS, RECORD_IMAGES = 10, 100  # of the attack on some of them, and how many of each class that is shown


@cache
def make_job(recipe: Recipe) -> Job:
    """The job of a declaration."""
    return make_training_job(recipe) if isinstance(recipe, Trained) else make_audit_job(recipe)


@cache
def make_training_job(t: Trained) -> TrainJob:
    training = make_training(t)
    source = None if t.source is None else make_training_job(t.source)
    begins = starts_from_source(t)
    on_test = training.validation.on_test and t.data.per_class is not None
    return TrainJob(
        t.data,
        t.arch,
        training,
        start=source if begins and source else "",
        made_with=None if begins else source,
        extra=t.extra,
        test=t.data if on_test else None,
        epoch_audits=list_epoch_audits(t),
    )


def make_audit_job(m: Measured) -> AuditJob:
    if m.surrogate is not None and "transfer" not in m.conditions:
        raise ValueError("a surrogate and the condition transfer need each other: give both or none")
    return AuditJob(
        make_training_job(m.model) if isinstance(m.model, Trained) else m.model,
        m.data,
        make_conditions(m),
        split=m.split,
        features="features" in m.keeps,
        pictures=list_pictures(m) if {"images", "logits"} & set(m.keeps) else (),
        groups=GROUPS.get(m.data.name, ()),
    )


# What is trained.


def make_training(t: Trained) -> Training:
    """Everything but the network and the images."""
    parts: dict[str, Any] = {"method": make_objective(t), **{name: find_policy(name) for name in t.fair}}
    if t.average:
        parts[t.average] = find_averaging(t.average)
    parts = apply_settings(parts, tuple(f"{name}={write_setting(value)}" for name, value in t.settings))
    means = find_optimiser(t.optimiser)
    assert isinstance(means, SGD | Adam | AdamW), "every optimiser has a weight decay"
    found = Training(
        parts["method"],
        t.epochs,
        t.batch_size,
        make_schedule(t),
        replace(means, weight_decay=t.weight_decay),
        t.seed,
        tuple(parts[name] for name in t.fair),
        find_augmentation(t.augment),
        parts[t.average] if t.average else None,
    )
    check_policies(found.objective, found.policies)
    return replace(found, validation=make_validation(t, found.needs_validation))


def make_objective(t: Trained) -> Objective:
    threat = t.threat or NO_ATTACK
    found = find_method(t.method).make(make_ball(threat), threat.step, threat.steps)
    if found.attack is None and t.threat is not None:
        raise ValueError(f"{t.method} does not attack and takes no radius, but saw {t.threat}")
    if found.attack is not None and t.threat is None:
        raise ValueError(f"{t.method} attacks: give it a radius")
    if found.attack is not None and (found.attack.step, found.attack.steps) != (threat.step, threat.steps):
        raise ValueError(
            f"{t.method} takes {found.attack.steps} of {found.attack.step:g} at this radius, but saw {threat}"
        )
    return found


def make_schedule(t: Trained) -> Schedule:
    """The schedule with its peak at the rate of the recipe. A drop behind the last epoch never comes."""
    if t.drops and t.schedule != "steps":
        raise ValueError(f"the schedule {t.schedule} has no drops, but saw {t.drops}: leave them out")
    match find_schedule(t.schedule):
        case Steps(factor=factor) if t.schedule == "steps":
            return Steps(t.rate, tuple(epoch / t.epochs for epoch in t.drops if epoch < t.epochs), factor)
        case Cyclic() | Cosine() | OneCycle() as found:
            return replace(found, peak=t.rate)
        case Constant():
            return Constant(t.rate)
        case Piecewise(points):
            factor = t.rate / max(rate for _, rate in points)
            return Piecewise(tuple((share, rate * factor) for share, rate in points))
    raise ValueError(f"the schedule {t.schedule} brings its own rates: choose another")


def make_validation(t: Trained, needed: bool) -> Validation:
    """The epoch that a paper chose on its test images; or the last, with images split off only where needed."""
    if t.keep == "last":
        found = Validation(None if needed else 0, "last")
        published = find_published(t.fair)
        return with_own_attack(found, make_objective(t), published.validation_steps) if published else found
    by = re.fullmatch(r"best-test:pgd(\d+)", t.keep)
    if by is None:
        raise ValueError(f"the epoch to keep is last or best-test:pgd and steps, but saw {t.keep!r}")
    if t.threat is None or needed:
        raise ValueError(f"{t.method} with {', '.join(t.fair) or 'no policy'} cannot be chosen by {t.keep}: keep last")
    attack = PGD(make_ball(t.threat), CE(), t.threat.step, int(by[1]), Uniform())
    return Validation(0, "average", attack=attack, on_test=True)


def starts_from_source(t: Trained) -> bool:
    """A source either makes the images or is what the training begins with."""
    if t.source is None and t.data.needs_network:
        raise ValueError(f"images changed by {t.data.change} are made with a network: give a source")
    if t.source is not None and not t.data.needs_network and t.source.arch != t.arch:
        raise ValueError(f"a training of {t.arch} cannot begin with {t.source.arch}")
    return t.source is not None and not t.data.needs_network


def write_setting(value: Setting) -> str:
    """A setting as people write it; a float keeps all its digits."""
    if isinstance(value, tuple):
        return ",".join(map(write_setting, value))
    return value if isinstance(value, str) else repr(value)


# What is measured.


def make_ball(radius: PaperThreat) -> Linf | L2:
    if radius.norm not in BALLS:
        raise ValueError(f"there is no norm {radius.norm!r} among {', '.join(BALLS)}")
    return BALLS[radius.norm](radius.eps)


def make_attacks(measured: Measured) -> tuple[tuple[str, Attack], ...]:
    """The conditions of a declaration without transfers."""
    found = [(name, attack) for name, attack in make_conditions(measured) if isinstance(attack, Attack)]
    if len(found) < len(measured.conditions):
        raise ValueError("a transfer attack is not measured after every epoch: leave it out")
    return tuple(found)


def make_conditions(measured: Measured) -> JobConditions:
    """The attacks of a declaration by their names; a transfer is crafted on the network of another training."""
    if measured.keep not in ("last", "fooled"):
        raise ValueError(f"an attack counts by its last step or by any (fooled), but saw {measured.keep!r}")
    radius = measured.threat or NO_ATTACK
    threat = Threat(make_ball(radius), radius.step, "last" if measured.keep == "last" else "fooled", stand_in)
    found: list[tuple[str, Attack | TransferFrom]] = []
    for name in measured.conditions:
        attack = make_condition(name, threat)
        if isinstance(attack, Transfer):
            if measured.surrogate is None:
                raise ValueError("a transfer attack is crafted on another network: give the surrogate")
            assert isinstance(attack.attack, PGD), "a named transfer is crafted by PGD"
            found.append((name, TransferFrom(attack.attack, make_training_job(measured.surrogate))))
        else:
            found.append((name, attack))
    attacked = [name for name, one in found if not isinstance(one, Clean | Corrupted)]
    if bool(attacked) != (measured.threat is not None):
        raise ValueError(f"attacks need a radius and nothing else does, but saw {measured.threat} for {attacked}")
    return tuple(found)


def make_condition(name: str, threat: Threat) -> Attack:
    """A condition by its name; the one called `transfer` is crafted on the surrogate of the declaration."""
    return make_attack(f"{TRANSFER}:standard" if name == TRANSFER else name, threat)


def stand_in(name: str) -> Surrogate:
    """A surrogate that is only named: its network is trained, or counted, elsewhere."""
    return Surrogate(name, "", nn.Identity())


# What exhibits want of trainings and audits, whichever of them asks first.


def list_epoch_audits(t: Trained) -> tuple[EpochAudit, ...]:
    """What any exhibit wants to be measured after every epoch of a training."""
    followed, recorded = find_followers(t.scale)
    found = [EpochAudit(recipe_key(m), m.data, m.split, make_attacks(m)) for m in followed.get(t, ())]
    if t not in recorded:
        return tuple(found)
    found.append(EpochAudit(OWN, None, "train", (("clean", Clean()),)))
    if t.threat is not None:
        ball = make_ball(t.threat)
        attack = PGD(ball, CE(), t.threat.eps / 4, RECORD_STEPS, Uniform())
        some = min(RECORD_IMAGES, t.data.per_class or RECORD_IMAGES)
        shown = replace(t.data, classes=recorded[t], per_class=some)
        found.append(EpochAudit(ROBUST, shown, "train", ((ROBUST, attack),)))
    return tuple(found)


@cache
def find_followers(
    scale_name: str,
) -> tuple[Mapping[Trained, tuple[Measured, ...]], Mapping[Trained, tuple[int, ...]]]:
    """Of all papers: what is measured after every epoch, by training; and the classes whose own record is shown."""
    exhibits = tuple(one for paper in PAPERS.values() for one in paper.exhibits)
    recipes, _ = list_recipes(exhibits, scale_name)
    followed: dict[Trained, tuple[Measured, ...]] = {}
    for recipe in recipes:
        if isinstance(recipe, Measured) and recipe.each_epoch and isinstance(recipe.model, Trained):
            followed[recipe.model] = (*followed.get(recipe.model, ()), recipe)
    shown: dict[Trained, set[int]] = {}
    for exhibit in exhibits:
        for one in (one for parts in exhibit(scale_name).values() for one in parts):
            if isinstance(one, Trained):
                shown.setdefault(one, set()).update(map(scale(scale_name).cls, exhibit.classes))
    return followed, {recipe: tuple(sorted(classes)) for recipe, classes in shown.items()}


@cache
def list_pictures(m: Measured) -> tuple[int, ...]:
    """The single images that exhibits show of an audit, by id."""
    exhibits = [one for paper in PAPERS.values() for one in paper.exhibits if one.images]
    wanted = [one.images for one in exhibits if any(m in parts for parts in one(m.scale).values())]
    return tuple(dict.fromkeys(number for images in wanted for number in images))
