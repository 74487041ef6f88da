"""Trackers get the numbers of every epoch; files are read back and compared with epochs.jsonl."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from leastwise.core.counts import Tally
from leastwise.report.trackers.base import EpochTracker, epoch_values, record_epochs
from leastwise.report.trackers.choose import TRACKERS, open_trackers
from leastwise.report.trackers.mlflow import MLflow, metric_names
from leastwise.training.base import Epoch, Seen
from tests.forked_commands import leastwise

NAMES = ("ant", "bee", "cow")


def epoch(rate: float = 0.1) -> Epoch:
    tally = Tally(torch.tensor([4, 2, 0]), torch.tensor([3, 1, 0]))
    seen = replace(Seen.empty(3), clean=tally, confusion=torch.tensor([[3, 1, 0], [1, 1, 0], [0, 0, 0]]))
    return Epoch(2, 5, rate, seen, valid=seen)


class Kept(EpochTracker):
    def __init__(self) -> None:
        self.values: dict[int, dict[str, float]] = {}

    def record(self, values: Any, epoch: int) -> None:
        self.values[epoch] = dict(values)

    def close(self) -> None:
        pass


def test_every_present_class_the_average_the_worst_and_the_spread_are_there() -> None:
    found = epoch_values(epoch(), NAMES)
    assert found["train clean/ant"] == 0.75 and found["valid clean/bee"] == 0.5 and found["rate"] == 0.1
    assert found["train clean/average"] == pytest.approx(4 / 6) and found["train clean/worst"] == 0.5
    assert found["valid clean/spread"] == 0.25
    assert "train clean/cow" not in found and not any("robust" in name for name in found)


def test_a_rate_that_nobody_knows_is_left_out() -> None:
    assert "rate" not in epoch_values(epoch(float("nan")), NAMES)


def test_a_class_that_is_called_worst_does_not_hide_the_worst() -> None:
    found = epoch_values(epoch(), ("worst", "average", "cow"))
    assert found["train clean/class worst"] == 0.75 and found["train clean/worst"] == 0.5
    assert found["train clean/class average"] == 0.5 and found["train clean/average"] == pytest.approx(4 / 6)


def test_a_tracker_hears_epochs_and_the_listener_everything() -> None:
    kept, heard = Kept(), list[object]()
    listen = record_epochs([kept], NAMES, heard.append)
    listen(epoch())
    assert list(kept.values) == [2] and len(heard) == 1


def test_names_that_mlflow_refuses_stay_apart() -> None:
    given = ["a b/T-shirt/top", "a b/T-shirt_top", "a b/é", "a b/ü", "loss"]
    made = metric_names(dict.fromkeys(given, 0.0))
    assert list(made.values()) == ["a b/T-shirt_top", "a b/T-shirt_top 2", "a b/_", "a b/_ 2", "loss"]


@pytest.mark.parametrize("name", TRACKERS)
def test_a_tool_that_is_not_installed_is_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("torch.utils.tensorboard", "wandb", "mlflow", "mlflow.entities", "mlflow.tracking"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=rf"is not installed: pip install 'leastwise\[{name}\]'"):
        open_trackers([name], tmp_path, "abc")


def test_an_unknown_tracker_is_refused_before_anything_is_read() -> None:
    done = leastwise("train", "pgd-at", "--data", "nowhere", "--track", "wandbb")
    assert done.returncode == 2 and "there is no tracker 'wandbb': did you mean wandb?" in done.stderr


# The real tools: `make test-slow` installs them.


def train(folder: Path, *further: str) -> list[dict[str, Any]]:
    """A short training that all trackers hear, in a process of its own; the lines of its epochs."""
    small = "train trades --fair cfa --model convnet --per-class 12 --valid-per-class 2 --epochs 3 --steps 1 --out t"
    command = [sys.executable, "-m", "leastwise", *small.split(), "--track", ",".join(TRACKERS), *further]
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path("src").absolute()), *path])}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in (folder / "t" / "epochs.jsonl").read_text().splitlines()]


def expected(line: dict[str, Any], names: list[str]) -> dict[str, float]:
    """The curves' values by hand, from a line of epochs.jsonl."""
    found = {"loss": line["loss"], "rate": line["rate"]}
    sides = {"train clean": line["clean"], "train attacked": line["attacked"], "record robust": line["robust"]}
    sides |= {f"valid {kind}": line["valid"][kind] for kind in ("clean", "robust")}
    for group, counts in sides.items():
        each = [c / n for c, n in zip(counts["correct"], counts["n"], strict=True)]
        found |= {f"{group}/{name}": a for name, a in zip(names, each, strict=True)}
        found[f"{group}/average"] = sum(counts["correct"]) / sum(counts["n"])
        found |= {f"{group}/worst": min(each), f"{group}/spread": max(each) - min(each)}
    return found


