"""The sheet: the most and the least robust images of each class in one picture."""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leastwise.data.dataset import Dataset

ROWS = 20  # classes on a sheet
SIDE = 64  # pixels of the longer side of an image on it
MARGIN, GAP = 130, 14  # pixels for a name, and between the two ends


def draw_extremes(
    data: Dataset, ids: Mapping[str, Mapping[str, Sequence[int]]], order: Sequence[str], *, condition: str
) -> dict[str, Any]:
    """One picture: a row for each class, its most robust images at the left, its least robust ones at the right."""
    from PIL import Image, ImageDraw

    place = {int(i): row for row, i in enumerate(data.ids)}
    shown = [name for name in order if name in ids][:ROWS]
    _, h, w = data.shape
    # Whole multiples keep pixels square; larger images are made smaller, or a sheet would have tens of megabytes.
    times = max(1, SIDE // max(h, w)) if max(h, w) <= SIDE else SIDE / max(h, w)
    side_w, side_h = max(1, round(w * times)), max(1, round(h * times))
    how = Image.Resampling.NEAREST if times >= 1 else Image.Resampling.BOX
    most = max((len(ids[name]["most_robust"]) for name in shown), default=0)
    least = max((len(ids[name]["least_robust"]) for name in shown), default=0)
    size = (MARGIN + (most + least) * (side_w + 2) + GAP, len(shown) * (side_h + 4))
    picture = Image.new("RGB", size, (255, 255, 255))
    pen = ImageDraw.Draw(picture)
    for number, name in enumerate(shown):
        top = number * (side_h + 4)
        pen.text((4, top + side_h // 2 - 6), name[:20], fill=(27, 31, 36))
        for end, start in (("most_robust", MARGIN), ("least_robust", MARGIN + most * (side_w + 2) + GAP)):
            for column, i in enumerate(ids[name][end]):
                pixels = data.batch(np.array([place[int(i)]])).x[0].numpy()
                levels = np.rint(255 * pixels).astype(np.uint8).transpose(1, 2, 0)
                one = Image.fromarray(levels.squeeze(2) if levels.shape[2] == 1 else levels[:, :, :3]).convert("RGB")
                picture.paste(one.resize((side_w, side_h), how), (start + column * (side_w + 2), top))
    known = sum(name in ids for name in order)
    cut = f"the {len(shown)} weakest of {known:,} classes, " if known > len(shown) else ""
    out = io.BytesIO()
    picture.save(out, "PNG", optimize=True)
    return {
        "title": f"Most and least robust images under {condition}",
        "caption": f"{cut}weakest class first; left of the gap the images with the highest confidence in their true "
        "class under attack, right of it those with the lowest",
        "source": f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}",
        "width": size[0],
        "height": size[1],
    }
