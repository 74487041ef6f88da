"""A race over a network: every image at most once, the same rounds after an interruption, an honest answer."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from leastwise.attacks.goals import CE, Margin
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.audit.auditor import Auditor, make_auditor
from leastwise.audit.race import RaceRecipe, attack_here, conclude, find_right, order_by_class, race
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.jobs.audit_task import AuditTask
from leastwise.jobs.events import JobEvent
from leastwise.jobs.folder import RACE, SHARDS
from leastwise.jobs.race_task import RaceTask
from leastwise.models.classifier import inference
from leastwise.models.zoo.registry import build
from leastwise.report.terminal.race import race_sentence
from leastwise.statistics.race import RaceAim, Round
from leastwise.training.loop import fit
from leastwise.training.recipe import Training
from tests.audit.misbehaviour import Counting, backward_as, repeats_after
from tests.audit.tiny_networks import Through, Whole

ATTACK = PGD(Linf(0.02), CE(), step=0.01, steps=3, keep="fooled")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load("fashion-mini/test").take(60)


@pytest.fixture(scope="module")
def judge(data: Dataset) -> Auditor:
    model = build("convnet", data.shape, data.k, seed=0)
    for _ in fit(model, load("fashion-mini/train").take(50), Training(epochs=8)):
        pass
    return make_auditor(model, data, (("pgd3", ATTACK),), batch_size=50)


def rounds(judge: Auditor, data: Dataset) -> list[Round]:
    places, right = order_by_class(judge, data), find_right(judge, data)
    return list(race(RaceRecipe(judge.key, 4), places, right, attack=attack_here(judge, data, judge.model)))


def test_a_race_sees_what_an_audit_sees(judge: Auditor, data: Dataset) -> None:
    whole = AuditTask(judge, data, None).attack()
    places = order_by_class(judge, data)
    assert sorted(np.concatenate(places).tolist()) == list(range(len(data)))
    right = dict(zip(whole.ids.tolist(), whole.correct("pgd3").tolist(), strict=True))
    clean = find_right(judge, data)
    with torch.no_grad(), inference(judge.model):
        z = judge.model(data.batch(np.arange(len(data))).x)
    assert clean.tolist() == (z.argmax(dim=1).numpy() == data.labels).tolist()
    last = rounds(judge, data)[-1]
    for c in range(data.k):
        able = [place for place in places[c] if clean[place]]  # only images that are right as they are
        seen = data.ids[able[: last.attacked[c]]]
        assert last.survived[c] == sum(right[i] for i in seen.tolist())
    accuracy = whole.tally("pgd3").accuracy.numpy()
    assert int(accuracy.argmin()) in last.contenders


def test_an_interrupted_race_goes_on_and_attacks_nothing_twice(judge: Auditor, data: Dataset, tmp_path: Path) -> None:
    recipe = RaceRecipe(judge.key, 4)
    RaceTask(judge, data, tmp_path / "whole", recipe).run()
    seen = []

    def stop(event: JobEvent) -> None:
        if isinstance(event, Round):
            seen.append(event)
            if len(seen) == 1:
                raise KeyboardInterrupt

    task = RaceTask(judge, data, tmp_path / "cut", recipe)
    with pytest.raises(KeyboardInterrupt):
        task.run(stop)
    assert not task.finished
    kept = sorted(path.name for path in (tmp_path / "cut" / SHARDS).glob("*.json"))
    assert kept == ["000000.json"]
    assert (tmp_path / "cut" / SHARDS / "right.bits").is_file()
    before = (tmp_path / "cut" / SHARDS / kept[0]).stat().st_mtime_ns
    again: list[Round] = []

    def look(event: JobEvent) -> None:
        if isinstance(event, Round):
            if not again:
                assert (tmp_path / "cut" / SHARDS / kept[0]).stat().st_mtime_ns == before
            again.append(event)

    task.run(look)
    assert task.finished and not (tmp_path / "cut" / SHARDS).exists()
    assert (tmp_path / "cut" / RACE).read_bytes() == (tmp_path / "whole" / RACE).read_bytes()
    assert again[-1].attacked.tolist() == rounds(judge, data)[-1].attacked.tolist()


def test_the_answer_says_what_was_asked_and_what_was_spent(judge: Auditor, data: Dataset, tmp_path: Path) -> None:
    task = RaceTask(judge, data, tmp_path, RaceRecipe(judge.key, 4))
    task.run()
    found = json.loads((tmp_path / RACE).read_text())
    assert found["attacked"] == sum(found["by_class"]["attacked"]) < found["images"] == 600
    assert found["rounds"] == len(rounds(judge, data)) and found["question"] == "this-test-set"
    gone = [row["class"] for row in found["eliminated"]]
    assert sorted(gone + found["contenders"]) == sorted(data.names)
    told = race_sentence(found)
    assert f"{found['attacked']:,} of 600 images" in told and "95 % confidence" in told and "on this test set" in told
    assert told.startswith(
        "Equal on this" if found["worst"] is None else "The worst class on this test set under pgd3 is"
    )
    answer = repr(conclude(rounds(judge, data), data, RaceAim()))
    for part in ("question='this-test-set'", "confidence=0.95", f"attacked={found['attacked']}", "images=600"):
        assert part in answer


def test_the_worst_of_this_set_is_the_worst_of_a_whole_audit(judge: Auditor, data: Dataset) -> None:
    whole = AuditTask(judge, data, None).attack()
    right = find_right(judge, data)
    order = np.argsort(data.ids)
    survived = whole.correct("pgd3") & right[order]
    counts = np.bincount(whole.labels[survived], minlength=data.k)

    def lowest(top: int) -> tuple[str, ...]:
        """As many as are wanted, and all that are equal to the last of them."""
        return tuple(data.names[c] for c in range(data.k) if counts[c] <= np.sort(counts)[top - 1])

    answer = conclude(rounds(judge, data), data, RaceAim())
    assert answer.contenders == lowest(1) and answer.tied == (len(lowest(1)) > 1)
    places, attack = order_by_class(judge, data), attack_here(judge, data, judge.model)
    three = RaceRecipe(judge.key, 10, RaceAim(top=3))
    assert conclude(list(race(three, places, right, attack=attack)), data, three.aim).contenders == lowest(3)
    side = RaceRecipe(judge.key, 10, RaceAim(below=0.5))
    found = conclude(list(race(side, places, right, attack=attack)), data, side.aim)
    assert found.below == tuple(data.names[c] for c in range(data.k) if counts[c] < 30)
    assert sorted((*found.below, *found.above)) == sorted(data.names)


def test_sentences_of_other_questions() -> None:
    known = {"classes": ["cat", "dog", "frog"], "condition": "pgd3", "confidence": 0.95, "attacked": 50, "images": 300}
    counts = {"images": [100] * 3, "right_before": [50, 80, 100], "seen": [20, 20, 10], "attacked": [20, 20, 10]}
    found = known | {"by_class": counts | {"survived": [4, 5, 9]}, "named": [], "tied": False, "threshold": None}
    undecided = found | {"question": "population", "top": 1, "contenders": ["cat", "dog"]}
    assert race_sentence(undecided) == (
        "Undecided among cat (20.0 % of 20), dog (25.0 % of 20) as the worst class in the population at 95 % "
        "confidence: 50 of 300 images were attacked, and no more can decide it."
    )
    two = found | {"question": "this-test-set", "top": 2, "contenders": ["cat", "dog"], "named": ["cat", "dog"]}
    assert race_sentence(two).startswith("The 2 worst classes on this test set under pgd3 are cat (about 10.0 %), dog")
    side = found | {"question": "this-test-set", "top": None, "threshold": 0.2}
    side |= {"below": ["cat"], "above": ["frog"], "contenders": ["dog"]}
    assert race_sentence(side).startswith(
        "Below 20 %: cat (about 10.0 %); at 20 % or above: frog (about 90.0 %); undecided: dog"
    )


def test_a_race_puts_its_answer_to_the_proof(data: Dataset, judge: Auditor, tmp_path: Path) -> None:
    """Gradients that are turned round on the images of one class make it look robust; a state that turns, several."""

    def raced(net: nn.Module, name: str, *, check: bool = True) -> dict[str, Any]:
        wide = PGD(Linf(0.05), Margin(kappa=1e9), step=0.0125, steps=10, keep="fooled")  # CE is weak on small logits
        auditor = make_auditor(net, data, (("pgd10", wide),), batch_size=50, force=True)
        task = RaceTask(auditor, data, tmp_path / name, RaceRecipe(auditor.key, 4), check=check)
        found: dict[str, Any] = json.loads(task.run().read_text())
        return found

    net = judge.model.net
    sound, unchecked = raced(net, "sound"), raced(net, "unchecked", check=False)
    assert sound["warnings"] == [] and "sampled survivors" in sound.pop("check") and sound == unchecked
    masked = raced(Through(net, before=backward_as(torch.neg)), "masked")
    assert masked["warnings"][0].startswith("the robust accuracy under pgd10 is too high")
    turned = raced(Counting(net, lambda z, n: z if n < 30 else z.roll(1, 1)), "turned")
    assert any("answered otherwise after the attacks than before" in said for said in turned["warnings"])
    small = raced(Whole(net, repeats_after(45)), "small batches")
    assert any("during the attacks" in said and "are not as right or wrong" in said for said in small["warnings"])


def test_bad_settings_are_refused(judge: Auditor, data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1 image"):
        RaceRecipe("k", 0)
    with pytest.raises(ValueError, match="this test set only"):
        RaceRecipe("k", 5, RaceAim("population"), (0.5, 0.5))
    with pytest.raises(ValueError, match="the 10 worst of 10 classes need no race"):
        RaceTask(judge, data, tmp_path / "out", RaceRecipe(judge.key, 10, RaceAim(top=10)))


def test_one_class_alone_is_no_race(judge: Auditor, data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least two classes, but saw 1"):
        RaceTask(judge, data.only([3]), tmp_path / "out", RaceRecipe(judge.key, 4))
    assert list(tmp_path.iterdir()) == []
