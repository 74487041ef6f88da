"""Opening images of strangers: rasters of a few formats, by what they are and not by what they are called.

Pillow knows some forty formats. Some of its readers start other programs (Ghostscript, for an EPS file that may be
called 1.png), and most have few users. These seven are what data sets of photographs and drawings are made of.
"""

from io import BufferedIOBase
from pathlib import Path
from typing import IO, cast

from PIL import Image

RASTERS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")


def open_raster(source: Path | BufferedIOBase) -> Image.Image:
    """An image whose pixels are not decoded yet; any other format is an image that cannot be identified."""
    return Image.open(cast("Path | IO[bytes]", source), formats=RASTERS)
