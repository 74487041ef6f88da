"""From a declared training to the value that the training loop takes. A field that would do nothing is refused."""

import re
from dataclasses import replace
from typing import Any

from leastwise.attacks.goals import CE
from leastwise.attacks.pgd import PGD
from leastwise.attacks.starts import Uniform
from leastwise.data.augment.registry import find_augmentation
from leastwise.papers.build import NO_ATTACK, ball_of
from leastwise.papers.recipes import Setting, Trained, made
from leastwise.training.averaging import find_averaging
from leastwise.training.base import Objective
from leastwise.training.recipe import SGD, Adam, Training, Validation, find_optimiser
from leastwise.training.registry import apply_settings, find_method, find_policy
from leastwise.training.schedules import Cosine, Cyclic, OneCycle, Piecewise, Schedule, Steps, find_schedule


def training(t: Trained) -> Training:
    """Everything but the network and the images."""
    parts: dict[str, Any] = {"method": objective(t), **{name: find_policy(name) for name in t.fair}}
    if t.average:
        parts[t.average] = find_averaging(t.average)
    parts = apply_settings(parts, tuple(f"{name}={text(value)}" for name, value in t.settings))
    means = find_optimiser(t.optimiser)
    assert isinstance(means, SGD | Adam), "every optimiser has a weight decay"
    found = Training(
        parts["method"],
        t.epochs,
        t.batch_size,
        rates(t),
        replace(means, weight_decay=t.weight_decay),
        t.seed,
        tuple(parts[name] for name in t.fair),
        find_augmentation(t.augment),
        parts[t.average] if t.average else None,
    )
    return replace(found, validation=validation(t, found.needs_validation))


def objective(t: Trained) -> Objective:
    threat = t.threat or NO_ATTACK
    found = find_method(t.method).make(ball_of(threat), threat.step, threat.steps)
    if found.attack is None and t.threat is not None:
        raise ValueError(f"{t.method} does not attack and takes no radius, but saw {t.threat}")
    if found.attack is not None and t.threat is None:
        raise ValueError(f"{t.method} attacks: give it a radius")
    if found.attack is not None and (found.attack.step, found.attack.steps) != (threat.step, threat.steps):
        raise ValueError(
            f"{t.method} takes {found.attack.steps} of {found.attack.step:g} at this radius, but saw {threat}"
        )
    return found


def rates(t: Trained) -> Schedule:
    """The schedule with its peak at the rate of the recipe. A drop behind the last epoch never comes."""
    if t.drops and t.schedule != "steps":
        raise ValueError(f"the schedule {t.schedule} has no drops, but saw {t.drops}: leave them out")
    match find_schedule(t.schedule):
        case Steps(factor=factor) if t.schedule == "steps":
            return Steps(t.rate, tuple(epoch / t.epochs for epoch in t.drops if epoch < t.epochs), factor)
        case Cyclic() | Cosine() | OneCycle() as found:
            return replace(found, peak=t.rate)
        case Piecewise(points):
            factor = t.rate / max(rate for _, rate in points)
            return Piecewise(tuple((share, rate * factor) for share, rate in points))
    raise ValueError(f"the schedule {t.schedule} brings its own rates: choose another")


def validation(t: Trained, needed: bool) -> Validation:
    """The epoch that a paper chose on its test images; or the last, with images split off only where needed."""
    if t.keep == "last":
        return Validation(None if needed else 0, "last")
    by = re.fullmatch(r"best-test:pgd(\d+)", t.keep)
    if by is None:
        raise ValueError(f"the epoch to keep is last or best-test:pgd and steps, but saw {t.keep!r}")
    if t.threat is None or needed:
        raise ValueError(f"{t.method} with {', '.join(t.fair) or 'no policy'} cannot be chosen by {t.keep}: keep last")
    attack = PGD(ball_of(t.threat), CE(), t.threat.step, int(by[1]), Uniform())
    return Validation(0, "average", attack=attack, on_test=True)


def starts_from_source(t: Trained) -> bool:
    """A source either makes the images or is what the training begins with."""
    if t.source is None and made(t.data):
        raise ValueError(f"images changed by {t.data.change} are made with a network: give a source")
    if t.source is not None and not made(t.data) and t.source.arch != t.arch:
        raise ValueError(f"a training of {t.arch} cannot begin with {t.source.arch}")
    return t.source is not None and not made(t.data)


def text(value: Setting) -> str:
    """As people write settings; a float keeps all its digits."""
    return ",".join(map(text, value)) if isinstance(value, tuple) else value if isinstance(value, str) else repr(value)
