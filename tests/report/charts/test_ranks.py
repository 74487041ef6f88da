"""The chart of how sure ranks are: for more than twenty classes, worst mean rank first."""

import numpy as np

from leastwise.report.condition_stats import compute_stats
from leastwise.report.figures import order_figures
from tests.report.evidence_made_up import evidence


def test_every_class_has_its_interval_in_the_order_of_mean_ranks() -> None:
    found = compute_stats(evidence(43, 50), "pgd20")
    (figure,) = order_figures({"pgd20": found}, "pgd20")
    packed = next(iter(figure.spec["datasets"].values()))[0]
    order = np.argsort(found.ranks.mean, kind="stable")
    assert packed["name"] == [found.names[c] for c in order] and packed["place"] == list(range(1, 44))
    assert packed["low"] == found.ranks.low[order].tolist() and packed["high"] == found.ranks.high[order].tolist()
    width = np.median(found.ranks.high - found.ranks.low + 1)
    assert figure.caption == f"the interval of a class holds {width:.0f} of 43 ranks (median)"


def test_few_classes_need_no_such_chart() -> None:
    assert order_figures({"pgd20": compute_stats(evidence(10, 30), "pgd20")}, "pgd20") == []
