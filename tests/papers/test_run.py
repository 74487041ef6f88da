"""Recipes from beginning to end: finished, shared, failed, interrupted and found again."""

import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leastwise.audit.auditor import AuditRecipe
from leastwise.audit.evidence import load_evidence
from leastwise.cli.main import main
from leastwise.core.recipe import key_of_json, recipe_key
from leastwise.jobs.audit_task import audit
from leastwise.jobs.events import JobEventListener
from leastwise.jobs.folder import RUN, read_claim
from leastwise.jobs.images import ImageSet, find_positions, read_images
from leastwise.jobs.job import AuditJob, ReleasedNetwork
from leastwise.jobs.schedule import JobRunner
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.papers import jobs as paper_jobs
from leastwise.papers import page as pages
from leastwise.papers.estimate import Speed, count_passes
from leastwise.papers.jobs import make_attacks, make_job
from leastwise.papers.outline import missing, short, tree
from leastwise.papers.recipes import Measured, PaperThreat, Recipe, Trained, trainings
from leastwise.papers.registry import PAPERS, list_recipes, select_exhibits
from leastwise.papers.reproduce import RecipeListener, collect_results, count_versions, do_work, list_work
from leastwise.papers.stored import MEANING, PaperStore
from leastwise.training.loop import StepProgress

FEW = ImageSet("fashion-mini", per_class=4)
ATTACK = PaperThreat(0.1, 0.05, 2)
NET = Trained(FEW, "convnet", epochs=2, batch_size=10, augment="none", scale="smoke")
ROBUST = replace(NET, method="pgd-at", threat=ATTACK)
BOTH = Measured(ROBUST, FEW, ("clean", "pgd2"), ATTACK, scale="smoke")


@pytest.fixture
def store(tmp_path: Path) -> PaperStore:
    return PaperStore(tmp_path, "smoke")


def forget_jobs() -> None:
    paper_jobs.make_job.cache_clear()
    paper_jobs.make_training_job.cache_clear()


@pytest.fixture(autouse=True)
def jobs_of_this_test() -> Iterator[None]:
    """What exhibits want of epochs may be another thing in the next test."""
    yield
    forget_jobs()


def done(store: PaperStore, *recipes: Recipe) -> None:
    assert do_work(list_work(recipes, store), store) == {}


def recipe_of(store: PaperStore, measured: Measured) -> AuditRecipe:
    """What determines the evidence of an audit."""
    job = make_job(measured)
    assert isinstance(job, AuditJob)
    return JobRunner(store.store, force=True).prepare_audit(job).auditor.recipe


def test_a_training_and_its_audit_leave_small_folders_that_are_found_again(store: PaperStore) -> None:
    wanted = replace(BOTH, keeps=("features",))
    assert list_work([wanted], store) == (ROBUST, wanted)
    done(store, wanted)
    assert list_work([wanted, ROBUST], store) == () and do_work((), store) == {}
    held = {path.name for path in store.folder(ROBUST).iterdir()}
    assert held == {"model.safetensors", "epochs.jsonl", "manifest.json", "recipe.json", "run.json"}
    held = {path.name for path in store.folder(wanted).iterdir()}
    assert held == {"evidence.safetensors.xz", "features.safetensors", "manifest.json", "recipe.json", "run.json"}
    found = store.read_result(wanted)
    model = load_checkpoint(store.folder(ROBUST) / "model.safetensors")
    again = audit(model, read_images(FEW), make_attacks(wanted))
    assert found.evidence is not None
    assert (found.evidence.conditions["pgd2"].predicted == again.conditions["pgd2"].predicted).all()
    assert found.moments is not None and found.plane is not None and found.plane.shape == (len(again.ids), 2)
    assert len((store.folder(ROBUST) / "epochs.jsonl").read_text().splitlines()) == 2
    assert load_evidence(store.folder(wanted)).ids.tolist() == again.ids.tolist()  # as `leastwise report` reads it


def test_what_recipes_share_is_done_once(store: PaperStore) -> None:
    made = replace(NET, data=replace(FEW, change=("matched",), steps=2), source=ROBUST)
    begun = replace(ROBUST, method="trades", fair=("frl-both",), data=replace(FEW, per_class=10), source=ROBUST)
    other = replace(BOTH, data=replace(FEW, classes=(3,)))
    work = list_work([BOTH, other, made, begun, replace(BOTH, model=made)], store)
    assert work == (ROBUST, BOTH, other, made, begun, replace(BOTH, model=made))
    done(store, *work)
    facts = read_claim(store.folder(begun))
    assert facts is not None and facts["start"] == load_checkpoint(store.folder(ROBUST) / "model.safetensors").digest()
    assert store.read_result(made).epochs == ()  # nobody asked for its own record


