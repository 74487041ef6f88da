"""`lw.race`, `lw.compare`, `lw.gate` and `lw.report`: what the verbs find, for Python objects."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leastwise as lw
from leastwise.audit.evidence import EVIDENCE_FILE
from leastwise.core.files import parse_json
from leastwise.front.words import in_python_words, name_parameters
from leastwise.jobs.folder import RACE
from tests.forked_commands import leastwise
from tests.front.clothes import network
from tests.report.evidence_made_up import evidence

SHIFTS = {"a": 0.0, "b": 0.3, "c": 0.6}


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Three audits of the same images."""
    for name, shift in SHIFTS.items():
        (tmp_path / name).mkdir()
        evidence(10, 60, shift=shift).save(tmp_path / name / EVIDENCE_FILE)
    return tmp_path


def audits() -> list[lw.AuditResult]:
    return [lw.AuditResult.of(evidence(10, 60, shift=shift), name=name) for name, shift in SHIFTS.items()]


def test_a_comparison_is_the_one_of_the_verb(folders: Path) -> None:
    done = leastwise("compare", "a", "b", "c", "--margin", "3%", "-o", "all.json", cwd=folders)
    assert done.returncode == 0, done.stderr
    told = parse_json((folders / "all.json").read_bytes())
    assert lw.compare(*audits(), margin=0.03).content == told
    assert lw.compare(*(folders / name for name in SHIFTS), margin="3%").content == told


def test_a_comparison_of_several_trainings_is_the_one_of_the_verb(folders: Path) -> None:
    evidence(10, 60, shift=0.1).save(folders / "d.safetensors")
    (folders / "d").mkdir()
    (folders / "d.safetensors").rename(folders / "d" / EVIDENCE_FILE)
    assert leastwise("compare", "a,b", "c,d", "--names", "one,two", "-o", "all.json", cwd=folders).returncode == 0
    pairs = [[folders / "a", folders / "b"], [folders / "c", folders / "d"]]
    found = lw.compare(*pairs, names=("one", "two"))
    assert found.content == parse_json((folders / "all.json").read_bytes())
    with pytest.raises(ValueError, match="compare one of each"):
        found.plot()
    assert len(repr(found).splitlines()) <= 10


def test_a_comparison_shows_itself() -> None:
    pytest.importorskip("pandas")
    found = lw.compare(*audits())
    assert len(repr(found).splitlines()) <= 10 and "beyond chance, of 10" in repr(found)
    frame = found.to_pandas()
    assert frame.columns.tolist()[:6] == ["from", "to", "condition", "class", "n", "difference"]
    conditions = found.content["changes"][0]["conditions"]
    assert len(frame) == 2 * len(conditions) * 11 and frame["class"].isna().sum() == 2 * len(conditions)
    whole = frame[frame["class"].isna() & (frame["to"] == "b") & (frame["condition"] == found.condition)]
    known = audits()
    expected = known[1].tally(found.condition).overall - known[0].tally(found.condition).overall
    assert whole["difference"].item() == pytest.approx(expected)
    assert "points [95 % interval]" in found._repr_html_() and "◂" in found._repr_html_()
    assert len(found.plot().to_dict()["concat"]) == 2
    assert lw.compare(*audits()[:2]).plot("clean").to_dict()["title"]["text"] == "b − a, clean"


def test_what_cannot_be_compared_is_refused() -> None:
    one, two, _ = audits()
    for given, words in (((one,), "needs at least two"), ((one, one), "given twice"), ((one, []), "without an audit")):
        with pytest.raises(ValueError, match=words):
            lw.compare(*given)
    with pytest.raises(ValueError, match="only on the same images"):
        lw.compare(one, lw.AuditResult.of(evidence(10, 30, shift=0.1)))
    with pytest.raises(ValueError, match="not all results have 'fgsm': choose"):
        lw.compare(one, two, condition="fgsm")


DEMANDS = ("worst(pgd20) >= 5%", "gap(pgd20) <= 1%", "worst(pgd20) >= 20%", "drop(pgd20, base) <= 90%")


