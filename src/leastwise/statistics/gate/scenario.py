"""How many images a gate needs before there is any result: by drawing results from classes that one supposes."""

from dataclasses import dataclass

import numpy as np

from leastwise.statistics.gate.falls import ClassFalls
from leastwise.statistics.gate.language import GateTerm
from leastwise.statistics.gate.measures import Look
from leastwise.statistics.gate.plan import images_for_power, share_decided, share_of_falls

UPWARDS = ("worst", "overall", "macro")  # measures of which a gate demands at least so much
FINE = 1_000_000  # images per class that stand for a true share


@dataclass(frozen=True)
class GateScenario:
    """Classes that lie evenly between accuracy − gap/2 and accuracy + gap/2; for drops, a share of images that just one
    of the two results gets right."""

    classes: int
    accuracy: float
    gap: float
    disagreement: float

    def accuracies(self) -> "np.ndarray":
        """The true accuracy of each class."""
        found = (
            self.accuracy + self.gap * (np.linspace(0, 1, self.classes) - 0.5)
            if self.classes > 1
            else np.array([self.accuracy])
        )
        if found.min() < 0 or found.max() > 1:
            raise ValueError(
                f"classes between {found.min():g} and {found.max():g} cannot be: "
                f"give an accuracy and a gap that stay in 0 to 100 %"
            )
        return found

    def truth(self, measure: str) -> float:
        """The true value of a measure; nothing fell."""
        p = self.accuracies()
        values = {"worst": p.min(), "overall": p.mean(), "macro": p.mean(), "gap": np.ptp(p), "cv": p.var()}
        return float(values.get(measure, 0.0))


def images_for_gate(
    measure: str, scenario: GateScenario, distance: float, *, power: float, look: Look, paired: bool = True
) -> int | None:
    """Images per class for a gate to decide with the given power, if its limit lies a distance beyond the truth."""
    truth = scenario.truth(measure)
    limit = truth - distance if measure in UPWARDS else truth + distance
    term = GateTerm("", measure, "", "", ">=" if measure in UPWARDS else "<=", limit)
    start = 2 if measure == "cv" else 1
    fine = np.full(scenario.classes, FINE)
    if measure == "drop":
        if paired:
            half = np.rint(fine * scenario.disagreement / 2).astype(np.int64)
            falls = ClassFalls(half, fine, half, fine, paired=True)
        else:
            right = np.rint(fine * scenario.accuracies()).astype(np.int64)
            falls = ClassFalls(right, fine, right, fine, paired=False)
        decided = share_of_falls(term, falls, look=look)
    else:
        right = np.rint(fine * scenario.accuracies()).astype(np.int64)
        decided = share_decided(term, right, fine, look=look)
    return images_for_power(lambda times: decided(times * start / FINE), start, power=power)
