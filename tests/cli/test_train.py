"""`leastwise train` as a user meets it: policies that cannot act, what FRL was published with, and what is recorded."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from leastwise.attacks.goals import CE
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf, Uniform
from leastwise.cli.train import Train
from leastwise.core.noise import Noise
from leastwise.data.loading import load
from leastwise.models.classifier import inference
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.training.attack_steps import Rising
from leastwise.training.schedules import Constant
from tests.forked_commands import leastwise

FEW = ("--model", "convnet", "--per-class", "20", "--epochs", "2", "--steps", "1", "--eps", "0.1")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ("standard", "--fair", "cfa"),
            "CFA changes radii and the weight of the divergence, and Standard leaves it neither",
        ),
        (("pgd-at", "--fair", "frl"), "PGDAT has no divergence: use trades"),
        (("trades", "--fair", "frl,frl-both"), "FRL would act twice"),
        (("pgd-he",), "its last layer is a Linear: use a cosine head, such as --model small+cosine"),
        (("pgd-at", "--set", "attack.start.size=1"), "attack.start is from a uniform start, which has no settings"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_what_cannot_act_is_refused_in_one_sentence(words: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    shown = leastwise("train", *words, *FEW, "--out", str(tmp_path / "t"))
    assert shown.returncode == 2 and reason in " ".join(shown.stderr.split()) and not (tmp_path / "t").exists()


def test_frl_is_what_was_published_unless_something_else_is_asked_for() -> None:
    training = Train("trades", fair="frl").job().training
    assert training.objective.beta == 1.5 and training.schedule == Constant(0.001)
    assert training.validation.attack == PGD(Linf(8 / 255), CE(), 2 / 255, 20, Uniform())
    assert Train("trades", fair="frl-remargin").job().training.objective.beta == 1
    other = Train("trades", fair="frl", schedule="cosine", set=("beta=6", "validation.attack.steps=7")).job().training
    assert other.objective.beta == 6 and other.schedule != Constant(0.001) and other.validation.attack.steps == 7
    assert Train("trades").job().training.validation.attack is None
    assert Train("trades", set=("validation.attack.steps=20",)).job().training.validation.attack.steps == 20


def test_attack_steps_go_by_name_with_settings() -> None:
    found = Train("pgd-at", attack_steps="rising", set=("rising.first=2", "rising.stretch=true")).job().training
    assert found.attack_steps == Rising(first=2, stretch=True)
    assert Train("pgd-at").job().training.attack_steps is None
    with pytest.raises(ValueError, match="Standard has no attack whose steps"):
        Train("standard", attack_steps="rising").job()


def test_frl_warns_unless_it_begins_with_a_robust_network(tmp_path: Path) -> None:
    shown = leastwise("train", "trades", "--fair", "frl", *FEW, "--out", str(tmp_path / "scratch"))
    assert shown.returncode == 0 and "begins from scratch: give a robust checkpoint" in " ".join(shown.stdout.split())
    leastwise(
        "train", "standard", "--model", "convnet", "--per-class", "100", "--epochs", "4", "--out", str(tmp_path / "s")
    )
    start = ("--start", str(tmp_path / "s" / "model.pt"))
    shown = leastwise("train", "trades", "--fair", "frl", *FEW, *start, "--eps", "0.3", "--out", str(tmp_path / "from"))
    assert shown.returncode == 0 and "is not robust at this radius" in " ".join(shown.stdout.split())
    shown = leastwise(
        "train", "trades", "--fair", "frl", *FEW, *start, "--eps", "0.001", "--out", str(tmp_path / "kept")
    )
    assert shown.returncode == 0 and "warning" not in shown.stdout


@pytest.mark.parametrize("method", ["avmixup", "single-class-at", "trades"])
def test_robust_in_the_record_is_robust_accuracy_whatever_is_trained_on(method: str, tmp_path: Path) -> None:
    """Against an attack by hand on the recorded images, with the weights of the last epoch."""
    fair = ("--fair", "dafa", "--set", "dafa.warmup=0.5") if method == "trades" else ()
    words = ("--model", "convnet", "--per-class", "60", "--epochs", "2", "--steps", "2", "--eps", "0.1")
    words = (*words, "--valid-per-class", "0")
    assert leastwise("train", method, *words, *fair, "--out", str(tmp_path / "t")).returncode == 0
    line = json.loads((tmp_path / "t" / "epochs.jsonl").read_text().splitlines()[-1])
    data = load("fashion-mini/train").take(60).take(3)  # a twentieth of 600 images
    model = load_checkpoint(tmp_path / "t" / "last.pt")
    x, y, ids = data.batch(np.arange(len(data)))
    attack = PGD(Linf(0.1), CE(), 0.025, 10, Uniform())
    with inference(model):
        right = model(attack.perturb(model, x, y, Noise(0, ids, "/valid"))).argmax(1) == y
    assert line["robust"]["n"] == [3] * 10
    counted = torch.bincount(y[right], minlength=10).tolist()
    # The attack looks at a folded copy, so that a single image may end on the other side.
    assert sum(abs(a - b) for a, b in zip(line["robust"]["correct"], counted, strict=True)) <= 1
    assert sum(line["attacked"]["n"]) == 600 and "robust" not in {*line.get("valid", {})}


def test_a_threshold_that_is_never_met_is_said(tmp_path: Path) -> None:
    words = ("train", "pgd-at", *FEW, "--average", "fawa", "--set", "fawa.threshold=1", "--out", str(tmp_path / "t"))
    shown = leastwise(*words)
    assert shown.returncode == 0 and "no epoch met the averaging's condition" in " ".join(shown.stdout.split())
    assert any("no epoch met" in note for note in load_checkpoint(tmp_path / "t" / "model.pt").notes)


def test_a_student_takes_a_teacher_of_another_architecture(tmp_path: Path) -> None:
    taught = str(tmp_path / "teacher" / "model.pt")
    leastwise("train", "pgd-at", *FEW, "--out", str(tmp_path / "teacher"))
    few = ("--model", "lenet5", *FEW[2:])
    out = tmp_path / "student"
    shown = leastwise("train", "rslad", "--fair", "absld,fair-ard", *few, "--teacher", taught, "--out", str(out))
    assert shown.returncode == 0, shown.stderr
    claim = json.loads((out / "recipe.json").read_text())
    assert claim["recipe"]["teacher"] == taught and claim["teacher"] == load_checkpoint(Path(taught)).digest()
    again = leastwise("train", "rslad", "--fair", "absld,fair-ard", *few, "--teacher", taught, "--out", str(out))
    assert "done before" in again.stdout
    without = leastwise("train", "rslad", *few, "--out", str(tmp_path / "x"))
    assert without.returncode == 2 and "give its checkpoint with --teacher FILE" in " ".join(without.stderr.split())
    idle = leastwise("train", "trades", *few, "--teacher", taught, "--out", str(tmp_path / "x"))
    assert idle.returncode == 2 and "TRADES has no use for a teacher" in " ".join(idle.stderr.split())
    assert not (tmp_path / "x").exists()
