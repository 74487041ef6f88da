"""Losses of twenty steps of every method, as they were when they were written down."""

import json

import pytest

from tests.training.golden import FILE, recipes, run

WRITTEN = json.loads(FILE.read_text())


def test_every_run_is_written_down() -> None:
    assert set(WRITTEN) == set(recipes()) and all(len(losses) == 20 for losses in WRITTEN.values())


@pytest.mark.medium
@pytest.mark.parametrize("name", recipes())
def test_the_losses_of_twenty_steps(name: str) -> None:
    assert run(name)["losses"] == pytest.approx(WRITTEN[name], rel=1e-6)
