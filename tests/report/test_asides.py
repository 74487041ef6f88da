"""What the terminal and the page say besides the table."""

from dataclasses import replace

import numpy as np
import torch

from leastwise.core.counts import Tally
from leastwise.jobs.events import Planned
from leastwise.report.condition_stats import find_attackers_pick, side_sentences
from leastwise.report.export import table_latex
from leastwise.report.terminal.view import plan_text, tally_text
from tests.report.evidence_made_up import evidence


def test_what_8_bits_leave_of_an_attack_is_counted() -> None:
    found = evidence(10, 50)
    attacked = found.conditions["pgd20"]
    wrong = np.flatnonzero(attacked.predicted != found.labels)
    assert side_sentences(found) == ()
    rounded = attacked.predicted.copy()
    rounded[wrong[:3]] = found.labels[wrong[:3]]  # three attacks fail as images of 8 bits
    found = replace(found, conditions=found.conditions | {"pgd20": replace(attacked, rounded=rounded)})
    survived = 500 - len(wrong)
    (said,) = side_sentences(found)
    now, before = (f"{100 * n / 500:.1f} %" for n in (survived + 3, survived))
    assert said == f"Rounded to 8 bits, {now} survive pgd20 (+3 images), as it is {before}."


def test_a_budget_below_one_shard_is_said() -> None:
    assert "shorter than one shard" in plan_text(Planned(1, 1, 5.0, over=True))
    assert plan_text(Planned(1, 1, 5.0)) == ""
    assert plan_text(Planned(3, 2, 15.0)) == "3 shards take about 15 s; the time budget is enough for 2 of them"


def test_of_equally_bad_conditions_the_headline_takes_an_attack_and_ties_are_all_bold() -> None:
    found = evidence(10, 50)
    wrong = ((found.labels + 1) % 10).astype(np.int32)
    conditions = {name: replace(found.conditions[name], predicted=wrong) for name in found.conditions}
    fallen = replace(found, conditions=conditions)
    assert find_attackers_pick(fallen).condition == "autoattack" and find_attackers_pick(fallen).ties == 10
    assert table_latex(fallen).count(r"\textbf") == 30
    assert table_latex(found).count(r"\textbf") >= 3


def test_classes_that_share_the_last_place_are_counted() -> None:
    tied = Tally(torch.tensor([4, 4, 0, 4]), torch.tensor([1, 1, 0, 3]))
    names = ("ant", "bee", "cow", "dog")
    assert tally_text(tied, names) == "41.7 % (worst 2 classes 25.0 %)"
    assert tally_text(Tally(tied.n, torch.tensor([1, 2, 0, 3])), names) == "50.0 % (worst ant 25.0 %)"
