"""`leastwise power`."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from leastwise.core.text import Screen, parse_share, say

Tests = Literal["models", "classes", "threshold", "race", "two-phase"]
Between = Tests | Literal["worst", "overall", "macro", "gap", "cv", "drop", "drop-unpaired"]


@dataclass(frozen=True)
class Power:
    """How many images per class show a difference that matters?"""

    difference: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DIFFERENCE")]
    """the smallest that should be seen: 0.03, 3%, 3/100"""
    between: Between = "models"
    """two models on the same images, two classes (or two models on different images), a class and a threshold, the
    worst class and the next in a race, the ends of an interval of an audit in two phases; or a gate (worst, overall,
    macro, gap, cv, drop, drop-unpaired) and its limit, with DIFFERENCE to spare"""
    accuracy: Annotated[str, tyro.conf.arg(metavar="P")] = "50%"
    """accuracy to start from; 50 % needs the most images. In two phases: the share that survives the first"""
    images: int = 1000
    """two-phase only: images of each class"""
    disagreement: Annotated[str, tyro.conf.arg(metavar="SHARE")] = "20%"
    """models only: the share of images on which just one of the two is right"""
    classes: int = 10
    """gates only: how many classes"""
    gap: Annotated[str, tyro.conf.arg(metavar="SHARE")] = "40%"
    """gates only: best minus worst class, the others evenly between them and --accuracy in the middle"""
    anytime: bool = False
    """gates only: for bounds that hold however often one looks"""
    tests: int = 1
    """comparisons that share the error, such as the number of classes"""
    power: Annotated[str, tyro.conf.arg(metavar="P")] = "80%"
    """probability of seeing the difference if it is there"""
    confidence: Annotated[str, tyro.conf.arg(metavar="P")] = "95%"
    """one minus the probability of seeing one that is not there"""

    def run(self) -> None:
        from leastwise.report.power import (
            classes_sentence,
            models_sentence,
            race_sentence_of,
            second_phase_sentence,
            threshold_sentence,
        )

        difference, accuracy = parse_share(self.difference), parse_share(self.accuracy)
        disagreement = parse_share(self.disagreement)
        power, confidence = parse_share(self.power), parse_share(self.confidence)
        if self.between == "two-phase":
            said = second_phase_sentence(
                difference, accuracy, images=self.images, confidence=confidence, tests=self.tests
            )
            say(Screen(), said)
            return
        if self.between not in ("models", "classes", "threshold", "race"):
            from leastwise.report.power import gate_sentence

            suppose = {"classes": self.classes, "accuracy": accuracy, "gap": parse_share(self.gap)}
            say(
                Screen(),
                gate_sentence(
                    self.between,
                    difference,
                    {**suppose, "disagreement": disagreement},
                    power=power,
                    confidence=confidence,
                    tests=self.tests,
                    anytime=self.anytime,
                ),
            )
            return
        sentence, share = {
            "models": (models_sentence, disagreement),
            "classes": (classes_sentence, accuracy),
            "threshold": (threshold_sentence, accuracy),
            "race": (race_sentence_of, accuracy),
        }[self.between]
        say(Screen(), sentence(difference, share, power=power, confidence=confidence, tests=self.tests))
