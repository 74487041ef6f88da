"""The check of survivors and what attacks saw twice: tests with known chances, and models whose answers are known."""

import json
from dataclasses import replace
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from leastwise.attacks.base import Clean
from leastwise.attacks.codes import UNCONFIRMED
from leastwise.attacks.goals import CE, Margin
from leastwise.attacks.naming import Threat
from leastwise.attacks.pgd import PGD
from leastwise.attacks.registry import make_attack
from leastwise.attacks.square import Square
from leastwise.attacks.threats import L1, L2, Linf
from leastwise.audit.auditor import find_reach, group_by_ball, make_auditor
from leastwise.audit.evidence import parse_evidence
from leastwise.audit.masking import (
    MOST_SAMPLED,
    cautions,
    check_remarks,
    check_some,
    compare_conditions,
    describe_unconfirmed,
    order_survivors,
)
from leastwise.audit.record import SurvivorCheck, find_suspect
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import audit
from leastwise.models.classifier import wrap
from leastwise.models.preflight import check_model
from leastwise.report.summary import summarise
from tests.audit.tiny_networks import K, Through, audited_images, plain
from tests.insight.evidence_of_logits import evidence_of, predicting

BALL = Linf(0.05)
PGD10 = PGD(BALL, CE(), 0.0125, 10, keep="fooled")


def check_of(attacked: tuple[int, ...], broken: tuple[int, ...]) -> SurvivorCheck:
    return SurvivorCheck(("pgd",), "Linf eps 0.1", "square", 99, tuple(range(len(attacked))), attacked, broken)


def test_the_check_fires_by_the_binomial_law() -> None:
    """Of 40 with 5 % each, 7 or more fall with probability 0.0034 and 6 or more with 0.0139."""
    assert check_of((10,) * 4, (2, 2, 2, 1)).p == pytest.approx(0.0034, abs=5e-5)
    assert check_of((10,) * 4, (2, 2, 2, 1)).fires
    assert not check_of((10,) * 4, (2, 2, 1, 1)).fires
    # One class alone: 4 of 5 have probability 3e-5, below a tenth of 1 %; 3 of 5 have 0.0012.
    assert check_of((5,) * 10, (4, *(0,) * 9)).worst_classes == (0,)
    assert not check_of((5,) * 10, (3, *(0,) * 9)).fires
    # 1,000 classes with one survivor each in the sample: all together still tell.
    assert check_of((1,) * 50, (1,) * 12 + (0,) * 38).fires


def test_few_images_per_class_are_pooled_in_the_sign_test() -> None:
    """White-box 60 %, Square 30 %, ten images of each of five classes: no class is significant, all together are."""
    labels = np.repeat(np.arange(5), 10)
    place = np.tile(np.arange(10), 5)
    stands = {"square": place < 3, "pgd": place < 6}
    evidence = evidence_of(
        {name: predicting(np.where(right, labels, (labels + 1) % 5), 5) for name, right in stands.items()}, labels
    )
    sign = compare_conditions(evidence, "square", "pgd", why="so")
    assert sign is not None and sign.classes == () and sign.pooled == pytest.approx(0.3)
    assert "(over all classes +30.0 points)" in sign.sentence(evidence.names)
    few = evidence_of(
        {"square": predicting(np.where(place > 0, labels, (labels + 1) % 5), 5), "pgd": predicting(labels, 5)}, labels
    )
    assert compare_conditions(few, "square", "pgd", why="so") is None  # 2^-5 is no news


def test_conditions_are_grouped_by_ball_and_targets_are_left_out() -> None:
    threat = Threat(BALL, 0.01)
    conditions = tuple(
        (name, make_attack(name, threat)) for name in ("clean", "pgd2", "tpgd2", "square:9", "autoattack")
    )
    wide = ("pgd2[0.1]", make_attack("pgd2[0.1]", threat))
    towards = ("to", PGD10.toward(torch.tensor([1])))
    found = group_by_ball((*conditions, wide, towards))
    assert [(str(ball), names) for ball, names in found] == [
        ("Linf eps 0.05", ("pgd2", "tpgd2", "autoattack")),
        ("Linf eps 0.1", ("pgd2[0.1]",)),
    ]
    assert find_reach([attack for _, attack in (*conditions, wide)], 784) == 0.1
    assert find_reach((PGD(L2(2.8)),), 784) == pytest.approx(0.1)
    assert find_reach((Clean(), Square(BALL)), 784) == 0


