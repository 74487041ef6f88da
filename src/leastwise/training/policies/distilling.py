"""Fair distillation from a robust teacher: Fair-ARD (Yue et al., 2023) and ABSLD (Zhao et al., 2024)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leastwise.attacks.pgd import climb, start_state
from leastwise.core.losses import ce
from leastwise.core.recipe import name_of_type
from leastwise.core.types import Counts, Labels, PerClass
from leastwise.training.base import Epoch, NetworkLook, Objective, Policy, PolicyState, TeacherTemperatures
from leastwise.training.compose import apply_temperatures
from leastwise.training.entries import NamedPolicy

SURVIVED = "steps survived"
LOSSES = ("adversarial cross-entropy", "clean cross-entropy")


@dataclass(frozen=True)
class FairARD(Policy):
    """L = w_y · loss with w_c in proportion to κ_c^-power, one on average, then clamped to [low, high].

    κ_c is the mean number of points of the training attack, of its n before the last, at which an image of class c is
    still right: classes that fall early weigh more. It is measured after each epoch on some training images; the
    released code counts during training. It weighs any method that attacks; its authors weigh ARD and RSLAD.
    """

    recipe_name: ClassVar[str] = "Fair-ARD"
    observes: ClassVar[bool] = True

    power: float = 2.0
    low: float = 5 / 6
    high: float = 5 / 2

    def init(self, n: Counts) -> PolicyState:
        return {"weight": torch.ones(len(n), dtype=torch.float64)}

    def obstacle(self, objective: Objective) -> str:
        if objective.attack is not None:
            return ""
        name = name_of_type(type(objective))
        return f"Fair-ARD counts the steps of an attack, and {name} does not attack: use rslad, ard or trades"

    def weights(self, s: PolicyState) -> PerClass:
        return s["weight"]

    def observe(self, look: NetworkLook, s: PolicyState) -> Mapping[str, Tensor]:
        total = ClassMeans(look.data.k)
        for x, y, noise in look.batches():
            attack = look.objective.attack_on(x)
            front, survived = start_state(attack, look.model, x, y, noise), torch.zeros(len(y), dtype=torch.float64)
            for _ in range(attack.steps):
                front, seen = climb(attack, look.model, front)
                survived += (seen.z.argmax(dim=1) == y).cpu()
            total.add(survived, y)
        return {SURVIVED: total.mean}

    def update(self, s: PolicyState, seen: Epoch) -> PolicyState:
        return {"weight": weights_by_survival(seen.observed[SURVIVED], self.power).clamp(self.low, self.high)}


def weights_by_survival(kappa: PerClass, power: float) -> PerClass:
    """κ^-power, one on average over the classes that have images; the others weigh one."""
    known = ~kappa.isnan()
    raw = (kappa[known] + 1e-5) ** -power
    return torch.ones_like(kappa).masked_scatter(known, raw / raw.mean())


@dataclass(frozen=True)
class ABSLD(Policy):
    """The teacher's logits are divided by temperatures of the classes: hard classes get sharper answers.

    T_c ← clamp(T_c - rate · (L_c - L) / max |L_c - L|, low, high), L_c the mean cross-entropy of class c and L its mean
    over classes: once from attacked images, for the adversarial lesson and its attack, and once from clean ones, for
    the clean lesson. It is measured after each epoch on some training images; the released code adds up during
    training, and divides both lessons by both temperatures, for their logits share memory: a fault that is not copied.
    """

    recipe_name: ClassVar[str] = "ABSLD"
    observes: ClassVar[bool] = True

    rate: float = 0.1
    low: float = 0.5
    high: float = 5.0

    def init(self, n: Counts) -> PolicyState:
        ones = torch.ones(len(n), dtype=torch.float64)
        return {"adversarial": ones, "clean": ones}

    def obstacle(self, objective: Objective) -> str:
        if objective.needs_teacher:
            return ""
        return f"ABSLD tempers what a teacher says, and {name_of_type(type(objective))} has none: use rslad or ard"

    def teacher_temperatures(self, y: Labels, s: PolicyState) -> TeacherTemperatures:
        return TeacherTemperatures(s["adversarial"].to(y.device)[y], s["clean"].to(y.device)[y])

    def observe(self, look: NetworkLook, s: PolicyState) -> Mapping[str, Tensor]:
        totals = ClassMeans(look.data.k), ClassMeans(look.data.k)
        for x, y, noise in look.batches():
            objective = apply_temperatures(look.objective, ((self, s),), y)
            x_adv = objective.attack_on(x).perturb(look.model, x, y, noise)
            with torch.no_grad():
                for total, image in zip(totals, (x_adv, x), strict=True):
                    total.add(ce(look.model(image), y), y)
        return {name: total.mean for name, total in zip(LOSSES, totals, strict=True)}

    def update(self, s: PolicyState, seen: Epoch) -> PolicyState:
        return {
            name: moved_temperatures(s[name], seen.observed[loss], self.rate).clamp(self.low, self.high)
            for name, loss in zip(("adversarial", "clean"), LOSSES, strict=True)
        }


def moved_temperatures(old: PerClass, loss: PerClass, rate: float) -> PerClass:
    """Down where the loss is above the mean over classes, by `rate` where it is farthest from it."""
    gap = torch.where(loss.isnan(), 0, loss - loss.nanmean())
    largest = gap.abs().max()
    return old if largest == 0 else old - rate * gap / largest


class ClassMeans:
    """The mean of a number by class, over batches; NaN for a class without images."""

    def __init__(self, k: int) -> None:
        self.sums, self.n = torch.zeros(k, dtype=torch.float64), torch.zeros(k, dtype=torch.float64)

    def add(self, value: Tensor, y: Labels) -> None:
        value, y = value.detach().double().cpu(), y.cpu()
        self.sums.index_add_(0, y, value)
        self.n.index_add_(0, y, torch.ones_like(value))

    @property
    def mean(self) -> PerClass:
        return self.sums / torch.where(self.n > 0, self.n, torch.nan)


POLICIES = {
    "fair-ard": NamedPolicy(
        FairARD(), "w_y·loss, w_c ~ κ_c⁻², κ the steps survived, within [⅚, 5/2]", "Yue et al. 2023", "a look per epoch"
    ),
    "absld": NamedPolicy(
        ABSLD(), "the teacher at T_y, lower where the class's loss is high", "Zhao et al. 2024", "a look per epoch"
    ),
}
