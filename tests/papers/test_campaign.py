"""The order of the work, what is open, and working beside others."""

from dataclasses import replace
from pathlib import Path

import pytest

from leastwise.cli.main import main
from leastwise.core.files import is_locked, lock_folder
from leastwise.jobs.store import NO_WEIGHTS, drop_weights
from leastwise.papers.campaign import STAGES, list_open_work, rank_work
from leastwise.papers.recipes import Measured, Trained, list_replicas, trainings
from leastwise.papers.registry import EXHIBITS, list_recipes, select_exhibits
from leastwise.papers.reproduce import do_work, list_work
from leastwise.papers.stored import PaperStore

LITE = rank_work("lite")


def test_everything_is_in_the_order_once_and_needs_come_first() -> None:
    recipes, _ = list_recipes(tuple(EXHIBITS.values()), "lite")
    assert set(recipes) | set(trainings(recipes)) <= set(LITE) and len(set(LITE)) == len(LITE)
    place = {one: at for at, one in enumerate(LITE)}
    for one in LITE:
        for need in trainings([one]):
            assert place[need] <= place[one]


def test_stages_name_exhibits_and_rows_that_exist() -> None:
    for stage in STAGES:
        assert all(name in EXHIBITS for name in stage.exhibits)


def test_what_is_wanted_first_comes_first() -> None:
    nets = [one for one in LITE if isinstance(one, Trained)]

    def first(**wanted: object) -> int:
        return next(at for at, t in enumerate(nets) if all(getattr(t, name) == value for name, value in wanted.items()))

    order = [
        first(method="trades", seed=0),
        first(method="mart"),
        first(fair=("important-class",), method="standard"),
        first(fair=("frl-both",)),
        first(method="single-class-at"),
        first(method="trades", seed=1),
    ]
    assert order == sorted(order)


def test_replicas_are_of_what_claims_compare_and_differ_in_the_seed_alone() -> None:
    (table,) = select_exhibits("tradeoff2022/table4")
    for parts in table("lite").values():
        for one in parts:
            assert isinstance(one, Measured)
            first, second = list_replicas(one)
            assert {first.model.seed, second.model.seed} == {1, 2}
            assert replace(first, model=replace(first.model, seed=0)) == replace(one, each_epoch=False)
    (sweep,) = select_exhibits("ahn/fig1")
    seeded = {one.model.threat for parts in sweep("lite").values() for one in parts if list_replicas(one)}
    assert len(seeded) == 1  # of the radii only 8/255: the yardstick on these data
    (attacks,) = select_exhibits("tian2021/table1")
    shown = [one for parts in attacks("lite").values() for one in parts]
    assert not any(list_replicas(one) for one in shown if "nattack:50" in one.conditions)


def test_single_images_are_asked_of_the_declared_seed_alone() -> None:
    asked = [one for one in LITE if isinstance(one, Measured) and "images" in one.keeps]
    others = [other for one in asked for other in list_replicas(one)]
    assert others and all(not {"images", "logits"} & set(other.keeps) for other in others)
    assert set(others) <= set(LITE)


def test_the_next_piece_is_the_first_that_is_open_and_in_nobodys_hands(tmp_path: Path) -> None:
    store, exhibits = PaperStore(tmp_path, "smoke"), select_exhibits("benz2021/fig1")
    (training,) = list_open_work("smoke", store, exhibits)  # its audit waits for it
    assert isinstance(training, Trained)
    with lock_folder(store.folder(training)):
        assert is_locked(store.folder(training)) and list(list_open_work("smoke", store, exhibits)) == []
    assert not is_locked(store.folder(training))
    assert main(["reproduce", "benz2021/fig1", "--scale", "smoke", "--next", "1", "--out", str(tmp_path)]) == 0
    (audit,) = list_open_work("smoke", store, exhibits)
    assert isinstance(audit, Measured) and not (tmp_path / "smoke" / "pages").exists()
    assert main(["reproduce", "benz2021/fig1", "--scale", "smoke", "--next", "5", "--out", str(tmp_path)]) == 0
    assert list(list_open_work("smoke", store, exhibits)) == []


def test_a_training_without_weights_is_done_until_somebody_needs_them(tmp_path: Path) -> None:
    store, exhibits = PaperStore(tmp_path, "smoke"), select_exhibits("benz2021/fig1")
    assert main(["reproduce", "benz2021/fig1", "--scale", "smoke", "--next", "5", "--out", str(tmp_path)]) == 0
    (audit,) = [one for one in rank_work("smoke", exhibits) if isinstance(one, Measured)]
    drop_weights(store.folder(audit.model))
    assert store.has(audit) and store.has(audit.model) and list_work([audit, audit.model], store) == ()
    more = replace(audit, conditions=("clean",), threat=None)
    assert list_work([more], store) == (audit.model, more)
    assert do_work(list_work([more], store), store) == {} and store.has(more)
    assert not (store.folder(audit.model) / NO_WEIGHTS).exists() and store.has(audit)  # trained again: the same bits


@pytest.mark.parametrize("words", [["--next", "-1"], ["--next", "2", "--draw"], []])
def test_next_is_a_number_and_stands_alone(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        raise SystemExit(main(["reproduce", "--scale", "smoke", *words]))
    assert left.value.code == 2 and capsys.readouterr().err
