"""What a training says when it went wrong, from counts that are known."""

import json
from pathlib import Path

import numpy as np

from leastwise.data.dataset import Dataset
from leastwise.training.doubts import doubt_counts, doubt_validation, read_doubts
from leastwise.training.recipe import Validation

NAMES = ("ant", "bee", "cow", "dog")
N = [50] * 4


def test_a_collapse_is_said_when_it_happens() -> None:
    said = doubt_counts(N, [0, 50, 0, 0], NAMES, number=3, of=9)
    assert said.startswith(
        "after epoch 3 the network has collapsed: it is right on 50 of 50 images of bee and on 0 of all"
    )
    assert doubt_counts(N, [1, 49, 0, 2], NAMES, number=3, of=9)
    assert doubt_counts(N, [5, 50, 5, 5], NAMES, number=3, of=9) == ""
    assert doubt_counts([50, 0, 0, 0], [50, 0, 0, 0], NAMES, number=9, of=9) == ""  # only one class there


def test_labels_that_could_not_be_learned_are_said_at_the_end() -> None:
    """A guesser has 50 ± 6.1 of 200 right; 50 + 2.33 · 6.1 = 64.3."""
    assert doubt_counts(N, [16] * 4, NAMES, number=9, of=9).startswith(
        "after the last epoch 64 of 200 clean images are"
    )
    assert doubt_counts(N, [16] * 4, NAMES, number=8, of=9) == ""
    assert doubt_counts(N, [17, 16, 16, 16], NAMES, number=9, of=9) == ""


def test_a_small_class_that_leaves_no_validation_is_said() -> None:
    labels = np.repeat(np.arange(3), (30, 9, 12))
    data = Dataset.of(np.zeros((51, 1, 4, 4), np.uint8), labels, NAMES[:3])
    said = doubt_validation(Validation(None), data)
    assert said.startswith("the class bee has 9 images, fewer than 10, so none are split off")
    assert doubt_validation(Validation(0), data) == ""  # none were asked for
    assert doubt_validation(Validation(None), data.only(["ant", "cow"])) == ""


def test_the_last_line_speaks_again_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "epochs.jsonl"
    bad = {"epoch": 2, "clean": {"n": N, "correct": [20] * 4}, "valid": {"clean": {"n": N, "correct": [0, 0, 50, 0]}}}
    file.write_text(json.dumps(bad) + "\n")
    assert "one answer for all" in read_doubts(file, NAMES, 2)[0]
    del bad["valid"]
    file.write_text(json.dumps(bad) + "\n")
    assert read_doubts(file, NAMES, 2) == () == read_doubts(tmp_path / "none", NAMES, 2)