@pytest.mark.parametrize("number", range(len(DEMANDS)))
def test_a_gate_says_what_the_verb_says(number: int, folders: Path) -> None:
    demand = DEMANDS[number].replace("base", "b")
    done = leastwise("gate", "a", demand, cwd=folders)
    one, other, _ = audits()
    for found in (lw.gate(one, demand, bases={"b": other}), lw.gate(folders / "a", demand, bases={"b": folders / "b"})):
        assert repr(found) == done.stdout.strip()
        state = {0: found.passed, 1: found.failed, 3: found.inconclusive}
        assert state[done.returncode] and sum(state.values()) == 1 and bool(found) == found.passed


def test_a_gate_shows_itself() -> None:
    pytest.importorskip("pandas")
    found = lw.gate(audits()[0], *DEMANDS[:3])
    assert found.to_pandas()["outcome"].tolist() == [one.outcome.value for one in found.verdicts]
    assert "✗ fail" in found._repr_html_() and found.failed and not found
    assert len(repr(lw.gate(audits()[0], *(f"worst(clean) >= {p}%" for p in range(20)))).splitlines()) <= 10
    with pytest.raises(ValueError, match="a gate needs a demand"):
        lw.gate(audits()[0])


def race(**settings: Any) -> lw.RaceResult:
    return lw.race(
        network(), lw.data("fashion-mini").take(20), "fgsm", **({"eps": "4/255", "progress": False} | settings)
    )


def test_a_race_names_the_class_that_an_audit_of_all_images_finds() -> None:
    whole = lw.audit(network(), lw.data("fashion-mini").take(20), "fgsm", eps="4/255", check=False, progress=False)
    tally = whole.tally("fgsm").correct.numpy()
    found = race()
    lowest = {whole.names[c] for c in np.flatnonzero(tally == tally.min())}
    assert set(found.named or found.contenders) == lowest and found.attacked < len(whole.ids)
    assert len(lowest) > 1 or found.worst in lowest
    assert race(prior=whole).named == found.named and race(below="30%").content["threshold"] == 0.3


def test_a_race_in_a_folder_is_read_when_it_was_done(tmp_path: Path) -> None:
    first = race(out=tmp_path)
    assert race(out=tmp_path).content == first.content == parse_json((tmp_path / RACE).read_bytes()) == race().content


def test_a_race_shows_itself() -> None:
    pytest.importorskip("pandas")
    found = race()
    assert len(repr(found).splitlines()) <= 10
    frame = found.to_pandas()
    assert frame["attacked"].sum() == found.attacked and len(frame) == 10
    assert set(frame[frame["state"].isin(["worst", "open"])]["class"]) == set(found.named or found.contenders)
    assert all(name in found._repr_html_() for name in ("Shirt", "attacked of those right"))
    assert found.plot().to_dict()["width"] == 240
    with pytest.raises(ValueError, match="run under one attack, but saw clean, fgsm: join several"):
        lw.race(network(), lw.data("fashion-mini").take(2), "clean,fgsm", progress=False)


def test_a_report_is_the_one_of_the_verb(folders: Path) -> None:
    for name in ("r.html", "r.csv", "r.md"):
        arguments = ["a", "b"] if name == "r.html" else ["a"]
        assert leastwise("report", *arguments, "-o", f"verb-{name}", cwd=folders).returncode == 0
        made = lw.report([folders / one for one in arguments], folders / name)
        assert made == folders / name and made.read_bytes() == (folders / f"verb-{name}").read_bytes()


def test_reports_take_audits_and_number_those_of_one_name(tmp_path: Path) -> None:
    one, two, _ = audits()
    made = lw.report([lw.AuditResult.of(one), lw.AuditResult.of(two)], tmp_path / "page.html").read_text("utf-8")
    assert "model 1" in made and "model 2" in made
    assert lw.report(one, tmp_path / "one.md").is_file()
    with pytest.raises(ValueError, match="2 results need 2 names"):
        lw.report([one, two], tmp_path / "x.html", names=("a",))
    with pytest.raises(ValueError, match="needs at least one audit"):
        lw.report([])


def test_flags_become_parameters_in_what_functions_refuse() -> None:
    @in_python_words
    def function(*, out: str = "", fresh: bool = False) -> None:
        """It refuses."""
        raise ValueError(f"choose another {out} with --out, or --fresh ({fresh}); --scheduler stays")

    with pytest.raises(ValueError) as error:
        function(out="X")
    assert str(error.value) == "choose another X with out=, or fresh=True (False); --scheduler stays"
    assert name_parameters("give --batch-size 3", frozenset({"batch_size"})) == "give batch_size= 3"
    assert function.__doc__ == "It refuses."
