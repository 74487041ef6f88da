"""What attacks without gradients found among images that survived attacks with them: counts, a test and sentences.

An audit that used gradients attacks a few of its survivors of every class again, from the answers alone. A sound
gradient attack leaves few such images that a short random search breaks; more than `TOLERATED` of them, beyond chance,
mean that the gradients mislead or that the attack is too weak, and that the printed robustness is too high. The sample
holds survivors only, so a sign test would count one side alone: the broken ones are compared with the tolerated share
by an exact binomial test, all classes together at 1 % and each class at its part of another 1 %.

None of it needs torch: readers of evidence use it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import bdtrc

LEVEL = 0.01
TOLERATED = 0.05  # of the survivors, that a short search may break; a choice, not a measurement
MOST_NAMED = 5  # classes that a sentence names


@dataclass(frozen=True)
class SurvivorCheck:
    """A sample of the images that survived some conditions of one ball, attacked without gradients.

    `classes` are those that were sampled, with as many numbers in `attacked` and `broken`.
    """

    conditions: tuple[str, ...]
    ball: str
    attack: str  # in words; empty where nothing without gradients knows the ball
    survivors: int  # that there were
    classes: tuple[int, ...] = ()
    attacked: tuple[int, ...] = ()
    broken: tuple[int, ...] = ()
    forwards: int = 0
    backwards: int = 0

    @property
    def sampled(self) -> int:
        return sum(self.attacked)

    @property
    def fallen(self) -> int:
        return sum(self.broken)

    @property
    def p(self) -> float:
        """The chance that so many or more are broken if a tolerated share of the survivors can be."""
        return chance_of(self.fallen, self.sampled)

    @property
    def worst_classes(self) -> tuple[int, ...]:
        """Places in `classes` of those that have too many broken by themselves."""
        level = LEVEL / max(1, len(self.classes))
        pairs = enumerate(zip(self.broken, self.attacked, strict=True))
        return tuple(i for i, (b, n) in pairs if chance_of(b, n) < level)

    @property
    def fires(self) -> bool:
        """Whether the numbers of these conditions are too high."""
        return self.p < LEVEL or bool(self.worst_classes)

    def sentence(self, names: Sequence[str]) -> str:
        """What was found, in one sentence."""
        under = " and ".join(self.conditions)
        if not self.attack:
            return f"survivors of {under} ({self.ball}) were not checked: no attack without gradients knows this ball"
        if not self.sampled:
            return f"nothing survived {under} ({self.ball}), so there was nothing to check"
        share = 100 * self.fallen / self.sampled
        found = f"{self.attack} broke {self.fallen} of {self.sampled} sampled survivors ({share:.1f} %)"
        if not self.fires:
            return f"{found} of {under}, {self.ball}"
        chosen = self.worst_classes or tuple(i for i in np.argsort(self.broken)[::-1].tolist() if self.broken[i])
        shown = ", ".join(
            f"{names[self.classes[i]]} {self.broken[i]} of {self.attacked[i]}" for i in chosen[:MOST_NAMED]
        ) + (", …" if len(chosen) > MOST_NAMED else "")
        return (
            f"the robust accuracy under {under} is too high: {found} of {self.ball} ({shown}), so the gradients "
            "mislead or the attack is too weak; do not trust these numbers, and audit with square or autoattack"
        )


def chance_of(broken: int, attacked: int) -> float:
    return float(bdtrc(broken - 1, attacked, TOLERATED)) if broken else 1.0


def check_to_json(check: SurvivorCheck) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(check).items()}


def check_from_json(content: Mapping[str, Any], k: int) -> SurvivorCheck:
    """A check as evidence has it; what makes no sense is refused."""
    lists: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.items()
    }
    check = SurvivorCheck(**lists)
    columns = (check.classes, check.attacked, check.broken)
    numbers = (*check.classes, *check.attacked, *check.broken, check.survivors, check.forwards, check.backwards)
    fine = (
        all(isinstance(number, int) and number >= 0 for number in numbers)
        and len({len(column) for column in columns}) == 1
        and all(c < k for c in check.classes)
        and all(b <= n for b, n in zip(check.broken, check.attacked, strict=True))
        and all(isinstance(text, str) for text in (*check.conditions, check.ball, check.attack))
    )
    if not fine:
        raise ValueError("a check of survivors contradicts itself")
    return check
