"""A sheet of images and of the objects that are found in them, to be judged by eye."""

from collections.abc import Mapping

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from leastwise.audit.segmentation import ObjectPrior
from leastwise.audit.surgery import replace_background
from leastwise.core.types import Images
from leastwise.data.corrupt.digital import to_pillow
from leastwise.data.dataset import Dataset

SIDE = 72  # pixels: images are magnified by the largest whole factor that keeps them within this, but at least by one
ACROSS = 5  # images beside each other, each with all its masks
GAP, BETWEEN, TEXT = 2, 14, 13
GROUND, INK = (150, 150, 150), (0, 0, 0)  # grey, so that the end of an image on white can be seen


def draw_mask_sheet(data: Dataset, priors: Mapping[str, ObjectPrior]) -> Image.Image:
    """Every image as it is, and on white by the masks of each prior; its id and the names of the priors above it."""
    if not len(data):
        raise ValueError("there are no images to draw: choose a class that the data set has")
    names = ["image", *priors]
    channels, h, w = data.shape
    white = [replace_background(data, colour=(1.0,) * channels, prior=prior) for prior in priors.values()]
    rows = [as_pictures(one) for one in (data, *white)]
    scale = max(1, SIDE // max(h, w))
    wide, high = scale * w + GAP, scale * h + 2 * TEXT + BETWEEN
    block = len(rows) * wide + BETWEEN
    across = min(ACROSS, len(data))
    sheet = Image.new("RGB", (across * block + BETWEEN, -(-len(data) // across) * high + BETWEEN), GROUND)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(TEXT - 2)
    for number, pictures in enumerate(zip(*rows, strict=True)):
        left, top = BETWEEN + number % across * block, BETWEEN + number // across * high
        for column, (name, picture) in enumerate(zip(names, pictures, strict=True)):
            at = left + column * wide
            pen.text((at, top), str(int(data.ids[number])) if column == 0 else name, INK, font)
            large = picture.convert("RGB").resize((scale * w, scale * h), Image.Resampling.NEAREST)
            sheet.paste(large, (at, top + TEXT + GAP))
    return sheet


def as_pictures(data: Dataset) -> list[Image.Image]:
    """All images of a data set."""
    x: Images = data.batch(np.arange(len(data))).x
    return to_pillow(x)
