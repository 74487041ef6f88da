"""Settings that change by epochs, and settings with a number for each class, from Python and as text."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from leastwise.attacks.threats import Linf, Zero
from leastwise.core.recipe import canonical_json
from leastwise.models.zoo.registry import build
from leastwise.training.attack_steps import Rising
from leastwise.training.compose import apply_radii, apply_terms
from leastwise.training.loop import fit
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.standard import Standard
from leastwise.training.methods.trades import TRADES
from leastwise.training.policies.fixed import ClassRadii, ClassWeights
from leastwise.training.recipe import Training, Validation
from leastwise.training.registry import METHODS, read_timetable
from leastwise.training.schedules import OneCycle
from leastwise.training.timetable import Timetable
from tests.conftest import B, K
from tests.forked_commands import leastwise
from tests.training.batches_and_losses import ON_CE, ON_KL, batch, blobs, fresh

FAT = METHODS["fat"].make(Linf(8 / 255), 2 / 255, 10)


def test_the_patience_of_friendly_training_is_that_of_its_code() -> None:
    """Epochs count from 1 there: τ = 0 up to the 50th, 1 up to the 90th, then 2, of 120."""
    table = read_timetable(FAT, "attack.patience=0,1@50/120,2@90/120")
    training = Training(FAT, 120, timetables=(table,))
    found = [training.objective_in(epoch).attack.patience for epoch in range(120)]
    assert found == [0 if number <= 50 else 1 if number <= 90 else 2 for number in range(1, 121)]
    assert training.objective_in(0) == replace(FAT, attack=replace(FAT.attack, patience=0))


def test_any_number_of_the_method_may_change_and_a_word_too() -> None:
    tables = (read_timetable(TRADES(), "beta=1,6@0.5"), read_timetable(TRADES(), "attack.start=zero,gaussian@0.25"))
    training = Training(TRADES(), 4, timetables=tables)
    assert [training.objective_in(epoch).beta for epoch in range(4)] == [1.0, 1.0, 6.0, 6.0]
    starts = [type(training.objective_in(epoch).attack.start).__name__ for epoch in range(4)]
    assert starts == ["Zero", "Gaussian", "Gaussian", "Gaussian"]


def test_a_training_under_a_timetable_is_two_trainings_one_behind_the_other() -> None:
    """Epochs with beta 1 and then 6, by hand: the loop is given each of them with the state of the other."""
    data = blobs((30, 20, 15, 10, 5), shape=(3, 8, 6))
    base = Training(TRADES(ON_KL, beta=6.0), 2, 20, OneCycle(0.1), validation=Validation(0))
    table = Timetable("beta", ((0.0, 1.0), (0.5, 6.0)))

    def train(training: Training, model: nn.Module, after: object = None) -> tuple[nn.Module, list[object]]:
        return model, list(fit(model, data, training, after=after))

    both, _ = train(replace(base, timetables=(table,)), build("convnet", data.shape, data.k, seed=3).double())
    first = build("convnet", data.shape, data.k, seed=3).double()
    steps = fit(first, data, replace(base, objective=TRADES(ON_KL, beta=1.0)))
    half = next(steps)
    second, _ = train(base, first, half)
    assert all(torch.equal(a, b) for a, b in zip(both.parameters(), second.parameters(), strict=True))


def test_recipes_without_timetables_keep_their_keys() -> None:
    plain = Training(FAT, 12)
    told = canonical_json(plain)
    assert "timetables" not in told and "literal" not in told and "reflect" not in told
    assert told != canonical_json(Training(FAT, 12, timetables=(Timetable("attack.patience", ((0.0, 1),)),)))


STEPS = Timetable("attack.steps", ((0.0, 3),))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Timetable("beta", ((0.5, 1.0),)), "values of beta need rising shares of the training, the first 0"),
        (lambda: Timetable("beta", ((0.0, 1.0), (0.5, 2.0), (0.5, 3.0))), "need rising shares"),
        (lambda: Timetable("beta", ((0.0, 1.0), (1.0, 2.0))), "all below 1, but saw 0, 1"),
        (lambda: read_timetable(FAT, "attack.patienc=0,1@0.5"), "PGD has no setting 'patienc'"),
        (lambda: read_timetable(FAT, "attack.patience=0,1@half"), "the share of attack.patience"),
        (lambda: Training(FAT, timetables=(Timetable("attack.size", ((0.0, 1.0),)),)), "no setting size that could"),
        (lambda: Training(FAT, attack_steps=Rising(), timetables=(STEPS,)), "two rules"),
    ],
)  # fmt: skip
def test_a_timetable_that_cannot_be_is_one_sentence(make: object, sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        make()
    assert sentence in str(error.value)


NUMBERS = (0.5, 1.0, 2.0, 0.0, 1.5)


def test_class_weights_multiply_the_loss_by_hand() -> None:
    model, (x, y, noise) = fresh(), batch()
    policy = ClassWeights(NUMBERS)
    terms = PGDAT(ON_CE).loss(model, x, y, PGDAT(ON_CE).craft(model, x, y, noise))
    found = apply_terms(terms, ((policy, policy.init(torch.ones(K, dtype=torch.int64))),), y).per_example
    by_hand = [NUMBERS[label] * one for label, one in zip(y.tolist(), terms.per_example.tolist(), strict=True)]
    assert found.tolist() == pytest.approx(by_hand, rel=1e-12)


def test_class_radii_scale_radius_and_step_by_hand() -> None:
    """Every point is where plain PGD with its own class's radius and step goes, image by image."""
    model, (x, y, noise) = fresh().eval(), batch()
    policy, plain = ClassRadii(NUMBERS), replace(ON_CE, start=Zero())
    held = ((policy, policy.init(torch.ones(K, dtype=torch.int64))),)
    found = apply_radii(PGDAT(plain), held, y).craft(model, x, y, noise)
    for row, label in enumerate(y.tolist()):
        factor, at = NUMBERS[label], x[row : row + 1]
        for _ in range(plain.steps):
            at = at.detach().requires_grad_()
            loss = nn.functional.cross_entropy(model(at), y[row : row + 1])
            (gradient,) = torch.autograd.grad(loss, at)
            moved = at + factor * plain.step * gradient.sign() - x[row]
            at = (x[row] + moved.clamp(-factor * 0.1, factor * 0.1)).clamp(0, 1)
        assert torch.allclose(found[row], at[0], rtol=0, atol=1e-12)
    assert len(y) == B and torch.equal(found[y == 3], x[y == 3])  # radius 0


