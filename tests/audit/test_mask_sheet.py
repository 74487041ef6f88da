"""The sheet on which masks are judged by eye."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leastwise.audit.mask_sheet import BETWEEN, GAP, SIDE, TEXT, draw_mask_sheet
from leastwise.audit.segmentation import ObjectPrior, segment_objects
from leastwise.cli.main import main
from leastwise.data.loading import load


def test_every_image_stands_beside_itself_on_white_by_its_masks() -> None:
    data = load("fashion-mini/test").only([5]).take(3)
    priors = {"small": ObjectPrior(0.5), "large": ObjectPrior(0.95)}
    sheet = np.asarray(draw_mask_sheet(data, priors))
    scale = SIDE // 28
    pixels = np.rint(255 * data.batch(np.arange(3)).x.numpy()).astype(np.uint8)
    for number in range(3):
        for column, prior in enumerate((None, *priors.values())):
            left = BETWEEN + number * (3 * (scale * 28 + GAP) + BETWEEN) + column * (scale * 28 + GAP)
            top = BETWEEN + TEXT + GAP
            cell = sheet[top : top + scale * 28 : scale, left : left + scale * 28 : scale, 0]
            wanted = pixels[number, 0]
            if prior is not None:
                wanted = np.where(segment_objects(pixels[number : number + 1], prior)[0], wanted, 255)
            assert (cell == wanted).all(), (number, column)
    with pytest.raises(ValueError, match="no images to draw"):
        draw_mask_sheet(data.where(np.zeros(len(data), dtype=bool)), priors)


def test_the_command_draws_a_class_and_answers_a_wrong_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "masks.png"
    assert main(["data", "masks", "--class", "Sandal", "--images", "6", "--out", str(out)]) == 0
    assert "6 images of Sandal" in capsys.readouterr().out
    with Image.open(out) as sheet:
        assert sheet.width > 5 * 4 * 56 and sheet.height > 2 * 56  # five images of four cells, in two lines
    assert main(["data", "masks", "--class", "cat", "--out", str(out)]) == 2
    assert "there is no class 'cat': choose T-shirt" in capsys.readouterr().err
    assert main(["data", "masks", "--images", "0", "--out", str(out)]) == 2
