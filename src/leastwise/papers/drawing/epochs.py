"""Classes over the epochs of a training: a line each, and which of them are weakest at the end."""

from collections.abc import Callable, Sequence

import numpy as np

from leastwise.core.counts import Tally
from leastwise.papers.drawing.inputs import DrawingInput, ExhibitDrawing, NotShown
from leastwise.papers.results import MissingResult
from leastwise.report.charts.bars import Line, class_line_chart
from leastwise.report.ends import find_ends
from leastwise.report.figures import Figure


def epoch_figure(
    names: Sequence[str],
    epochs: Sequence[Tally],
    title: str,
    *,
    told: str,
    classes: Sequence[int] = (),
    band: bool = True,
) -> Figure:
    """A line per class over the epochs; the ends of the last one have names, unless too many classes are level."""
    table = 100 * np.stack([tally.accuracy.numpy() for tally in epochs])
    shown = [c for c in classes or range(len(names)) if not np.isnan(table[:, c]).any()]
    ends = find_ends({c: float(table[-1, c]) for c in shown})
    x = tuple(float(e) for e in range(1, len(epochs) + 1))
    drawn = [Line(names[c], x, tuple(table[:, c].tolist()), ends.kinds.get(c, "other")) for c in shown]
    drawn.append(Line("mean of these classes", x, tuple(table[:, shown].mean(1).tolist()), "overall"))
    key = (
        ("● weakest at the end", ends.describe_weakest(names)),
        ("◆ dashed", "mean of these classes"),
        ("■ strongest", ends.describe_strongest(names)),
    )
    spec = class_line_chart(
        drawn, "epoch", "epoch", about=f"{title}: accuracy of each class over the epochs.", band=band
    )
    return Figure(title, f"{told}; {len(shown)} classes", spec, key)


def all_classes(k: int) -> Sequence[int]:
    """Every class of k."""
    return range(k)


def draw_epochs(
    inputs: DrawingInput,
    role: str,
    title: str,
    *,
    begin: str,
    classes: Callable[[int], Sequence[int]] = all_classes,
    band: bool = False,
) -> ExhibitDrawing:
    """After each epoch, under the condition whose name begins so; or why not."""
    try:
        evidence, name = inputs.audit(role, begin)
        each = [tallies[name] for tallies in inputs.result(role).each]
        if not each:
            raise MissingResult("its epochs were not kept")
    except MissingResult as missing:
        return ExhibitDrawing(notes=(NotShown((title,), str(missing)),))
    labels = inputs.labels(evidence.names)
    return ExhibitDrawing(
        panels=(epoch_figure(labels, each, title, told=f"test images, {name}", classes=classes(evidence.k), band=band),)
    )