def test_a_failed_training_marks_what_needs_it_and_nothing_else(store: PaperStore) -> None:
    wild = replace(ROBUST, rate=1e30)
    of_wild = replace(BOTH, model=wild)
    from_wild = replace(ROBUST, source=wild)
    failed = do_work(list_work([of_wild, BOTH, from_wild], store), store)
    assert set(failed) == {wild, of_wild, from_wild} and "the loss is" in failed[wild]
    assert failed[of_wild].startswith("a network that it needs failed (the loss is")
    assert store.has(BOTH) and not store.has(wild)


class StopAfter(RecipeListener):
    def __init__(self, steps: int) -> None:
        self.left = steps

    def during(self, recipe: Recipe, names: Sequence[str]) -> AbstractContextManager[JobEventListener]:
        def watch(event: object) -> None:
            self.left -= isinstance(event, StepProgress)
            if not self.left:
                raise KeyboardInterrupt

        return nullcontext(watch)


def test_an_interrupted_run_goes_on_and_ends_with_the_same_network(tmp_path: Path) -> None:
    cut, whole = (PaperStore(tmp_path / name, "smoke") for name in ("cut", "whole"))
    with pytest.raises(KeyboardInterrupt):
        do_work(list_work([BOTH], cut), cut, StopAfter(6))
    assert cut.has_begun(ROBUST) and list_work([BOTH], cut) == (ROBUST, BOTH)
    assert sum("epoch" in line for line in (cut.folder(ROBUST) / "epochs.jsonl").read_text().splitlines()) == 1
    for one in (cut, whole):
        done(one, BOTH)
    a, b = (one.folder(ROBUST) / "model.safetensors" for one in (cut, whole))
    assert a.read_bytes() == b.read_bytes()


def test_results_of_other_versions_count_while_their_recipe_is_the_same(store: PaperStore) -> None:
    done(store, BOTH)
    for version, counts in (("0.0.1", True), ("7.0.0", False)):
        for recipe in (ROBUST, BOTH):
            path = store.folder(recipe) / "recipe.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | {"leastwise": version}))
        assert store.has(BOTH) == store.has(ROBUST) == counts
        assert count_versions([ROBUST, BOTH], store, "0.1.0") == ({version: 2} if counts else {})
    done(store, BOTH)  # of another major version: done anew
    assert count_versions([ROBUST, BOTH], store, "0.0.2") != {}


def test_an_audit_belongs_to_the_network_that_is_there(store: PaperStore) -> None:
    done(store, BOTH)
    weights = store.folder(ROBUST) / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content + b"\0")
    assert store.has(ROBUST) and not store.has(BOTH)
    weights.unlink()  # audits alone are enough to draw
    assert store.has(BOTH) and not store.has(ROBUST) and list_work([BOTH], store) == ()


