"""What several verbs share."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leastwise.cli.options import TargetOptions
from leastwise.core.text import Screen
from leastwise.models.load.checkpoint import save_checkpoint
from leastwise.models.zoo.registry import build


def test_photographs_of_many_sizes_are_cut_to_what_the_model_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    for name, sizes in {"ant": ((20, 30), (40, 30)), "bee": ((25, 25),)}.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number, size in enumerate(sizes):
            pixels = rng.integers(0, 255, (*size, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    shape = (3, 12, 12)
    save_checkpoint(tmp_path / "model.pt", build("small", shape, 2), shape, names=("ant", "bee"))

    def read(model: str, size: int = 0) -> tuple[int, ...]:
        options = TargetOptions(model, str(tmp_path / "photos"), size)
        return options.load_data(Screen(), mean=(), std=()).shape

    assert read(str(tmp_path)) == shape and "squares of 12 pixels, which the model takes" in capsys.readouterr().out
    assert read(str(tmp_path), size=9) == (3, 9, 9)
    with pytest.raises(ValueError, match="have 3 sizes, 30x20 to 30x40: say which square to cut out, as in --size 224"):
        read("mine.py:build")
