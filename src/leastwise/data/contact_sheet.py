"""A contact sheet: what corruptions and augmentations do to images, in one picture."""

from collections.abc import Callable, Sequence

from PIL import Image, ImageDraw, ImageFont

from leastwise.core.noise import Noise
from leastwise.core.types import Images
from leastwise.data.augment.registry import AUGMENTATIONS
from leastwise.data.corrupt.digital import to_pillow
from leastwise.data.corrupt.registry import CORRUPTIONS, SEVERITIES, Corruption

Transform = Callable[[Images, Noise], Images]

CELL = 112  # pixels: images are magnified by the largest whole factor that keeps them within this, but at least by one
GAP = 4
TEXT = 18  # height of the letters, pixels
GROUND, INK = (255, 255, 255), (0, 0, 0)


def draw_contact_sheet(
    x: Images,
    noise: Noise,
    rows: Sequence[tuple[str, Sequence[Transform]]],
    *,
    columns: Sequence[str] = (),
    cell: int = CELL,
) -> Image.Image:
    """A row of originals, then one row per label: what each of its transformations makes of every image.

    One image and five severities give five columns; several images and one augmentation, as many columns
    as images. `columns` are headings above all cells.
    """
    lines = [("original", to_pillow(x))]
    lines += [
        (label, [p for transform in transforms for p in to_pillow(transform(x, noise))]) for label, transforms in rows
    ]
    h, w = x.shape[2:]
    scale = max(1, cell // max(h, w))
    wide, high = scale * w + GAP, max(scale * h, TEXT + 2) + GAP
    font = ImageFont.load_default(TEXT)
    left = 2 * GAP + round(max(font.getlength(label) for label, _ in lines))
    top = GAP + (TEXT + GAP if columns else 0)
    most = max(len(cells) for _, cells in lines)
    sheet = Image.new("RGB", (left + most * wide, top + len(lines) * high), GROUND)
    draw = ImageDraw.Draw(sheet)
    for i, heading in enumerate(columns):
        draw.text((left + i * wide + scale * w / 2, top / 2), heading, INK, font, anchor="mm")
    for j, (label, cells) in enumerate(lines):
        draw.text((GAP, top + j * high + (high - GAP) / 2), label, INK, font, anchor="lm")
        for i, picture in enumerate(cells):
            large = picture.convert("RGB").resize((scale * w, scale * h), Image.Resampling.NEAREST)
            sheet.paste(large, (left + i * wide, top + j * high))
    return sheet


def draw_all_changes(x: Images, noise: Noise) -> Image.Image:
    """Every corruption of an image at its five severities, then five draws of every augmentation."""
    columns = range(1, SEVERITIES + 1)
    rows: list[tuple[str, list[Transform]]] = [
        (name, [Corruption(name, severity) for severity in columns]) for name in CORRUPTIONS
    ]
    rows += [(name, [with_draw(named.augment, n) for n in columns]) for name, named in AUGMENTATIONS.items()]
    return draw_contact_sheet(x, noise, rows, columns=[str(n) for n in columns])


def with_draw(transform: Transform, draw: int) -> Transform:
    """The same transformation with other random numbers."""
    return lambda x, noise: transform(x, noise.fork("draw", draw))
