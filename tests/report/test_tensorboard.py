"""TensorBoard gets the numbers of every epoch, and its absence is one sentence."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from leastwise.core.counts import Tally
from leastwise.report.tensorboard import record_to_tensorboard, scalars
from leastwise.training.base import Epoch, Seen

NAMES = ("ant", "bee", "cow")
INSTALLED = importlib.util.find_spec("tensorboard") is not None


def epoch() -> Epoch:
    tally = Tally(torch.tensor([4, 2, 0]), torch.tensor([3, 1, 0]))
    seen = replace(Seen.empty(3), clean=tally, confusion=torch.tensor([[3, 1, 0], [1, 1, 0], [0, 0, 0]]))
    return Epoch(2, 5, 0.1, seen, valid=seen)


def test_every_present_class_and_the_averages_are_there() -> None:
    found = scalars(epoch(), NAMES)
    assert found["train clean/ant"] == 0.75 and found["valid clean/bee"] == 0.5
    assert found["train clean/average"] == pytest.approx(4 / 6) and found["train clean/worst"] == 0.5
    assert "train clean/cow" not in found and not any("robust" in name for name in found) and found["rate"] == 0.1


@pytest.mark.skipif(INSTALLED, reason="TensorBoard is installed")
def test_without_tensorboard_it_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"pip install 'leastwise\[tensorboard\]'"):
        record_to_tensorboard(tmp_path, NAMES, lambda event: None)


@pytest.mark.skipif(not INSTALLED, reason="needs TensorBoard")
def test_what_was_written_can_be_read_back(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    heard: list[object] = []
    listen = record_to_tensorboard(tmp_path, NAMES, heard.append)
    listen(epoch())
    read = EventAccumulator(str(tmp_path))
    read.Reload()
    (value,) = read.Scalars("valid clean/ant")
    assert value.step == 2 and value.value == pytest.approx(0.75) and len(heard) == 1
