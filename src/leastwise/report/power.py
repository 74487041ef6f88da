"""How many images per class show a difference, in a sentence."""

from leastwise.statistics.power import images_against_threshold, images_between_classes, images_on_same_images


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


def complete_sentence(n: int, said: str, *, power: float, confidence: float, tests: int) -> str:
    """The sentence with the number it is about and the errors it allows."""
    given = f"with power {100 * power:g} % at confidence {100 * confidence:g} %"
    given += f", shared by {tests} tests" if tests > 1 else ""
    return f"{n:,} images per class {said}, {given}."
