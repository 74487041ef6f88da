"""`lw.train` and `lw.explain`: what the verbs do, for Python objects."""

from pathlib import Path
from typing import Any

import pytest
import torch

import leastwise as lw
from leastwise.core.files import parse_json
from leastwise.data.readers.arrays import save_npz
from leastwise.jobs.folder import read_claim
from leastwise.jobs.settings import TrainSettings
from tests.forked_commands import leastwise
from tests.front.clothes import network

QUICK: dict[str, Any] = {"epochs": 2, "steps": 2, "batch_size": 64, "progress": False, "valid_per_class": 2}


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_training_by_settings_is_the_one_of_the_verb(cached: Path) -> None:
    """Weights and record, bit for bit; the images come as a file there and as an object here."""
    data = lw.data("fashion-mini/train").take(12)
    found = lw.train("trades", data, fair=["cfa"], set={"beta": 4, "cfa.lambda1": 0.4}, out=cached / "py", **QUICK)
    (file,) = (cached / "cache" / "leastwise" / "given").iterdir()
    flags = ["--fair", "cfa", "--set", "beta=4", "--set", "cfa.lambda1=0.4", "--valid-per-class", "2"]
    sizes = ["--epochs", "2", "--steps", "2", "--batch-size", "64"]
    done = leastwise("train", "trades", "--data", str(file), *flags, *sizes, "--out", "verb", cwd=cached)
    assert done.returncode == 0, done.stderr
    claims = [read_claim(cached / side) for side in ("py", "verb")]
    assert claims[0] == claims[1]
    assert (cached / "py" / "epochs.jsonl").read_bytes() == (cached / "verb" / "epochs.jsonl").read_bytes()
    states = [torch.load(cached / side / "model.pt", weights_only=True) for side in ("py", "verb")]
    weights = [state["state_dict"] for state in states]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert found.weights == cached / "py" / "model.pt"


def test_a_training_shows_what_every_epoch_saw_and_is_read_when_it_was_done(cached: Path) -> None:
    pytest.importorskip("pandas")
    data = lw.data("fashion-mini/train").take(12)
    found = lw.train("pgd-at", data, out=cached / "py", **QUICK)
    lines = [parse_json(line) for line in (cached / "py" / "epochs.jsonl").read_text().splitlines()]
    frame = found.to_pandas()
    for line in lines:
        for side, kind, told in (("train", "attacked", line["attacked"]), ("valid", "robust", line["valid"]["robust"])):
            rows = frame[(frame["epoch"] == line["epoch"]) & (frame["images"] == side) & (frame["condition"] == kind)]
            assert rows["correct"].tolist() == told["correct"] and rows["n"].tolist() == told["n"]
    assert len(repr(found).splitlines()) <= 10
    before = found.weights.stat().st_mtime_ns
    assert lw.train("pgd-at", data, out=cached / "py", **QUICK).weights.stat().st_mtime_ns == before
    audited = lw.audit(found.model, data, "clean", check=False, force=True, progress=False)
    assert audited.names == data.names


def test_what_has_no_test_part_is_not_tested_on(cached: Path) -> None:
    data = lw.data("fashion-mini/train").take(12)
    with pytest.raises(ValueError, match=r"no test part of its own.*leave test_at= and select_on_test=True out"):
        lw.train("pgd-at", data, out=cached / "a", test_at=(1,), per_class=3, **QUICK)
    save_npz(cached / "mine.npz", data)
    done = leastwise("train", "pgd-at", "--data", "mine.npz", "--select-on-test", "--out", "b", cwd=cached)
    assert done.returncode == 2 and "no test part of its own" in done.stderr and not (cached / "b").exists()


def test_a_misspelt_setting_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ValueError, match="no setting 'optimizer': did you mean optimiser"):
        lw.train("pgd-at", optimizer="adam")
    with pytest.raises(ValueError, match="did you mean trades"):
        lw.train("trade")


def test_settings_are_those_of_the_verb_with_its_defaults() -> None:
    from dataclasses import fields

    from leastwise.cli.train import Train

    verb = {one.name: one.default for one in fields(Train)}
    assert {one.name: one.default for one in fields(TrainSettings)}.items() <= verb.items()
    own = {"data_dir", "device", "threads", "track", "tensorboard", "fresh", "out"}
    assert set(verb) - {one.name for one in fields(TrainSettings)} == own


def test_an_explanation_is_the_one_of_the_verb(tmp_path: Path) -> None:
    data = lw.data("fashion-mini").take(8)
    one, two = (
        lw.audit(network(seed), data, "clean,pgd3", out=tmp_path / name, check=False, progress=False)
        for seed, name in ((0, "one"), (1, "two"))
    )
    done = leastwise("explain", "one", "two", "-o", "why.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = parse_json((tmp_path / "why.json").read_bytes())["models"]
    found = lw.explain(tmp_path / "one", tmp_path / "two", names=("one", "two"))
    without = {"answers"}
    assert {name: {k: v for k, v in made.items() if k not in without} for name, made in found.content.items()} == {
        name: {k: v for k, v in made.items() if k not in without} for name, made in told.items()
    }
    assert len(repr(found).splitlines()) <= 10 and found.save(tmp_path / "page.html").is_file()
    deep = lw.explain(lw.AuditResult.of(one, name="one"), model=network(), data=data)
    assert deep.content["one"]["features"] is not None and "<li>" in deep._repr_html_()
    assert len(deep.rows()) == 10 and two.names == one.names
    with pytest.raises(ValueError, match="holds other images than the audit saw"):
        lw.explain(one, model=network(), data=data.take(2))