def test_what_exhibits_want_of_epochs_is_measured_while_training(
    store: PaperStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = replace(BOTH, each_epoch=True)
    monkeypatch.setattr(paper_jobs, "find_followers", lambda scale: ({ROBUST: (each,)}, {ROBUST: (1, 3)}))
    forget_jobs()
    done(store, each)
    assert store.has(BOTH)  # the same job
    found = store.read_result(each)
    assert len(found.each) == len(found.entropies) == 2 and found.evidence is not None
    for name in each.conditions:
        last, alone = found.each[-1][name], found.evidence.tally(name)
        assert last.correct.tolist() == alone.correct.tolist()
        assert found.entropies[-1][name] == pytest.approx(
            found.evidence.conditions[name].entropy.mean(), rel=1e-3
        )  # packed evidence is rounded
    own = store.read_result(ROBUST).epochs
    clean = audit(
        load_checkpoint(store.folder(ROBUST) / "model.safetensors"), read_images(FEW, "train"), make_attacks(CLEAN)
    )
    assert own[-1].correct.tolist() == clean.tally("clean").correct.tolist() and len(own) == 2
    shown = store.read_result(ROBUST).robust_epochs
    assert len(shown) == 2 and shown[-1].n.nonzero().flatten().tolist() == [1, 3]  # of the classes that are shown


CLEAN = replace(BOTH, conditions=("clean",), threat=None)


def test_records_name_no_folder_of_this_machine(store: PaperStore) -> None:
    done(store, BOTH)
    assert json.loads((store.folder(BOTH) / RUN).read_text())["model"] == (
        f"smoke/trainings/{store.folder(BOTH.model).name}/model.safetensors"
    )
    for file in store.results.rglob("*.json*"):
        assert str(store.results) not in file.read_text(), file


def test_epochs_that_nobody_measured_are_named(store: PaperStore) -> None:
    done(store, BOTH)
    ((_, why),) = do_work([replace(BOTH, each_epoch=True)], store).items()
    assert "was not measured after every epoch: remove that folder" in why


def test_every_field_of_an_audit_takes_effect_or_is_refused(store: PaperStore) -> None:
    done(store, ROBUST, NET)
    base = recipe_of(store, BOTH)
    for changed in (
        {"model": NET},
        {"data": replace(FEW, per_class=3)},
        {"conditions": ("clean", "pgd1")},
        {"threat": PaperThreat(0.1, 0.04)},
        {"surrogate": NET, "conditions": ("clean", "transfer")},
        {"split": "train"},
        {"keep": "fooled"},
    ):
        assert recipe_of(store, replace(BOTH, **changed)) != base, changed  # type: ignore[arg-type]
    for changed, sentence in (
        ({"threat": None}, "attacks need a radius"),
        ({"conditions": ("clean",)}, "nothing else does"),
        ({"surrogate": NET}, "need each other"),
        ({"keep": "best"}, "last step or by any"),
        ({"keeps": ("gradients",)}, "cannot be kept"),
        ({"data": replace(FEW, steps=3)}, "take steps"),
    ):
        failed = do_work([replace(BOTH, **changed)], store)  # type: ignore[arg-type]
        assert sentence in next(iter(failed.values())), changed


def test_pictures_are_those_of_the_audit(store: PaperStore, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = replace(BOTH, keeps=("logits",))
    data = read_images(FEW)
    monkeypatch.setattr(paper_jobs, "list_pictures", lambda m: (int(data.ids[7]), 10**9))
    forget_jobs()
    done(store, wanted)
    found = store.read_result(wanted)
    assert [one.id for one in found.pictures] == [int(data.ids[7]), int(data.ids[0])]  # the other is not here
    assert found.evidence is not None
    for one in found.pictures:
        row = int(np.flatnonzero(found.evidence.ids == one.id)[0])
        for name in wanted.conditions:
            assert one.logits[name].argmax() == found.evidence.conditions[name].predicted[row]
        assert np.abs(one.pixels["pgd2"] - one.pixels["clean"]).max() <= 0.1 + 1e-6
    assert find_positions((10**9, int(data.ids[1]), 10**9 + 1), data) == [0, 1, 2]


def test_networks_of_others_are_asked_for_by_their_place(store: PaperStore, tmp_path: Path) -> None:
    theirs = ReleasedNetwork("standard/resnet18-imagenet", "convnet", FEW)
    recipe = replace(CLEAN, model=theirs)
    ((_, why),) = do_work([recipe], store).items()
    place = tmp_path / "networks" / "standard" / "resnet18-imagenet.pt"
    assert str(place) in why and "trained by others" in why
    assert "standard/resnet18-imagenet" in next(iter(missing([recipe], store)))
    assert select_exhibits("benz2021/fig9")[0].needs  # whose networks are such


def test_the_plan_in_words_and_numbers(store: PaperStore) -> None:
    exhibits = (*select_exhibits("benz2021/fig14"), *select_exhibits("tian2021/table2"))
    lines = list(tree(exhibits, store))
    assert lines[-1] == "  needs nothing but the paper" and sum("(see above)" in line for line in lines) == 2
    assert sum("[to do]" in line for line in lines) == 4 * 3
    recipes = list_recipes(exhibits, "smoke")[0]
    speed = Speed()
    assert all(speed.seconds(recipe) > 0 for recipe in list_work(recipes, store)) and len(speed.known) == 2
    assert count_passes(BOTH) == 40 * (1 + 8) and short(1_830_000) == "1.83 million"


def test_the_command_plans_draws_and_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def write(*given: object, **named: object) -> tuple[Path, ...]:
        calls.append((*given, *named.values()))
        return (tmp_path / "index.html",)

    monkeypatch.setattr(pages, "write_page", write)
    out = ["--scale", "smoke", "--out", str(tmp_path)]
    assert main(["reproduce", "benz2021/fig3", "--plan", *out]) == 0
    assert "9 trainings and 9 audits" in capsys.readouterr().out and list(tmp_path.iterdir()) == [] == calls
    assert main(["reproduce", "tian2021/table2", *out]) == 0
    assert main(["reproduce", "benz2021/fig1", "--draw", *out]) == 0
    assert [call[0].id for call in calls] == ["tian2021", "benz2021"] and calls[1][3] == {}  # type: ignore[attr-defined]
    for wrong, sentence in (
        (["tian2021/tabel3"], "did you mean tian2021/table3?"),
        (["madry"], "choose benz2021"),
        ([], "name a paper"),
        (["ahn/table1", "--only", "pgd"], "no row is called 'pgd': choose among Clean; PGD;"),
    ):
        assert main(["reproduce", *wrong, *out]) == 2
        said = capsys.readouterr().err
        assert sentence in said and said.count("\n") == 1


def test_only_some_rows_are_run_and_the_others_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And what is there of another exhibit is drawn with it."""
    command = ["reproduce", "benz2021/fig6", "--scale", "smoke", "--out", str(tmp_path)]
    assert main([*command, "--only", "SGD*", "cyclic"]) == 0
    said = capsys.readouterr().out
    assert "in all     2 trainings and 2 audits" in said and "Adam" not in said
    store = PaperStore(tmp_path, "smoke")
    there = {
        role: store.has(planned_one) for role, (planned_one,) in select_exhibits("benz2021/fig6")[0]("smoke").items()
    }
    assert there == {"SGD, 1e-4": True, "Adam": False, "weight decay 1e-5": False, "cyclic": True}
    page = (store.root / "pages" / "benz2021" / "index.html").read_text()
    assert "of 4 rows 2 are there." in page and "Not shown: Adam; weight decay 1e-5 (not run)." in page
    assert main([*command, "--plan"]) == 0
    assert "left       2 trainings and 2 audits" in capsys.readouterr().out


@pytest.mark.medium
def test_pages_show_what_was_asked_for_and_what_is_whole_already(store: PaperStore) -> None:
    fig1, fig2 = select_exhibits("benz2021/fig1"), select_exhibits("benz2021/fig2")
    (drawn,) = collect_results(fig2, store, {})
    assert [one.id for one in drawn.exhibits] == ["benz2021/fig2"] and drawn.results == {}
    done(store, *list_recipes(fig1, "smoke")[0])
    (drawn,) = collect_results(fig2, store, {})
    assert [one.id for one in drawn.exhibits] == ["benz2021/fig1", "benz2021/fig2"]
    assert len(drawn.results) == 1


@pytest.mark.slow
def test_smoke_of_all_exhibits_of_all_papers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    papers = ["benz2021", "tian2021", "ahn", "tradeoff2022"]
    command = ["reproduce", *papers, "--scale", "smoke", "--out", str(tmp_path)]
    assert main(command) == 0
    assert "failed" not in capsys.readouterr().out
    store = PaperStore(tmp_path, "smoke")
    for name in papers:
        recipes, absent = list_recipes(select_exhibits(name), "smoke")
        assert absent == () and all(store.has(recipe) for recipe in recipes)
        assert (store.root / "pages" / name / "index.html").stat().st_size > 100_000
        for table in (store.root / "pages" / name).glob("*.csv"):
            for row in csv.DictReader(io.StringIO(table.read_text())):
                assert "why not" not in row or row.get("ours") or row.get("value") or row["why not"], (table, row)
    assert main(command) == 0
    assert "left       nothing" in capsys.readouterr().out


def test_declarations_mean_the_same_jobs_as_when_results_were_stored() -> None:
    """Stored results are drawn by the keys in `declared.json` as long as `MEANING` is the same.

    If this fails, a declaration means another job than before: raise MEANING in `leastwise.papers.stored`, write the
    file anew with LEASTWISE_WRITE_GOLDEN=1, and train what is stored and no longer meant. Where declarations themselves
    have changed, their keys have too, and the file written anew is enough.
    """
    golden = Path(__file__).parents[1] / "oracles" / "declared_jobs.json"
    found: dict[str, object] = {"meaning": MEANING}
    for name in ("smoke", "lite", "full"):
        recipes = list_recipes(tuple(one for paper in PAPERS.values() for one in paper.exhibits), name)[0]
        keys = sorted((recipe_key(one), recipe_key(make_job(one))) for one in (*trainings(recipes), *recipes))
        found[name] = key_of_json(json.dumps(keys))
    if os.environ.get("LEASTWISE_WRITE_GOLDEN"):
        golden.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(golden.read_text())
    stored = json.loads((Path(__file__).parents[2] / "results" / "lite" / "declared.json").read_text())
    assert stored["meaning"] == MEANING and len(stored["jobs"]) > 300