def test_the_sample_has_as_many_of_every_class_as_there_are() -> None:
    labels = np.repeat(np.arange(5), (100, 100, 3, 0, 100))
    data = Dataset.of(np.zeros((len(labels), 1, 2, 2), np.uint8), labels, tuple("abcde"))
    chosen = order_survivors(data, np.arange(len(labels)), 0)[:MOST_SAMPLED]
    assert len(chosen) == MOST_SAMPLED == len(set(chosen.tolist()))
    assert sorted(np.bincount(labels[chosen], minlength=5).tolist()) == [0, 3, 15, 16, 16]
    assert not np.array_equal(chosen, order_survivors(data, np.arange(len(labels)), 1)[:MOST_SAMPLED])
    some = order_survivors(data, np.array([3, 150, 202]), 0)  # positions, not places among the survivors
    assert sorted(some.tolist()) == [3, 150, 202]


def test_a_class_that_looks_bad_is_looked_at_again() -> None:
    """1 of 4 is no news; 2 of 4 have probability 0.014, 3 of 4 less than 0.0005, the level of one of ten classes."""
    labels = np.repeat(np.arange(3), 4)
    assert find_suspect(labels, np.isin(np.arange(12), (0, 5, 9))) == -1
    assert find_suspect(labels, np.isin(np.arange(12), (0, 5, 6))) == 1
    assert check_of((4,) * 10, (0, 3, *(0,) * 8)).worst_classes == (1,)  # 0.00048
    assert check_of((5,) * 10, (0, 3, *(0,) * 8)).worst_classes == ()
    # Half of the last class would fall, of the others nothing: a fifth of the sample follows it.
    model = Through(plain(), before=lambda x: x)
    auditor = make_auditor(model, audited_images(), (("pgd10", PGD10),))
    stood = np.arange(len(audited_images()))
    check = check_some(auditor, audited_images(), stood, ball=BALL, names=("pgd10",), crafted_on=auditor.model, most=20)
    assert check.sampled == 20 and max(check.attacked) > 2


def test_a_check_goes_into_evidence_and_summary_but_not_into_the_key() -> None:
    net = Through(plain(), before=lambda x: (x[:, :, :3] - x[:, :, :3]).sum() + x)
    conditions = (("clean", Clean()), ("pgd10", PGD10))
    checked = audit(net, audited_images(), conditions)
    bare = audit(net, audited_images(), conditions, check=False)
    assert checked.key == bare.key and bare.checks == () and len(checked.checks) == 1
    assert b'"checks"' not in bare.to_bytes() and parse_evidence(bare.to_bytes(), files("leastwise")).checks == ()  # type: ignore[arg-type]
    again = parse_evidence(checked.to_bytes(), files("leastwise"))  # type: ignore[arg-type]
    assert again.checks == checked.checks and again.to_bytes() == checked.to_bytes()
    made = summarise(checked)
    schema = json.loads((files("leastwise.report") / "summary.schema.json").read_text())
    jsonschema.validate(made, schema)
    (told,) = made["checks"]
    assert told["conditions"] == ["pgd10"] and told["survivors"] == int(checked.correct("pgd10").sum())
    assert made["provenance"]["passes"]["check of survivors"]["forwards"] == checked.checks[0].forwards > 0
    assert check_remarks(checked)[0].startswith("square with 120 queries") and cautions(checked) == ()
    fired = replace(checked, checks=(check_of((10,) * 4, (9, 9, 9, 9)),), warnings=("something else",))
    assert cautions(fired)[0].startswith("the robust accuracy under pgd is too high") and summarise(fired)["unreliable"]


def test_a_ball_without_a_query_attack_is_said_not_to_be_checked() -> None:
    found = audit(plain(), audited_images(), (("pgd", PGD(L1(5.0), step=1.0, steps=2)),))
    assert check_remarks(found) == (
        "survivors of pgd (L1 eps 5) were not checked: no attack without gradients knows this ball",
    )


