"""Training methods by the names that people know, as steps of their own loops: `lw.TRADES(eps=8/255, beta=6, …)`.

What a method is, and what its settings are, stands in its own file (`leastwise.training.methods`) and in the registry.
"""

from dataclasses import fields, replace
from inspect import Parameter, Signature
from typing import Any

from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import L1, L2, Ball, Linf
from leastwise.core.text import did_you_mean
from leastwise.front.step import MethodStep
from leastwise.training.base import Objective
from leastwise.training.registry import find_method, find_named

BALLS: dict[str, type[Linf | L2 | L1]] = {"linf": Linf, "l2": L2, "l1": L1}
EPS, STEPS = 8 / 255, 10
OF_ATTACK = ("start", "goal", "momentum")  # what may be set of the training attack besides its ball and steps
RENAMED = {"classes": "attacked_classes"}  # settings of a method that would be taken for those of the step
OF_STEP = tuple(name for name in Signature.from_callable(MethodStep).parameters if name != "objective")
STEP_PARAMETERS = [one for name, one in Signature.from_callable(MethodStep).parameters.items() if name != "objective"]


class StepMaker:
    """A training method by name: called with its settings, it makes a step for your own loop.

    `eps`, `steps`, `step` (its size, eps/4 unless given) and `norm` are of the training attack, as are `start` ("zero",
    "uniform", "gaussian", or a value), `goal` ("ce", "kl", "margin", or a value) and `momentum`; `attack=` gives all of
    it. The other settings are the method's own, or those of `MethodStep`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        row = find_method(name)
        paper = f" ({row.paper})" if row.paper else ""
        self.__doc__ = f"{row.equation}{paper}, as a step of your own loop: `MethodStep`.\n\n" + str(StepMaker.__doc__)
        self.__signature__ = Signature([*self.parameters(), *STEP_PARAMETERS], return_annotation=MethodStep)

    def __repr__(self) -> str:
        return f"<training method {self.name}: {find_method(self.name).equation}>"

    def __call__(self, **settings: Any) -> MethodStep:
        known = [*self.__signature__.parameters]
        unknown = next((name for name in settings if name not in known), None)
        if unknown is not None:
            raise ValueError(f"{self.name} has no setting {unknown!r}: {did_you_mean(unknown, known)}")
        if "classes" not in settings:
            raise ValueError(f"{self.name} needs classes=…: their number, their names, or the training data")
        if find_method(self.name).make(Linf(EPS), EPS / 4, STEPS).needs_teacher and settings.get("teacher") is None:
            raise ValueError(f"{self.name} learns from a robust network: give teacher=net")
        own = {name: value for name, value in settings.items() if name not in OF_STEP}
        return MethodStep(self.objective(**own), **{name: settings[name] for name in settings if name in OF_STEP})

    def parameters(self) -> list[Parameter]:
        """The settings of the training attack and of the method, with their defaults."""
        made = find_method(self.name).make(Linf(EPS), EPS / 4, STEPS)
        attack: dict[str, Any] = {}
        if isinstance(made.attack, PGD):
            attack = {"eps": EPS, "steps": made.attack.steps, "step": None, "norm": "linf"}
            attack |= {name: getattr(made.attack, name) for name in OF_ATTACK} | {"attack": None}
        settable = [f.name for f in fields(made) if f.name != "attack" and f.metadata.get("recipe", True)]  # type: ignore[arg-type]
        held = {name: getattr(made, name) for name in settable}
        own = {RENAMED.get(name, name): value for name, value in held.items()}
        return [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in (attack | own).items()]

    def objective(
        self,
        *,
        eps: float = EPS,
        steps: int | None = None,
        step: float | None = None,
        norm: str = "linf",
        attack: PGD | None = None,
        **settings: Any,
    ) -> Objective:
        """The method with its settings."""
        made = find_method(self.name).make(make_ball(norm, eps), eps / 4 if step is None else step, steps or STEPS)
        given = {name: settings.pop(name) for name in OF_ATTACK if name in settings}
        of_attack = {n: find_named(n, one, n) if isinstance(one, str) else one for n, one in given.items()}
        if isinstance(made.attack, PGD):
            changed = replace(made.attack, **of_attack) if attack is None else attack
            changed = changed if step is None or attack is not None else replace(changed, step=step)
            settings["attack"] = changed
        names = {shown: name for name, shown in RENAMED.items()}
        own = {names.get(name, name): as_setting(value) for name, value in settings.items()}
        numbers = {name for name in own if type(getattr(made, name)) is float}
        own |= {name: float(own[name]) for name in numbers if type(own[name]) is int}
        return replace(made, **own)  # type: ignore[type-var]


def as_setting(value: Any) -> Any:
    """A value as settings have it: lists are tuples there, so that they cannot change."""
    return tuple(map(as_setting, value)) if isinstance(value, list) else value


def make_ball(norm: str, eps: float) -> Ball:
    """The ball of a norm by name."""
    if norm not in BALLS:
        raise ValueError(f"there is no norm {norm!r}: {did_you_mean(norm, BALLS)}")
    return BALLS[norm](eps)


STANDARD = StepMaker("standard")
LABEL_SMOOTHING = StepMaker("label-smoothing")
MAX_ENTROPY = StepMaker("max-entropy")
FGSM_RS = StepMaker("fgsm-rs")
PGD_AT = StepMaker("pgd-at")
FAT = StepMaker("fat")
TRADES = StepMaker("trades")
MART = StepMaker("mart")
PGD_HE = StepMaker("pgd-he")
TRADES_HE = StepMaker("trades-he")
ME_AT = StepMaker("me-at")
ME_TRADES = StepMaker("me-trades")
AVMIXUP = StepMaker("avmixup")
BAT = StepMaker("bat")
SINGLE_CLASS_AT = StepMaker("single-class-at")
TARGETED_AT = StepMaker("targeted-at")
RSLAD = StepMaker("rslad")
ARD = StepMaker("ard")
