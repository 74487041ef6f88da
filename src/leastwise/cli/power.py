"""`leastwise power`."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from leastwise.core.parsing import parse_number
from leastwise.report.terminal.screen import Screen, say

Between = Literal["models", "classes", "threshold"]


@dataclass(frozen=True)
class Power:
    """How many images per class show a difference that matters?"""

    difference: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DIFFERENCE")]
    """the smallest that should be seen: 0.03, 3%, 3/100"""
    between: Between = "models"
    """two models on the same images, two classes (or two models on different images), or a class and a threshold"""
    accuracy: Annotated[str, tyro.conf.arg(metavar="P")] = "50%"
    """accuracy to start from; 50 % needs the most images"""
    disagreement: Annotated[str, tyro.conf.arg(metavar="SHARE")] = "20%"
    """models only: the share of images on which just one of the two is right"""
    tests: int = 1
    """comparisons that share the error, such as the number of classes"""
    power: Annotated[str, tyro.conf.arg(metavar="P")] = "80%"
    """probability of seeing the difference if it is there"""
    confidence: Annotated[str, tyro.conf.arg(metavar="P")] = "95%"
    """one minus the probability of seeing one that is not there"""

    def run(self) -> None:
        difference, p, psi = share(self.difference), share(self.accuracy), share(self.disagreement)
        power, confidence = share(self.power), share(self.confidence)
        from leastwise.statistics.power import images_against_threshold, images_between_classes, images_on_same_images

        given = f"with power {100 * power:g} % at confidence {100 * confidence:g} %"
        given += f", shared by {self.tests} tests" if self.tests > 1 else ""
        if self.between == "models":
            n = images_on_same_images(difference, psi, power, confidence, self.tests)
            said = f"to see two models differ by {100 * difference:g} points on the same images, if they disagree on "
            said += f"{100 * psi:g} % of them"
        elif self.between == "classes":
            n = images_between_classes(p, difference, power, confidence, self.tests)
            said = f"to tell accuracies of {100 * p:g} % and {100 * (p + difference):g} % on different images apart"
        else:
            n = images_against_threshold(p + difference, p, power, confidence, self.tests)
            said = f"for a class of {100 * (p + difference):g} % to clear a threshold of {100 * p:g} %"
        say(Screen(), f"{n:,} images per class {said}, {given}.")


def share(text: str) -> float:
    """`0.03`, `3%`."""
    text = text.strip()
    return parse_number(text.removesuffix("%"), "a share") / (100 if text.endswith("%") else 1)
