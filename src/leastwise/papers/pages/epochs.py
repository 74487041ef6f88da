"""Class accuracy on the test images while a network is trained."""

from collections.abc import Callable, Sequence

from leastwise.papers.pages.drawn import Drawn
from leastwise.papers.pages.figures import epoch_figure
from leastwise.papers.pages.given import Given
from leastwise.papers.verdicts.view import Missing


def all_classes(k: int) -> Sequence[int]:
    return range(k)


def epochs_of(
    given: Given,
    role: str,
    title: str,
    begin: str,
    classes: Callable[[int], Sequence[int]] = all_classes,
    band: bool = False,
) -> Drawn:
    """After each epoch, under the condition whose name begins so; or why not."""
    try:
        evidence, name = given.audit(role, begin)
        each = [tallies[name] for tallies in given.found(role).each]
        if not each:
            raise Missing("its epochs were not kept")
    except Missing as missing:
        return Drawn(notes=(f"Not shown: {title} ({missing}).",))
    labels = given.labels(evidence.names)
    return Drawn(panels=(epoch_figure(labels, each, title, f"test images, {name}", classes(evidence.k), band),))
