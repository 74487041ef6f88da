"""Progress in plain lines: how long the rest takes."""

import pytest

from leastwise.report.terminal.view import time_left


def test_time_left_counts_only_what_was_done_since_it_went_on() -> None:
    """A training resumed at 30 % that did 10 % in 60 s needs 360 s for the other 60 %."""
    assert time_left(100.0, 0.3, 160.0, fraction=0.4) == pytest.approx(360.0)


def test_time_left_from_the_start() -> None:
    assert time_left(0.0, 0.0, 30.0, fraction=0.25) == pytest.approx(90.0)


@pytest.mark.parametrize(("now", "fraction"), [(1.0, 0.5), (60.0, 0.3), (60.0, 1.0)])
def test_no_time_left_before_it_means_something_and_at_the_end(now: float, fraction: float) -> None:
    assert time_left(0.0, 0.3, now, fraction=fraction) is None
