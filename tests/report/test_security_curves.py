"""Security curves against a linear model, where the radius at which an image falls is known."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leastwise.attacks.naming import Threat
from leastwise.attacks.registry import make_attacks, repeat_over_radii
from leastwise.attacks.threats import Linf
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import audit
from leastwise.models.zoo.registry import build
from leastwise.report.condition_stats import (
    Curve,
    find_bracket,
    find_crossing,
    half_lost,
    make_curves,
    nearest_mistakes,
)
from leastwise.report.summary import summarise
from tests.conftest import SHAPE, K

THREAT = Threat(Linf(0.02), 0.005)


def test_a_curve_is_the_attack_at_every_radius(unbalanced: Dataset) -> None:
    model = build("convnet", SHAPE, K, seed=3)
    names = repeat_over_radii("clean,fgsm", ["0.01", "0.02"], THREAT)
    assert names == "clean,fgsm[0.01],fgsm[0.02]"
    found = audit(model, unbalanced, make_attacks(names, THREAT))
    alone = audit(model, unbalanced, make_attacks("fgsm", replace(THREAT, ball=Linf(0.01), step=0.0025)))
    (curve,) = make_curves(found)
    assert curve.attack == "fgsm" and curve.radii == (0.01, 0.02)
    assert np.array_equal(curve.accuracy[0], alone.tally("fgsm").accuracy.numpy(), equal_nan=True)
    told = summarise(found)["curves"]["fgsm"]
    assert told["eps"] == [0.01, 0.02] and told["overall"][0] == alone.tally("fgsm").overall
    assert told["accuracy"][0][int(np.flatnonzero(np.bincount(unbalanced.labels, minlength=K) == 0)[0])] is None


def test_half_is_lost_where_the_line_says() -> None:
    assert find_crossing((0.0, 1.0, 2.0), [0.9, 0.7, 0.3]) == pytest.approx(1.5)
    assert find_crossing((0.0, 1.0), [0.4, 0.1]) == 0.0
    assert np.isnan(find_crossing((0.0, 1.0), [0.9, 0.6])) and np.isnan(find_crossing((1.0, 2.0), [0.4, 0.1]))
    assert np.isnan(find_crossing((0.0, 1.0), [float("nan"), float("nan")]))


def test_beyond_the_largest_radius_and_before_the_smallest_are_told_apart() -> None:
    assert find_bracket((0.0, 1.0, 2.0), [0.9, 0.7, 0.3]) == (1.0, 2.0)
    low, high = find_bracket((1.0, 2.0), [0.9, 0.6])
    assert low == 2.0 and np.isnan(high)
    low, high = find_bracket((1.0, 2.0), [0.4, 0.1])
    assert np.isnan(low) and high == 1.0
    assert np.isnan(find_bracket((1.0, 2.0), [float("nan")] * 2)).all()
    table = np.array([[0.9, 0.4, 0.8, 0.7], [0.6, 0.1, 0.2, np.nan]])
    columns = [[*column] for column in table.T]
    made = Curve(
        "pgd5",
        (1 / 255, 2 / 255),
        ("x", "y"),
        table,
        np.array([0.7, 0.4]),
        "Linf",
        np.array([find_crossing((1 / 255, 2 / 255), column) for column in columns]),
        np.array([find_bracket((1 / 255, 2 / 255), column) for column in columns]),
    )
    assert half_lost(made, ("ant", "bee", "cow", "dog")) == (
        "Accuracy under pgd5 falls below 50 % at eps: bee before 1/255, cow 1.5/255; 1 stay above it up to 2/255."
    )


def test_nearest_mistakes_are_medians_of_what_the_search_found(unbalanced: Dataset) -> None:
    model = build("convnet", SHAPE, K, seed=3)
    threat = replace(THREAT, ball=Linf(1.0), keep="last")
    found = audit(model, unbalanced, make_attacks("clean,fmn", threat), force=True)
    medians = nearest_mistakes(found, "fmn")
    assert medians is not None and nearest_mistakes(found, "clean") is None
    for c in range(K):
        mine = found.conditions["fmn"].linf[found.labels == c]
        if len(mine):
            assert medians[c] == pytest.approx(float(torch.from_numpy(mine).double().quantile(0.5)), abs=1e-7)
    assert summarise(found)["conditions"]["fmn"]["median_distance"][0] == pytest.approx(medians[0])
    stopped = audit(model, unbalanced, make_attacks("fmn", replace(threat, keep="fooled")), force=True)
    assert nearest_mistakes(stopped, "fmn") is None  # it stopped at the first mistake in the ball