def read_tensorboard(folder: Path) -> dict[str, dict[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    read.Reload()
    return {tag: {one.step: one.value for one in read.Scalars(tag)} for tag in read.Tags()["scalars"]}


def read_mlflow(folder: Path) -> dict[str, dict[int, float]]:
    """The plain files of MLflow: a line with time, value and step for each value."""
    (metrics,) = folder.glob("*/*/metrics")
    found: dict[str, dict[int, float]] = {}
    for file in metrics.rglob("*"):
        if file.is_file():
            rows = [line.split() for line in file.read_text().splitlines()]
            found[file.relative_to(metrics).as_posix()] = {int(step): float(value) for _, value, step in rows}
    return found


def wandb_records(file: Path) -> Iterator[bytes]:
    """The records of a log in the format of LevelDB: blocks of 32 kB, and parts with checksum, length and kind."""
    content, place, whole = file.read_bytes(), 7, b""
    while place + 7 <= len(content):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        whole += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield whole
            whole = b""


def read_wandb(folder: Path) -> dict[str, dict[int, float]]:
    from wandb.proto.wandb_internal_pb2 import Record

    found: dict[str, dict[int, float]] = {}
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    for content in wandb_records(file):
        record = Record()
        record.ParseFromString(content)
        if record.HasField("history"):
            items = {one.key or one.nested_key[0]: json.loads(one.value_json) for one in record.history.item}
            for name, value in items.items():
                found.setdefault(name, {})[items["epoch"]] = value
    return found


@pytest.mark.slow
def test_what_the_real_tools_hold_is_what_epochs_jsonl_says(tmp_path: Path) -> None:
    for module in ("tensorboard", "mlflow", "wandb"):
        pytest.importorskip(module)
    lines = train(tmp_path)
    from leastwise.data.loading import load

    names = list(load("fashion-mini", "train").names)
    wanted = {line["epoch"]: expected(line, names) for line in lines}
    assert len(wanted) == 3 and len(wanted[1]) == 2 + 5 * 13
    read = {
        "tensorboard": read_tensorboard(tmp_path / "t" / "tensorboard"),
        "wandb": read_wandb(tmp_path / "t"),
        "mlflow": read_mlflow(tmp_path / "t" / "mlruns"),
    }
    for tool, curves in read.items():
        renamed = metric_names(wanted[1]) if tool == "mlflow" else {name: name for name in wanted[1]}
        if tool == "tensorboard":
            renamed = {name: name.replace(" ", "_") if name not in curves else name for name in renamed}
        for number, values in wanted.items():
            for name, value in values.items():
                assert curves[renamed[name]][number] == pytest.approx(value, rel=1e-6), (tool, name, number)


@pytest.mark.slow
def test_a_run_of_mlflow_goes_on_by_its_key(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    with MLflow(tmp_path, key="k") as first:
        first.record({"loss": 1.0}, 1)
    with MLflow(tmp_path, key="k") as again, MLflow(tmp_path, key="other") as other:
        again.record({"loss": 0.5}, 2)
        assert again.run_id == first.run_id != other.run_id
    history = again.client.get_metric_history(again.run_id, "loss")
    assert {one.step: one.value for one in history} == {1: 1.0, 2: 0.5}
