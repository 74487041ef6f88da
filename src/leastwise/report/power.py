"""How many images per class show a difference, in a sentence."""

from collections.abc import Mapping
from typing import Any

from leastwise.statistics.gate.measures import Look
from leastwise.statistics.gate.scenario import UPWARDS, GateScenario, images_for_gate
from leastwise.statistics.power import (
    check_request,
    images_against_threshold,
    images_between_classes,
    images_in_race,
    images_in_second_phase,
    images_on_same_images,
)


def models_sentence(difference: float, disagreement: float, *, power: float, confidence: float, tests: int) -> str:
    """Two models on the same images; on a share `disagreement` of them just one is right."""
    n = images_on_same_images(difference, disagreement, power, confidence=confidence, tests=tests)
    said = f"to see two models differ by {100 * difference:g} points on the same images, if they disagree on "
    return complete_sentence(
        n, said + f"{100 * disagreement:g} % of them", power=power, confidence=confidence, tests=tests
    )


def classes_sentence(difference: float, p: float, *, power: float, confidence: float, tests: int) -> str:
    """Two classes, or two models on different images, the first with accuracy `p`."""
    n = images_between_classes(p, difference, power, confidence=confidence, tests=tests)
    said = f"to tell accuracies of {100 * p:g} % and {100 * (p + difference):g} % on different images apart"
    return complete_sentence(n, said, power=power, confidence=confidence, tests=tests)


def threshold_sentence(difference: float, p: float, *, power: float, confidence: float, tests: int) -> str:
    """A class whose accuracy lies a difference away from the threshold `p`."""
    n = images_against_threshold(p + difference, p, power, confidence=confidence, tests=tests)
    said = f"for a class of {100 * (p + difference):g} % to clear a threshold of {100 * p:g} %"
    return complete_sentence(n, said, power=power, confidence=confidence, tests=tests)


def gate_sentence(
    gate: str,
    difference: float,
    suppose: Mapping[str, Any],
    *,
    power: float,
    confidence: float,
    tests: int,
    anytime: bool,
) -> str:
    """A gate whose limit lies a difference beyond the truth."""
    check_request(difference, power, confidence, tests, suppose["disagreement"], suppose["accuracy"])
    if difference < 0 or suppose["classes"] < 2:
        raise ValueError(
            "a gate is planned for two classes or more, and a truth that meets its limit with some to spare"
        )
    scenario, measure = GateScenario(**suppose), gate.partition("-")[0]
    look = Look(1 - (1 - confidence) / tests, anytime)
    n = images_for_gate(measure, scenario, difference, power=power, look=look, paired=gate == "drop")
    truth = scenario.truth(measure)
    limit = truth - difference if measure in UPWARDS else truth + difference
    demand = f"{measure}(…) {'>=' if measure in UPWARDS else '<='} {limit:.4g}"
    if n is None:
        return f"No number of images lets {demand} pass where the truth is {truth:.4g}: leave more to spare."
    said = f"for {demand} to pass where the truth is {truth:.4g} ({scenario.classes} classes"
    said += f", the same images, {100 * scenario.disagreement:g} % disagreement)" if gate == "drop" else ")"
    said += ", however often it is asked" if anytime else ""
    return complete_sentence(n, said, power=power, confidence=confidence, tests=tests)


def race_sentence_of(difference: float, p: float, *, power: float, confidence: float, tests: int) -> str:
    """A race between the worst class, with accuracy `p`, and the next."""
    n = images_in_race(p, difference, power, confidence=confidence, tests=tests)
    said = f"until a race about the population tells accuracies of {100 * p:g} % and {100 * (p + difference):g} % apart"
    return complete_sentence(n, said, power=power, confidence=confidence, tests=1)


def second_phase_sentence(width: float, share: float, *, images: int, confidence: float, tests: int) -> str:
    """An audit in two phases; a share of each class survives the first."""
    n = images_in_second_phase(width, share, images, confidence=confidence, tests=tests)
    together = f" for {tests} classes together" if tests > 1 else ""
    return (
        f"{n:,} of {round(share * images):,} survivors per class in the second phase for intervals no wider than "
        f"{100 * width:g} points at confidence {100 * confidence:g} %{together}, if {100 * share:g} % of {images:,} "
        "images survive the first."
    )


def complete_sentence(n: int, said: str, *, power: float, confidence: float, tests: int) -> str:
    """The sentence with the number it is about and the errors it allows."""
    given = f"with power {100 * power:g} % at confidence {100 * confidence:g} %"
    given += f", shared by {tests} tests" if tests > 1 else ""
    return f"{n:,} images per class {said}, {given}."
