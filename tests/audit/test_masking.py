"""Signs of masking: made-up verdicts with known differences, and a real network whose gradients were taken away."""

from dataclasses import fields, replace

import numpy as np
import pytest
from torch import Tensor, nn

from leastwise.attacks.base import Clean
from leastwise.attacks.combine import Restarts
from leastwise.attacks.goals import CE
from leastwise.attacks.naming import Threat
from leastwise.attacks.pgd import PGD
from leastwise.attacks.registry import make_attack
from leastwise.attacks.square import Square
from leastwise.attacks.threats import Linf
from leastwise.audit.auditor import Conditions
from leastwise.audit.evidence import Evidence
from leastwise.audit.masking import find_signs, masking_sentences, restart_sentences
from leastwise.audit.record import ClassSums, ExampleFloats, ExampleInts, ReachedCounts, Record
from leastwise.core.recipe import canonical_json
from leastwise.core.types import Images
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import audit
from leastwise.models.zoo.registry import build
from tests.conftest import SHAPE, K

BALL = Linf(0.1)
PGD20 = PGD(BALL, CE(), 0.025, 20, keep="last")
N = 200  # images of each of three classes
NAMES = ("ant", "bee", "cow")


def made_up(conditions: Conditions, right: dict[str, list[int]], by: int = 0) -> Evidence:
    """Evidence in which of each class the first so many images stand."""
    labels = np.repeat(np.arange(3), N).astype(np.int32)
    place = np.tile(np.arange(N), 3)
    records = {}
    for name, _ in conditions:
        stands = place < np.array(right[name])[labels]
        predicted = np.where(stands, labels, (labels + 1) % 3).astype(np.int32)
        real, whole, square = np.zeros(len(labels), np.float32), np.zeros(len(labels), np.int32), np.zeros((3, 3))
        pairs = np.zeros((0, 0), np.int64)
        kinds: dict[object, object] = {
            ExampleInts: whole,
            ExampleFloats: real,
            ClassSums: square,
            ReachedCounts: pairs,
            int: 0,
        }
        empty = Record(**{f.name: kinds[f.type] for f in fields(Record)})
        records[name] = replace(empty, predicted=predicted, by=np.full(len(labels), by, np.int32))
    recipe = f'{{"conditions":{canonical_json(conditions)}}}'
    return Evidence(np.arange(len(labels)), labels, NAMES, records, recipe)


def test_an_attack_without_gradients_that_beats_one_with_them_is_a_sign_in_its_class_only() -> None:
    conditions = (("pgd20", PGD20), ("square", Square(BALL)))
    (sign,) = find_signs(made_up(conditions, {"pgd20": [120, 100, 80], "square": [120, 90, 85]}))
    assert (sign.weaker, sign.stronger, sign.classes) == ("square", "pgd20", (1,))
    assert sign.gains == (0.05,)
    assert "pgd20 left more standing than square (bee +5.0 points): an attack without gradients" in sign.sentence(NAMES)
    # Six images that only the weaker attack breaks have probability 1/64: no sign among three classes at 1 %.
    assert find_signs(made_up(conditions, {"pgd20": [120, 100, 80], "square": [120, 94, 85]})) == ()
    elsewhere = (("pgd20", PGD20), ("square", Square(Linf(0.2))))
    assert find_signs(made_up(elsewhere, {"pgd20": [120, 100, 80], "square": [120, 50, 85]})) == ()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(PGD20, steps=100), "more steps make the attack weaker"),
        (replace(PGD20, goal=CE(50.0)), "a lower temperature makes the attack weaker"),
    ],
)
def test_a_stronger_setting_that_does_worse_is_a_sign(other: PGD, words: str) -> None:
    conditions = (("pgd20", PGD20), ("other", other))
    (sign,) = find_signs(made_up(conditions, {"pgd20": [50, 50, 50], "other": [50, 50, 70]}))
    assert (sign.weaker, sign.stronger, sign.classes) == ("pgd20", "other", (2,)) and words in sign.why
    found = find_signs(made_up(conditions, {"pgd20": [50, 50, 70], "other": [50, 50, 50]}))
    assert [one.why[:14] for one in found] == (["its loss satur"] if other.steps == 20 else [])


def test_restarts_that_decide_many_verdicts_are_said() -> None:
    conditions = (("pgd20x5", Restarts(PGD20, 5)),)
    (said,) = restart_sentences(made_up(conditions, {"pgd20x5": [200, 197, 150]}, by=2))
    assert "cow 25.0 %" in said and "bee" not in said
    assert restart_sentences(made_up(conditions, {"pgd20x5": [200, 197, 150]}, by=0)) == ()


def test_a_network_whose_gradients_point_nowhere_is_caught(unbalanced: Dataset) -> None:
    net = build("convnet", SHAPE, K, seed=3)

    class Flipped(nn.Module):
        """Right forwards; backwards, the gradient of nothing."""

        def forward(self, x: Images) -> Tensor:
            z = net(x.detach())
            return z + 1e-6 * (x - x.detach()).flatten(1)[:, :1]

    threat = Threat(Linf(0.3), 0.075)
    attacks: Conditions = (
        ("clean", Clean()),
        ("pgd5", make_attack("pgd5", threat)),
        ("square", Square(Linf(0.3), queries=200)),
    )
    found = audit(Flipped(), unbalanced, attacks, force=True)
    lost = found.tally("pgd5").overall - found.tally("square").overall
    assert (lost > 0.3) == any("without gradients" in said for said in masking_sentences(found))
    assert lost > 0.3