class Hesitant(nn.Module):
    """Sees brighter images whenever gradients are wanted: what fools it then need not fool it when asked again."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x * 0.8 if torch.is_grad_enabled() else x)


def test_points_that_do_not_fool_twice_are_counted_by_class_and_called_random() -> None:
    found = audit(Hesitant(plain()), audited_images(), (("pgd10", PGD10),), force=True)
    record = found.conditions["pgd10"]
    lost = record.trouble == UNCONFIRMED
    assert lost.sum() > 5 and found.correct("pgd10")[lost].all() and (record.step[lost] >= 0).all()
    assert found.unconfirmed("pgd10").tolist() == [int(lost[found.labels == c].sum()) for c in range(K)]
    said, random = describe_unconfirmed(found, "pgd10")
    assert random and "the model is random" in said and "autoattack-rand" in said and said in cautions(found)
    assert summarise(found)["conditions"]["pgd10"]["unconfirmed"] == found.unconfirmed("pgd10").tolist()
    sound = audit(plain(), audited_images(), (("pgd10", PGD10),), check=False)
    assert describe_unconfirmed(sound, "pgd10") == ("", False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: (x - 0.5) / 0.25, "put the normalisation into the model"),
        (lambda x: 255 * x, "divide them by 255"),
        (lambda x: x / 0, "not finite"),
    ],
)
def test_attacks_called_from_python_refuse_other_pixels(change, words: str) -> None:  # type: ignore[no-untyped-def]
    x, y, _ = audited_images().batch(np.arange(4))
    for attack in (PGD10, Square(BALL, queries=3), Clean()):
        with pytest.raises(ValueError, match=words):
            attack(plain(), change(x), y)
        assert attack(plain(), x, y).shape == x.shape


def test_a_far_better_normalisation_is_named_with_its_flags() -> None:
    """The network learned on pixels as they are; this one expects Fashion-MNIST's statistics instead."""
    expects = Through(plain(), before=lambda x: 0.3530 * x + 0.2860)
    x, y, _ = audited_images().batch(np.arange(100))
    said = check_model(wrap(expects, K), x, K, y=y, gradients=False)
    assert any("with Fashion-MNIST's on 74" in one and "give --mean 0.286 --std 0.353" in one for one in said)
    assert check_model(wrap(expects, K, mean=(0.2860,), std=(0.3530,)), x, K, y=y, gradients=False) == ()
    (twice,) = check_model(wrap(plain(), K, mean=(0.5,), std=(0.5,)), x, K, y=y, gradients=False)
    assert twice.startswith("with mean 0.5 and std 0.5 the model is right on") and "no --mean and --std" in twice


def test_what_the_sample_says_of_all_survivors_is_unbiased_for_unequal_classes() -> None:
    """Classes with 90, 40, 10 and 0 survivors of 200 images, of which 10, 50, 100 % would fall: 39 in all."""
    stood, falling = np.array([90, 40, 10]), np.array([9, 20, 10])
    rng, found = np.random.default_rng(0), []
    for _ in range(2000):
        attacked = (10, 10, 10)
        broken = tuple(int(b) for b in rng.hypergeometric(falling, stood - falling, attacked))
        check = replace(check_of(attacked, broken), survivors=140, stood=(90, 40, 10), images=200)
        assert check.excess is not None
        found.append(check.excess)
    assert np.mean(found) == pytest.approx(39 / 200, abs=4 * np.std(found) / len(found) ** 0.5)
    assert check_of((5,), (1,)).excess is None  # evidence of 0.1
    part = replace(check_of((1, 1), (1, 0)), survivors=100, stood=(2, 2), images=1000)  # of a hundred classes two
    assert part.excess == pytest.approx(0.05)


@pytest.mark.parametrize("scale", [5, 10, 100])
def test_cross_entropy_on_small_logits_is_said_to_be_weak_in_points(scale: float) -> None:
    """Its number is a few points too high, too few for an alarm: the check says how many, and so corrects it."""
    conditions = (("pgd10", PGD10),)
    known = audit(plain(), audited_images(), (("margin", replace(PGD10, goal=Margin(kappa=1e9))),), check=False)
    found = audit(Through(plain(), after=lambda z: z / scale), audited_images(), conditions)
    (check,) = found.checks
    assert check.excess is not None
    corrected = found.tally("pgd10").overall - check.excess
    assert abs(corrected - known.tally("margin").overall) < 0.03 < check.excess
    assert cautions(found) or "points of the accuracy," in check_remarks(found)[0]


def test_copies_of_images_are_a_caution_of_every_audit() -> None:
    data = audited_images()
    twice = Dataset.of(np.repeat(data.images[data.rows], 2, axis=0), np.repeat(data.labels, 2), data.names)
    (said,) = cautions(audit(plain(), twice, (("clean", Clean()),)))
    assert said.startswith("100 of 200 images are exact copies of others: intervals and tests")
