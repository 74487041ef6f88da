"""A race over a network: every image at most once, the same rounds after an interruption, an honest answer."""

import json
from pathlib import Path

import numpy as np
import pytest

from leastwise.attacks.goals import CE
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.audit.auditor import Auditor, make_auditor
from leastwise.audit.race import RaceRecipe, attack_here, order_by_class, race
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.jobs.audit_task import AuditTask
from leastwise.jobs.events import JobEvent
from leastwise.jobs.folder import RACE, SHARDS
from leastwise.jobs.race_task import RaceTask
from leastwise.models.zoo.registry import build
from leastwise.report.terminal.race import race_sentence
from leastwise.statistics.race import Round
from leastwise.training.loop import fit
from leastwise.training.recipe import Training

ATTACK = PGD(Linf(0.02), CE(), step=0.01, steps=3, keep="fooled")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load("fashion-mini/test").take(60)


@pytest.fixture(scope="module")
def judge(data: Dataset) -> Auditor:
    model = build("convnet", data.shape, data.k, seed=0)
    for _ in fit(model, load("fashion-mini/train").take(50), Training(epochs=2)):
        pass
    return make_auditor(model, data, (("pgd3", ATTACK),), batch_size=50)


def rounds(judge: Auditor, data: Dataset) -> list[Round]:
    return list(race(RaceRecipe(judge.key, 10), order_by_class(judge, data), attack_here(judge, data, judge.model)))


def test_a_race_sees_what_an_audit_sees(judge: Auditor, data: Dataset) -> None:
    whole = AuditTask(judge, data, None).attack()
    places = order_by_class(judge, data)
    assert sorted(np.concatenate(places).tolist()) == list(range(len(data)))
    right = dict(zip(whole.ids.tolist(), whole.correct("pgd3").tolist(), strict=True))
    last = rounds(judge, data)[-1]
    for c in range(data.k):
        seen = data.ids[places[c][: last.n[c]]]
        assert last.correct[c] == sum(right[i] for i in seen.tolist())
    accuracy = whole.tally("pgd3").accuracy.numpy()
    assert int(accuracy.argmin()) in last.contenders


def test_an_interrupted_race_goes_on_and_attacks_nothing_twice(judge: Auditor, data: Dataset, tmp_path: Path) -> None:
    recipe = RaceRecipe(judge.key, 10)
    RaceTask(judge, data, tmp_path / "whole", recipe).run()
    seen = []

    def stop(event: JobEvent) -> None:
        if isinstance(event, Round):
            seen.append(event)
            if len(seen) == 2:
                raise KeyboardInterrupt

    task = RaceTask(judge, data, tmp_path / "cut", recipe)
    with pytest.raises(KeyboardInterrupt):
        task.run(stop)
    assert not task.finished
    kept = sorted(path.name for path in (tmp_path / "cut" / SHARDS).glob("*.json"))
    assert kept == ["000000.json", "000001.json"]
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
    assert again[-1].n.tolist() == rounds(judge, data)[-1].n.tolist()


def test_the_answer_says_what_was_spent(judge: Auditor, data: Dataset, tmp_path: Path) -> None:
    task = RaceTask(judge, data, tmp_path, RaceRecipe(judge.key, 10))
    task.run()
    found = json.loads((tmp_path / RACE).read_text())
    assert found["attacked"] == sum(found["n"]) <= found["images"] == 600
    assert found["rounds"] == len(rounds(judge, data))
    gone = [row["class"] for row in found["eliminated"]]
    assert sorted(gone + found["contenders"]) == sorted(data.names)
    told = race_sentence(found)
    assert f"{found['attacked']:,} of 600 images" in told
    assert told.startswith("Undecided among" if found["worst"] is None else "The worst class under pgd3 is")


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 image"):
        RaceRecipe("k", 0)
    with pytest.raises(ValueError, match=r"between 0\.5 and 1, but saw 1"):
        RaceRecipe("k", 5, 1.0)


def test_one_class_alone_is_no_race(judge: Auditor, data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least two classes, but saw 1"):
        RaceTask(judge, data.only([3]), tmp_path / "out", RaceRecipe(judge.key, 10))
    assert list(tmp_path.iterdir()) == []
