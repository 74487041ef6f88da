"""Counts of classes over epochs: what is printed, framed and drawn is what was counted."""

from pathlib import Path

import numpy as np
import pytest
import torch

import leastwise as lw
from leastwise.statistics.accuracy import wilson_interval

NAMES = ["ant", "bee", "cow"]


def counted(epochs: int = 2, k: int = 3, n: int = 60) -> tuple[lw.ClassMeter, list[np.ndarray]]:
    """A meter, and how many of each class were right under attack in each epoch, counted with numpy."""
    g, names = torch.Generator().manual_seed(0), NAMES if k == 3 else [f"class {i}" for i in range(k)]
    meter, right = lw.ClassMeter(names), []
    for _ in range(epochs):
        y = torch.arange(n) % k
        clean, attacked = torch.randn(n, k, generator=g), torch.randn(n, k, generator=g)
        for part in (slice(0, n // 2), slice(n // 2, n)):
            meter.update(y[part], clean=clean[part], attacked=attacked[part])
        meter.end_epoch()
        hit = attacked.numpy().argmax(1) == y.numpy()
        right.append(np.array([int(hit[y.numpy() == c].sum()) for c in range(k)]))
    return meter, right


def test_a_frame_has_the_counts_of_every_epoch_condition_and_class_with_intervals() -> None:
    meter, right = counted()
    frame = meter.to_pandas()
    assert len(frame) == 2 * 2 * 3
    some = frame[(frame.condition == "attacked") & (frame.epoch == 2)]
    assert some["class"].tolist() == NAMES and some.correct.tolist() == right[1].tolist()
    low, high = wilson_interval(right[1], np.full(3, 20))
    assert some.low.tolist() == pytest.approx(low.tolist()) and some.high.tolist() == pytest.approx(high.tolist())


def test_the_notebook_table_marks_the_worst_class_of_each_column() -> None:
    meter, right = counted()
    html = meter._repr_html_()
    assert html.count("<tr>") == 1 + 3 + 1 and html.count(" ◂") >= 2
    assert f"{100 * right[1].min() / 20:.1f}" in html


def test_nothing_seen_is_said_and_not_drawn() -> None:
    meter = lw.ClassMeter(NAMES)
    assert "nothing was seen yet" in repr(meter) and "nothing was seen yet" in meter._repr_html_()
    with pytest.raises(ValueError, match="end an epoch first"):
        meter.plot()


def test_before_an_epoch_ends_the_table_has_what_was_seen_so_far() -> None:
    meter = lw.ClassMeter(NAMES)
    meter.update(torch.tensor([0, 1]), clean=torch.eye(3)[:2])
    assert repr(meter).splitlines()[0] == "epoch 0, train images, clean: 100.0 %"


def test_the_chart_over_epochs_has_the_accuracies_of_all_classes_and_the_average() -> None:
    meter, right = counted(epochs=3)
    spec = meter.plot().to_dict()
    (rows,) = spec["datasets"].values() if "datasets" in spec else (spec["data"]["values"],)
    assert {row["series"] for row in rows} == {"average", *NAMES}
    for row in rows:
        expected = right[int(row["at"]) - 1]
        value = expected.sum() / 60 if row["series"] == "average" else expected[NAMES.index(row["series"])] / 20
        assert row["value"] == pytest.approx(100 * value, abs=0.05)


def test_of_many_classes_the_weakest_are_drawn(tmp_path: Path) -> None:
    meter, right = counted(k=40, n=400)
    spec = str(meter.plot().to_dict())
    weakest = np.argsort(right[1], kind="stable")[:9]
    assert all(f"'class {c}'" in spec for c in weakest) and "the 9 weakest of 40 classes" in spec
    meter.plot("classes").save(str(tmp_path / "a.svg"))
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_what_a_meter_cannot_count_is_refused() -> None:
    meter = lw.ClassMeter(NAMES)
    with pytest.raises(ValueError, match="give clean=… or attacked=…"):
        meter.update(torch.tensor([0]))
    with pytest.raises(ValueError, match=r"a number for each of 3 classes, but saw \[1, 2\] for 1 labels"):
        meter.update(torch.tensor([0]), clean=torch.zeros(1, 2))
    with pytest.raises(ValueError, match="there is no plot 'class': did you mean classes"):
        counted()[0].plot("class")
