"""`leastwise power`."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from leastwise.core.text import parse_number
from leastwise.report.text import Screen, say

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
        from leastwise.report.power import classes_sentence, models_sentence, threshold_sentence

        difference, accuracy = parse_share(self.difference), parse_share(self.accuracy)
        disagreement = parse_share(self.disagreement)
        power, confidence = parse_share(self.power), parse_share(self.confidence)
        sentence, share = {
            "models": (models_sentence, disagreement),
            "classes": (classes_sentence, accuracy),
            "threshold": (threshold_sentence, accuracy),
        }[self.between]
        say(Screen(), sentence(difference, share, power=power, confidence=confidence, tests=self.tests))


def parse_share(text: str) -> float:
    """`0.03` or `3%` as a fraction."""
    text = text.strip()
    return parse_number(text.removesuffix("%"), "a share") / (100 if text.endswith("%") else 1)
