"""What an exhibit becomes: figures, numbers for its table, pictures and notes."""

import base64
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from leastwise.papers.drawing.inputs import DrawingInput, Note, OurCells
from leastwise.report.figures import Figure


@dataclass(frozen=True)
class CaptionedImage:
    """A picture with the words below it."""

    title: str
    lines: tuple[str, ...]
    source: str  # a data URI


@dataclass(frozen=True, eq=False)
class ExhibitDrawing:
    """Everything that is shown of an exhibit. Drawings add up."""

    panels: tuple[Figure, ...] = ()  # side by side
    wide: tuple[Figure, ...] = ()  # alone
    ours: OurCells = field(default_factory=dict)
    images: tuple[CaptionedImage, ...] = ()
    notes: tuple[Note, ...] = ()
    pairs: bool = False  # panels belong together two by two
    units: Mapping[str, str] = field(default_factory=dict)  # of the columns of `ours` that the paper does not print
    lead: tuple[str, ...] = ()  # columns that stand before the others, so that nobody has to scroll to them

    def __add__(self, other: "ExhibitDrawing") -> "ExhibitDrawing":
        return ExhibitDrawing(
            self.panels + other.panels,
            self.wide + other.wide,
            {**self.ours, **other.ours},
            self.images + other.images,
            tuple(dict.fromkeys((*self.notes, *other.notes))),
            self.pairs or other.pairs,
            {**self.units, **other.units},
            tuple(dict.fromkeys((*self.lead, *other.lead))),
        )


Drawings = Mapping[str, Callable[[DrawingInput], ExhibitDrawing]]  # by the ids of the exhibits


def join_drawings(parts: Iterable[ExhibitDrawing]) -> ExhibitDrawing:
    """Several drawings as one, in their order."""
    made = ExhibitDrawing()
    for part in parts:
        made = made + part
    return made


def encode_png(pixels: Float[np.ndarray, "c h w"]) -> str:
    """An image as a data URI; one channel is grey."""
    from PIL import Image as Pictures

    levels = np.clip(np.rint(255 * pixels), 0, 255).astype(np.uint8).transpose(1, 2, 0)
    out = io.BytesIO()
    Pictures.fromarray(levels.squeeze(2) if levels.shape[2] == 1 else levels).save(out, "PNG")
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"


def list_marks(figure: Figure) -> list[dict[str, object]]:
    """The numbers behind a figure: exactly those that are drawn."""
    values: list[Mapping[str, object]] = figure.spec["datasets"][figure.spec["data"]["name"]]
    hidden = {"text", "marked", "about", "kind"}
    return [{name: value for name, value in row.items() if name not in hidden} for row in values]
