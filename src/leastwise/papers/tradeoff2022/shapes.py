"""The shape of features: similarity and variance of classes, a line for each network."""

from collections.abc import Sequence

import numpy as np

from leastwise.insight.features import inter_class_similarity, intra_class_variance
from leastwise.papers.drawing.figures import class_line_figure
from leastwise.papers.drawing.inputs import DrawingInput, ExhibitDrawing, explain_missing
from leastwise.papers.results import MissingResult

FeatureShapes = tuple["np.ndarray", "np.ndarray", "np.ndarray"]  # of one network: similarity, variance, pooled variance
SHAPES = (
    ("Inter-class similarity", "largest cosine with another class", 3),
    ("Intra-class variance", "variance, mean over dimensions", 4),
    ("Intra-class variance, pooled", "variance of all numbers", 4),
)


def find_shapes(
    inputs: DrawingInput, roles: Sequence[str]
) -> tuple[dict[str, FeatureShapes], tuple[str, ...], dict[str, list[str]]]:
    """What is drawn of the features of each role, the names of the classes, and what is missing."""
    found: dict[str, FeatureShapes] = {}
    missing: dict[str, list[str]] = {}
    names: tuple[str, ...] = ()
    for role in roles:
        try:
            moments = inputs.moments(role)
            names = inputs.audit(role)[0].names
        except MissingResult as reason:
            missing.setdefault(str(reason), []).append(role)
            continue
        varied, pooled = intra_class_variance(moments), intra_class_variance(moments, pooled=True)
        found[role] = inter_class_similarity(moments.means), varied, pooled
    return found, names, missing


def draw_shapes(inputs: DrawingInput, roles: Sequence[str], suffix: str = "") -> ExhibitDrawing:
    """Similarity and variance of features, a line for each model; the axes are those of all models of the exhibit."""
    found, names, missing = find_shapes(inputs, roles)
    if not names:
        return ExhibitDrawing(notes=explain_missing(missing))
    every, _, _ = find_shapes(inputs, inputs.roles)
    drawn = tuple(
        class_line_figure(
            inputs,
            names,
            {role: shapes[place] for role, shapes in found.items()},
            title=f"{title}{suffix}",
            up=up,
            ends=round_ends([shapes[place] for shapes in every.values()]),
            digits=digits,
        )
        for place, (title, up, digits) in enumerate(SHAPES)
    )
    return ExhibitDrawing(drawn, notes=explain_missing(missing))


def round_ends(values: Sequence["np.ndarray"]) -> tuple[float | None, float | None]:
    """Ends of an axis for all values, at steps of about a tenth of their range; the data decide where all are alike."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if not high > low:
        return None, None
    step = 10.0 ** np.floor(np.log10(high - low)) / 2
    return float(step * np.floor(low / step)), float(step * np.ceil(high / step))
