"""How far a reader has to walk (`make walks`)."""

import pytest
from scripts.walks import LIMITS, take_all


@pytest.mark.slow
def test_walks_are_short() -> None:
    found = take_all()
    assert {key: value for key, value in found.items() if value > LIMITS[key]} == {}
