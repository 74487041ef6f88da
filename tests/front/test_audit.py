"""`lw.audit`: the evidence of the command line, from whatever people bring."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset

import leastwise as lw
from leastwise.attacks.registry import make_threat
from leastwise.audit.auditor import AuditRecipe
from leastwise.audit.evidence import EVIDENCE_FILE, load_evidence
from leastwise.core.files import parse_json
from leastwise.core.recipe import canonical_json, to_plain_json
from leastwise.data.dataset import Dataset
from leastwise.front.conditions import conditions_of, read_conditions, spell_radii
from leastwise.front.request import open_engine
from leastwise.jobs.audit_task import AuditTask
from leastwise.models.classifier import Classifier
from tests.forked_commands import leastwise
from tests.front.clothes import Clothes, network
from tests.report.evidence_made_up import evidence

ATTACKS = "clean,fgsm,pgd3"


@pytest.fixture(scope="module")
def whole() -> Dataset:
    return lw.data("fashion-mini")


@pytest.fixture(scope="module")
def few(whole: Dataset) -> Dataset:
    return whole.take(4)


def run(model: Any, data: Any, attacks: Any = ATTACKS, **settings: Any) -> lw.AuditResult:
    return lw.audit(model, data, attacks, **({"eps": 8 / 255, "progress": False, "check": False} | settings))


def test_an_audit_through_a_loader_gives_the_bytes_of_the_audit_by_name(whole: Dataset, few: Dataset) -> None:
    """Shuffled, normalised, batched otherwise, and with workers: ids, pixels and names are the same."""
    positions = np.flatnonzero(np.isin(whole.ids, few.ids)).tolist()
    loader = DataLoader(Subset(Clothes(whole), positions), 7, shuffle=True, drop_last=True, num_workers=1)
    by_name = run(network(), few)
    read = lw.data(loader, mean=(0.286,), std=(0.353,))
    assert run(network(), read).to_bytes() == by_name.to_bytes()


def test_an_audit_of_a_file_by_its_name_is_the_one_of_a_loader(few: Dataset, tmp_path: Path) -> None:
    """Without ids of their own, both know an image by its place."""
    np.savez(tmp_path / "few.npz", images=few.images[few.rows], labels=few.labels, names=np.array(few.names))
    loader = DataLoader(Clothes(few), 8, shuffle=True)
    found = [run(network(), data) for data in (str(tmp_path / "few.npz"), lw.data(loader, mean=(0.286,), std=(0.353,)))]
    assert found[0].to_bytes() == found[1].to_bytes()


def test_the_function_and_the_verb_write_the_same_evidence(tmp_path: Path) -> None:
    source = "import torch\ndef build():\n    torch.manual_seed(0)\n"
    source += "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))\n"
    (tmp_path / "mine.py").write_text(source)
    verb = [
        "audit",
        "mine.py:build",
        "--per-class",
        "4",
        "--attack",
        ATTACKS,
        "--eps",
        "8/255",
        "--out",
        "verb",
        "--force",
    ]
    assert leastwise(*verb, cwd=tmp_path).returncode == 0
    data = lw.data("fashion-mini").take(4)
    run(f"{tmp_path / 'mine.py'}:build", data, out=tmp_path / "function", force=True, check=True)
    names = (EVIDENCE_FILE, "summary.json")
    verb_files, function_files = (
        [(tmp_path / side / name).read_bytes() for name in names] for side in ("verb", "function")
    )
    assert verb_files[0] == function_files[0]
    told = [parse_json(content) for content in (verb_files[1], function_files[1])]
    assert told[0]["conditions"] == told[1]["conditions"] and told[0]["key"] == told[1]["key"]


WAYS: dict[str, Any] = {
    "a string": "clean,pgd3",
    "a list": ["clean", "pgd3"],
    "a dictionary of names": {"clean": "clean", "pgd3": "pgd3"},
    "pairs": (("clean", "clean"), ("pgd3", "pgd3")),
    "names and values": ["clean", ("pgd3", lw.PGD(lw.Linf(8 / 255), step=2 / 255, steps=3, keep="fooled"))],
    "a list of lists": ["clean,pgd3"],
}


@pytest.mark.parametrize("way", WAYS)
def test_attacks_are_written_in_many_ways(way: str) -> None:
    made = read_conditions(WAYS[way], make_threat("linf", "8/255"), ["8/255"])
    assert to_plain_json(made) == to_plain_json(read_conditions("clean,pgd3", make_threat("linf", 8 / 255), ["8/255"]))


def test_attacks_without_names_get_some() -> None:
    made = read_conditions([lw.PGD(steps=3), lw.PGD(steps=3, momentum=0.5)], make_threat("linf", 0.1), ["0.1"])
    assert [name for name, _ in made] == ["pgd3", "pgd3-2"]


def test_radii_are_spelled_as_people_write_them() -> None:
    assert spell_radii((2 / 255, 0.1, "4/255", 1)) == ["2/255", "0.1", "4/255", "255/255"]
    assert spell_radii("1/255, 2/255") == ["1/255", "2/255"]


def test_several_radii_make_a_curve(few: Dataset) -> None:
    found = run(network(), few, "clean,fgsm", eps=(1 / 255, 2 / 255))
    assert list(found.conditions) == ["clean", "fgsm[1/255]", "fgsm[2/255]"]
    assert found.plot("curve").to_dict(validate=False)["layer"]


@pytest.mark.parametrize("attacks", ["clean,fgsm,pgd3,tpgd2,apgd-ce+square", "fgsm[1/255],pgd2[2/255]", "clean"])
def test_the_attacks_of_stored_evidence_are_made_anew(attacks: str) -> None:
    """From names and settings: an audit of yesterday is repeated on another network."""
    threat = make_threat("linf", 4 / 255, 1.5 / 255, keep="last")
    conditions = read_conditions(attacks, threat, ["4/255"])
    stored = replace(evidence(2, 3), recipe=canonical_json(AuditRecipe("", "", conditions, 0, 1)))
    assert conditions_of(stored) == conditions


def test_like_repeats_an_audit_on_another_network(few: Dataset, tmp_path: Path) -> None:
    first = run(network(), few, seed=3, out=tmp_path / "first")
    for like in (first, tmp_path / "first"):
        second = run(network(1), few, None, like=like, eps=0.5)
        told, before = (parse_json(one.recipe) for one in (second, first))
        assert told | {"model": ""} == before | {"model": ""} and told["model"] != before["model"]
    with pytest.raises(ValueError, match="like= is an audit of other images"):
        run(network(), few.take(2), None, like=first)
    with pytest.raises(ValueError, match="leave the attacks or like= out"):
        run(network(), few, "clean", like=first)


def test_an_audit_that_was_done_is_read_and_one_that_was_interrupted_goes_on(
    few: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = run(network(), few).to_bytes()
    done = run(network(), few, out=tmp_path)
    assert done.to_bytes() == expected and load_evidence(tmp_path).to_bytes() == expected
    monkeypatch.setattr(AuditTask, "attack", lambda *_, **__: pytest.fail("nothing is left to attack"))
    again = run(network(), few, out=tmp_path, progress=True)
    assert again.to_bytes() == expected and "done before" in capsys.readouterr().err
    assert lw.open_audit(tmp_path).to_bytes() == expected


def test_progress_goes_beside_the_output_of_a_script(few: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    run(network(), few, progress=True)
    shown = capsys.readouterr()
    assert shown.out == "" and "audit: 100 %" in shown.err
    run(network(), few)
    assert capsys.readouterr() == ("", "")


def test_the_global_state_of_torch_is_left_alone(few: Dataset) -> None:
    model = network()
    torch.manual_seed(1)
    expected, threads, waiting = torch.rand(2), torch.get_num_threads(), threading.active_count()
    torch.manual_seed(1)
    run(model, few)
    assert torch.equal(torch.rand(2), expected) and torch.get_num_threads() == threads
    assert threading.active_count() == waiting


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a misspelt attack": ({"attacks": "clean,pdg20"}, "no attack 'pdg20'"),
    "a norm": ({"norm": "Linf"}, "did you mean linf"),
    "eps in steps of 255": ({"eps": 8}, "write 8/255"),
    "a class instead of a value": ({"attacks": [lw.PGD]}, r"write PGD\(\)"),
    "a function": ({"attacks": [print]}, "wrap it in lw.ExternalAttack"),
    "workers without a cluster": ({"workers": 2}, "give engine='dask' too"),
    "images that are kept nowhere": ({"save_adversarial": True}, "give out="),
    "a budget": ({"time_budget": "soon"}, "90s, 20m or 1.5h"),
    "twice the same": ({"attacks": ["clean", "clean"]}, "conditions with different names"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_mistake_is_refused_in_one_sentence_with_the_fix(what: str, few: Dataset) -> None:
    settings, words = REFUSED[what]
    with pytest.raises(ValueError, match=words) as error:
        run(network(), few, **settings)
    assert "\n" not in str(error.value)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(ValueError, match="the engine local or dask, but saw 'ray'"), open_engine("ray"):
        pass


def test_a_network_stays_as_it_was(few: Dataset) -> None:
    model = network().train()
    run(Classifier(model, 10).train(), few, "clean")
    assert model.training and all(parameter.requires_grad for parameter in model.parameters())