@pytest.mark.parametrize("given", [(), (1.0, 2.0), (1.0, -1.0, 1.0, 1.0, 1.0), (0.0,) * K, (float("nan"),) * K])
def test_numbers_of_classes_that_make_no_sense_are_refused(given: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"class-weights\.weight needs"):
        ClassWeights(given).init(torch.ones(K, dtype=torch.int64))


def test_class_radii_need_an_attack() -> None:
    assert "does not attack" in ClassRadii(NUMBERS).obstacle(Standard()) and not ClassRadii(NUMBERS).obstacle(PGDAT())


def test_all_of_it_reaches_a_training_from_the_command_line(tmp_path: Path) -> None:
    """Vectors, start and goal of the training attack, the validation attack, a timetable, mirrored padding, L2-Adam."""
    small = "train fat --model convnet --per-class 12 --valid-per-class 2 --epochs 2 --steps 2 --eps 0.1 --out t"
    vectors = "--fair class-weights,class-radii --augment reflect-crop-flip --optimiser adam --rate 0.001"
    settings = (
        "class-weights.weight=1,1,1,1,1,1,3,1,1,1",
        "class-radii.factor=1,1,1,1,1,1,0.5,1,1,1",
        "attack.start=zero",
        "attack.goal=literal-ce",
        "attack.patience=0,1@1/2",
        "validation.attack.goal=margin",
        "validation.attack.steps=3",
        "validation.attack.start=zero",
    )
    given = [word for setting in settings for word in ("--set", setting)]
    done = leastwise(*small.split(), *vectors.split(), *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    training = json.loads((tmp_path / "t" / "recipe.json").read_text())["recipe"]["training"]
    assert training["policies"][0]["weight"] == [1, 1, 1, 1, 1, 1, 3, 1, 1, 1]
    assert training["policies"][1]["factor"][6] == 0.5 and training["optimiser"]["type"] == "L2Adam"
    assert {"type": "PadCrop", "pad": 4, "reflect": True} in next(
        v for v in training["augment"].values() if v != "Chain"
    )
    attack = training["objective"]["attack"]
    assert attack["start"]["type"] == "Zero" and attack["goal"]["literal"] is True
    assert training["timetables"] == [{"type": "Timetable", "setting": "attack.patience", "points": [[0, 0], [0.5, 1]]}]
    checked = training["validation"]["attack"]
    assert (checked["goal"]["type"], checked["steps"], checked["start"]["type"]) == ("Margin", 3, "Zero")
