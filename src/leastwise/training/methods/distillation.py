"""A robust student from a robust teacher: RSLAD (Zi et al., ICCV 2021) and ARD (Goldblum et al., AAAI 2020)."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import nn

from leastwise.attacks.goals import AwayFrom
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Gaussian
from leastwise.core.losses import ce, kl
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Logits
from leastwise.training.base import LogitChange, Objective, TeacherTemperatures, Terms, unchanged
from leastwise.training.entries import Method, ce_attack, gaussian_ce_attack

RUNTIME = {"recipe": False}  # what a training puts in before its first step; the recipe names the teacher elsewhere
Guide = Literal["teacher", "label"]


class Lesson(NamedTuple):
    """What a student is taught from a batch: attacked images, and what the teacher says to the clean ones."""

    x_adv: Images
    taught: Logits


@dataclass(frozen=True)
class Distillation(Objective):
    """L = (1 - share) · KL(T(x) || S(x)) + share · t² · KL(T(x)/t || S(x')/t), x' climbing KL(T(x) || S(x')).

    That is RSLAD, with t = 1. ARD has CE(S(x), y) on the clean side and x' from cross-entropy (`guide="label"`), t = 30
    and share 1. The teacher is asked about clean images only, and stays as it is. Divergences are summed over classes;
    the released code of RSLAD takes their mean, which makes its loss smaller by the number of classes.
    """

    recipe_name: ClassVar[str] = "Distillation"
    can_aim: ClassVar[bool] = False
    needs_teacher: ClassVar[bool] = True

    attack: PGD = PGD(start=Gaussian(0.001))
    share: float = 5 / 6
    temperature: float = 1.0
    guide: Guide = "teacher"
    teacher: nn.Module | None = field(default=None, compare=False, repr=False, metadata=RUNTIME)
    temperatures: TeacherTemperatures | None = field(default=None, compare=False, repr=False, metadata=RUNTIME)

    def taught_by(self, teacher: nn.Module) -> "Distillation":
        return replace(self, teacher=teacher.eval().requires_grad_(False))

    def at_temperatures(self, temperatures: TeacherTemperatures) -> "Distillation":
        return replace(self, temperatures=temperatures)

    def check_network(self, model: nn.Module) -> None:
        if self.teacher is None:
            raise ValueError("this method learns from a robust teacher: give its checkpoint with --teacher FILE")

    def _ask_teacher(self, x: Images) -> Logits:
        assert self.teacher is not None, "check_network has looked"
        with torch.no_grad():
            return self.teacher(x)

    def _lessons(self, taught: Logits) -> tuple[Logits, Logits]:
        """What the teacher says for the adversarial lesson and for the clean one, at the classes' temperatures."""
        if self.temperatures is None:
            return taught, taught
        adversarial, clean = (t.to(taught.dtype)[:, None] for t in self.temperatures)
        return taught / adversarial, taught / clean

    def attack_on(self, x: Images) -> PGD:
        return self._attack_away_from(self._ask_teacher(x))

    def _attack_away_from(self, taught: Logits) -> PGD:
        """The attack on the images that the teacher said this to."""
        return self.attack if self.guide == "label" else replace(self.attack, goal=AwayFrom(self._lessons(taught)[0]))

    def craft(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Lesson:
        taught = self._ask_teacher(x)
        return Lesson(self._attack_away_from(taught).perturb(model, x, y, noise), taught)

    def loss(
        self, model: nn.Module, x: Images, y: Labels, crafted: Lesson, *, adjust: LogitChange = unchanged
    ) -> Terms:
        clean, adversarial = model(x), model(crafted.x_adv)
        for_adversarial, for_clean = self._lessons(crafted.taught)
        seen = adjust(clean)
        label = kl(for_clean, seen) if self.guide == "teacher" else ce(seen, y)
        t = self.temperature
        divergence = t**2 * kl(for_adversarial / t, adversarial / t)
        return Terms((1 - self.share) * label, clean, adversarial, divergence, self.share)

    def has_divergence(self) -> bool:
        return True


METHODS = {
    "rslad": Method(
        lambda *a: Distillation(gaussian_ce_attack(*a)),
        "⅙·KL(T(x) || f(x)) + ⅚·KL(T(x) || f(x')), x' by PGD on KL(T(x) || f(x')); needs --teacher",
        "Zi et al. 2021",
        "n + 2, a forward of the teacher",
    ),
    "ard": Method(
        lambda *a: Distillation(ce_attack(*a), share=1.0, temperature=30.0, guide="label"),
        "t²·KL(T(x)/t || f(x')/t), x' by PGD on CE; needs --teacher",
        "Goldblum et al. 2020",
        "n + 2, a forward of the teacher",
    ),
}
