"""Verbs that read results: report, compare, gate, power. A result is a folder with evidence or a summary."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leastwise.audit.evidence import load_evidence
from leastwise.report.export import table_latex, table_markdown
from leastwise.report.results import open_results, shorten_names
from leastwise.report.terminal.comparison import change_cells
from leastwise.statistics.accuracy import adjust_holm, compare_class_wise, compare_paired, exact_interval
from leastwise.statistics.extremes import PairedCounts, change_of_minimum
from leastwise.statistics.power import images_on_same_images
from leastwise.statistics.seeds import compare_groups
from tests.cli.results_put import lost, put, run
from tests.report.evidence_made_up import evidence


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("results")
    shifts = {"a": 0.0, "a2": 0.01, "a3": 0.02, "b": 0.3, "b2": 0.31, "b3": 0.32}
    made = {name: put(place / name, evidence(10, 200, shift)) for name, shift in shifts.items()}
    far = evidence(10, 200, 0.1)
    made["stronger"] = put(place / "stronger", replace(far, recipe=far.recipe.replace('"eps":0.00784', '"eps":0.03')))
    return made | {"other": put(place / "other", evidence(10, 150, 0.3)), "place": str(place)}


# gate


@pytest.mark.parametrize(
    ("demands", "code", "words"),
    [
        (["worst(pgd20) >= 0.1"], 0, ["pass"]),
        (["worst(pgd20) >= 0.1", "overall(pgd20) > 50%"], 0, ["pass", "pass"]),
        (["worst(pgd20) >= 0.5"], 1, ["fail"]),
        (["accuracy(cat, pgd20) >= 23%"], 3, ["inconclusive"]),
        (["worst(pgd20) >= 0.5", "accuracy(cat, pgd20) >= 23%"], 1, ["fail", "inconclusive"]),
    ],
)
def test_verdicts_and_exit_codes(
    results: dict[str, str], capsys: pytest.CaptureFixture[str], demands: list[str], code: int, words: list[str]
) -> None:
    seen, out, _ = run(capsys, "gate", results["a"], *demands)
    assert seen == code and [line.split()[0] for line in out.splitlines()] == words
    assert ("would decide" in out) == ("inconclusive" in words)


def test_bounds_are_exact_and_shared_among_the_demands(
    results: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "gate", results["a"], "accuracy(cat, pgd20) >= 0", "accuracy(dog, pgd20) >= 0")
    tally = evidence(10, 200).tally("pgd20")
    low, high = exact_interval(tally.correct.numpy()[[3, 5]], tally.n.numpy()[[3, 5]], 0.975)
    for line, bottom, top in zip(out.splitlines(), low, high, strict=True):
        assert f"[{100 * bottom:.1f}, {100 * top:.1f}]" in line


def test_a_drop_is_paired_with_evidence_and_unpaired_with_a_summary(
    results: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = evidence(10, 200)
    fallen = put(tmp_path / "fallen", lost(found, (found.labels == 1) & (np.arange(2000) % 4 == 0)))
    seen, paired_line, _ = run(capsys, "gate", fallen, f"drop(pgd20, {results['a']}) <= 0.05")
    assert seen == 1 and "(automobile, paired)" in paired_line
    base = tmp_path / "summary.json"
    base.write_bytes(Path(results["a"], "summary.json").read_bytes())
    seen, line, _ = run(capsys, "gate", fallen, f"drop(pgd20, {base}) <= 0.1")
    assert seen == 3 and "unpaired" in line and "--keep FILE" in line.replace("\n", " ")

    def width(text: str) -> float:
        low, high = re.search(r"\[(-?[\d.]+), (-?[\d.]+)\]", text).groups()  # type: ignore[union-attr]
        return float(high) - float(low)

    assert width(paired_line) < width(line)
    # The images that are right, kept in a small file, pair as the evidence does.
    kept = tmp_path / "kept.json"
    assert run(capsys, "gate", results["a"], "--keep", str(kept))[0] == 0 and kept.stat().st_size < 20_000
    _, again, _ = run(capsys, "gate", fallen, f"drop(pgd20, {kept}) <= 0.05")
    assert again.split("<= 0.05")[1] == paired_line.split("<= 0.05")[1]
    cut = json.loads(kept.read_text())
    kept.write_text(json.dumps(cut | {"id_steps": cut["id_steps"][:20]}))
    assert run(capsys, "gate", fallen, f"drop(pgd20, {kept}) <= 0.05")[0] == 2
    assert run(capsys, "gate", str(base), "worst(pgd20) >= 0.1")[0] == 0


def test_a_gate_for_one_look_says_when_it_is_asked_again_on_more_images(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    demand = "overall(pgd20) >= 0.1"
    for n, warned in ((20, False), (20, False), (40, True)):
        put(tmp_path / "grows", evidence(10, n))
        code, out, _ = run(capsys, "gate", str(tmp_path / "grows"), demand)
        assert code == 0 and ("asked before on 200 of the 400 images" in out.replace("\n", " ")) == warned
    assert "asked before" not in run(capsys, "gate", str(tmp_path / "grows"), demand, "--anytime")[1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["gate", "a"], "a gate needs a demand"),
        (["gate", "a", "--keep", "x.npz"], "writes a .json file"),
        (["gate", "a", "wurst(pgd20) >= 1"], "'wurst', which is unknown"),
        (["gate", "a", "worst(pgd99) >= 0.1"], "pgd99"),
        (["gate", "a", "__import__('os').system('x') >= 1"], "'__import__', which is unknown"),
        (["gate", "a", "1 + 1 >= 1"], "does not begin with a measure"),
        (["gate", "a", "accuracy(unicorn, pgd20) >= 0.1"], "unicorn"),
        (["gate", "nowhere", "worst(pgd20) >= 0.1"], "there is no result at nowhere"),
        (["gate", "a", "drop(pgd20, nowhere) <= 0.1"], "there is no result at nowhere"),
        (["gate", "a", "worst(pgd20) >= 0.1", "--confidence", "1.5"], "between 0 and 1, but saw 1.5"),
        (["compare", "a"], "at least two results"),
        (["compare", "a", "other"], "only on the same images, and"),
        (["compare", "a", "nowhere"], "there is no evidence at nowhere"),
        (["compare", "a", "b", "--condition", "pgd99"], "not all results have 'pgd99': choose clean, pgd20"),
        (["compare", "a", "b", "--names", "x"], "2 sides need 2 names"),
        (["compare", "a", "b", "-o", "c.html"], "must end in .json"),
        (["report", "nowhere"], "there is no evidence at nowhere"),
        (["report"], "at least one folder"),
        (["report", "a", "-o", "a.docx"], "must end in .html, .pdf, .svg, .png, .csv, .parquet, .md or .tex"),
        (["report", "a", "b", "-o", "a.csv"], "holds one audit, but saw 2"),
        (["report", "a", "a"], "given twice"),
        (["compare", "a", "a"], "the same audit of the same network was given twice"),
        (["compare", "a,a", "b"], "holds one network twice"),
        (["compare", "a", "stronger", "--condition", "pgd20"], "are different attacks (ball.eps"),
        (["gate", "a", "drop(pgd20, stronger) <= 0.03"], "pgd20 is not the same attack in the base"),
        (["gate", "a", "drop(pgd20, stronger/summary.json) <= 0.03"], "pgd20 is not the same attack in the base"),
        (["gate", "a", "worst(pgd20) >= 25"], "write a number from 0 to 1, such as 0.25 or 25%"),
        (["gate", "a", "worst(pgd20) >= -1"], "never crosses"),
        (["gate", "a", "drop(pgd20, b) <= 3"], "from -1 to 1, such as 0.03 or 3%"),
        (["gate", "a", "cv(pgd20) <= 200"], "0.02 for 200 percent²"),
        (["report", "a/summary.json"], "give the folder that"),
        (["power", "3"], "fractions in [0, 1], and 3 is not"),
        (["power", "0"], "difference of 0"),
        (["power", "three"], "a share must be a number"),
        (["power", "30%", "--disagreement", "10%"], "raise the disagreement"),
        (["power", "3%", "--between", "classes", "--accuracy", "99%"], "is not"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(
    results: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    verb, *rest = arguments
    given = [results.get(part, part) for part in rest]
    for name in ("a", "b", "stronger"):  # inside a demand, a list or a path
        given = [re.sub(rf"(?<![\w/]){name}(?=[,/)]|$)", results[name], part) for part in given]
    code, _, err = run(capsys, verb, *given)
    assert code == 2 and complaint in err and err.count("\n") == 1 and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_summary_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for content in ("{", "[]", '{"classes": ["a", "b"], "conditions": {"pgd20": {"correct": [3, 1], "n": [2, 2]}}}'):
        (tmp_path / "summary.json").write_text(content)
        code, _, err = run(capsys, "gate", str(tmp_path), "worst(pgd20) >= 0.1")
        assert code == 2 and "is not a summary" in err


# compare


def test_single_models_are_paired_image_by_image(
    results: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "c.json"
    code, out, _ = run(capsys, "compare", results["a"], results["b"], "-o", str(file), "--condition", "pgd20")
    a, b = evidence(10, 200), evidence(10, 200, 0.3)
    made = json.loads(file.read_text())
    found = compare_class_wise(a.correct("pgd20"), b.correct("pgd20"), a.labels, k=10)
    told = made["changes"][0]["conditions"]["pgd20"]
    for c, one in enumerate(told["classes"]):
        pair = found.classes[c]
        assert pair is not None and (one["difference"], one["low"]) == (pair.difference, pair.low)
        assert one["p_adjusted"] == found.adjusted[c] and one["significant"] == (found.adjusted[c] < 0.05)
        line = next(line for line in out.splitlines() if line.startswith(a.names[c]))
        assert f"{100 * pair.difference:+.1f}" in line and line.rstrip().endswith("*") == one["significant"]
    assert told["overall"]["difference"] == compare_paired(a.correct("pgd20"), b.correct("pgd20")).difference
    assert code == 0 and "class profiles of" in out
    cosine = made["agreement"][0]["conditions"]["pgd20"]["cosine"]
    x, y = (e.tally("pgd20").accuracy.numpy() for e in (a, b))
    assert cosine == pytest.approx(np.corrcoef(x, y)[0, 1])
    base, other = made["models"]
    rho = (other["worst"] - base["worst"]) / base["worst"]
    rho += (other["overall"]["pgd20"] - base["overall"]["pgd20"]) / base["overall"]["pgd20"]
    assert other["rho"] == pytest.approx(rho) and base["rho"] == 0


def test_groups_of_seeds_separate_training_from_test_noise(
    results: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "c.json"
    sides = [",".join(results[name] for name in side) for side in (("a", "a2", "a3"), ("b", "b2", "b3"))]
    code, out, _ = run(capsys, "compare", *sides, "-o", str(file), "--names", "plain,fair", "--condition", "pgd20")
    told = json.loads(file.read_text())["changes"][0]["conditions"]["pgd20"]["overall"]
    hits = [[evidence(10, 200, s).correct("pgd20") for s in side] for side in ((0.0, 0.01, 0.02), (0.3, 0.31, 0.32))]
    found = compare_groups(hits[0], hits[1])
    assert (told["difference"], told["low"], told["high"]) == (found.difference, found.low, found.high)
    assert told["training_sd"] == [found.training_a, found.training_b] and told["test_error"] == found.test
    assert code == 0 and "fair minus plain" in out and "sd over trainings" in out and "plain (3 trainings)" in out


def test_single_models_and_groups_stand_in_one_comparison(
    results: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "c.json"
    sides = (results["a"], results["a2"], f"{results['b']},{results['b2']}")
    code, out, _ = run(capsys, "compare", *sides, "-o", str(file), "--condition", "pgd20")
    single, group = json.loads(file.read_text())["changes"]
    assert code == 0 and "– / –" in out
    assert "p_adjusted" in single["conditions"]["pgd20"]["overall"]
    assert "training_sd" in group["conditions"]["pgd20"]["overall"]


def test_a_missing_bound_is_not_shown_as_certainty() -> None:
    one = {"difference": 0.1, "low": None, "high": None, "significant": False}
    (cell,) = change_cells(one, several=False)
    assert cell.plain.split() == ["+10.0", "–"]


def test_changes_of_extremes_a_margin_and_the_correction_for_models(
    results: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "c.json"
    sides = [results[name] for name in ("a", "a2", "b")]
    code, out, _ = run(capsys, "compare", *sides, "-o", str(file), "--condition", "pgd20", "--margin", "20%")
    made = json.loads(file.read_text())
    near, far = (change["conditions"]["pgd20"] for change in made["changes"])
    assert code == 0 and "cannot speak of another training" in out.replace("\n", " ")
    assert all("cannot speak of other trainings" in change["speaks_of"] for change in made["changes"])
    a, b = evidence(10, 200), evidence(10, 200, 0.3)
    both = PairedCounts.count(a.correct("pgd20"), b.correct("pgd20"), a.labels.astype(np.int64), k=10)
    lift = change_of_minimum(both)
    told = far["extremes"]["worst"]
    assert (told["value"], told["low"], told["high"]) == (lift.value, lift.low, lift.high)
    assert far["extremes"]["rho"]["value"] == pytest.approx(made["models"][2]["rho"])
    # Holm over the classes of both models together.
    chances = [
        one.p
        for shift in (0.01, 0.3)
        for one in compare_class_wise(
            a.correct("pgd20"), evidence(10, 200, shift).correct("pgd20"), a.labels, k=10
        ).classes
        if one is not None
    ]
    assert [c["p_adjusted"] for m in (near, far) for c in m["classes"]] == adjust_holm(np.array(chances)).tolist()
    # And each question about a whole model over both models.
    for part in ("worst", "gap", "cv"):
        raw = np.array([m["extremes"][part]["p"] for m in (near, far)])
        assert [m["extremes"][part]["p_adjusted"] for m in (near, far)] == adjust_holm(raw).tolist()
    whole = [compare_paired(a.correct("pgd20"), evidence(10, 200, s).correct("pgd20")).p for s in (0.01, 0.3)]
    assert [m["overall"]["p_adjusted"] for m in (near, far)] == adjust_holm(np.array(whole)).tolist()
    assert all(c["not_worse"] for c in near["classes"]) and "shown to have lost less than 20 points" in out
    refused = run(capsys, "compare", ",".join(sides[:2]), sides[2], "--margin", "3%")
    assert refused[0] == 2 and "single models" in refused[2]


def test_the_worst_class_of_a_group_is_one_class(
    results: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two trainings, whose own worst classes are 0 and 1: the named class has the lowest mean."""
    found = evidence(10, 200)
    first = put(tmp_path / "0", lost(found, found.labels == 0))
    other = replace(lost(found, found.labels == 1), recipe=found.recipe.replace('"model":"', '"model":"more '))
    second = put(tmp_path / "1", other)
    file = tmp_path / "c.json"
    run(capsys, "compare", f"{first},{second}", results["b"], "-o", str(file), "--condition", "pgd20")
    row = json.loads(file.read_text())["models"][0]
    mean = np.mean([load_evidence(Path(one)).tally("pgd20").accuracy.numpy() for one in (first, second)], axis=0)
    assert row["worst"] == mean.min() and row["worst_class"] == found.names[int(mean.argmin())]
    assert row["worst_of_each"] == 0.0


def test_the_pareto_table_says_who_is_beaten(
    results: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = evidence(10, 200)
    worse = put(tmp_path / "worse", lost(found, found.ids % 7 == 0))
    _, out, _ = run(capsys, "compare", results["a"], worse)
    assert [("dominated" in line) for line in out.splitlines() if line.startswith(("a ", "worse "))][:2] == [
        False,
        True,
    ]


# report


def test_the_page_and_the_exports(results: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "deep" / "page.html"
    code, out, _ = run(capsys, "report", results["a"], results["b"], "-o", str(page), "--names", "plain,fair")
    assert code == 0 and f"Report: {page}" in out.replace("\n", "") and "fair: An attacker would pick" in out
    text = page.read_text()
    assert "fair against plain" in text and text.lstrip().startswith("<!doctype html>")
    found = evidence(10, 200)
    for ending, made in (("md", table_markdown(found)), ("tex", table_latex(found))):
        file = tmp_path / f"t.{ending}"
        assert run(capsys, "report", results["a"], "-o", str(file))[0] == 0 and file.read_text() == made
    rows = tmp_path / "e.csv"
    assert run(capsys, "report", results["a"], "-o", str(rows))[0] == 0
    assert len(rows.read_text().splitlines()) == 1 + 3 * len(found.ids)
    table = tmp_path / "e.parquet"
    assert run(capsys, "report", results["a"], "-o", str(table))[0] == 0 and table.read_bytes()[:4] == b"PAR1"


def test_models_are_called_as_they_were_typed_or_as_their_folders(tmp_path: Path) -> None:
    a, b = (put(tmp_path / name, evidence(10, 20, s), model="same.pt") for name, s in (("x", 0.0), ("y", 0.3)))
    assert [m.name for m in open_results([Path(a)])] == ["same.pt"]
    assert [m.name for m in open_results([Path(a), Path(b)])] == ["x", "y"]


# power


def test_power_says_what_the_formulas_say(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "power", "3%", "--disagreement", "0.2", "--tests", "10")
    assert code == 0 and out.startswith(f"{images_on_same_images(0.03, 0.2, tests=10):,} images per class")
    assert (
        "to tell accuracies of 20 % and 25 %"
        in run(capsys, "power", "5%", "--between", "classes", "--accuracy", "20%")[1]
    )
    assert "threshold of 25 %" in run(capsys, "power", "5%", "--between", "threshold", "--accuracy", "25%")[1]


def test_power_plans_every_gate(capsys: pytest.CaptureFixture[str]) -> None:
    def images(*arguments: str) -> int:
        code, out, _ = run(capsys, "power", *arguments)
        assert code == 0, out
        return int(out.split()[0].replace(",", ""))

    drop = images("5%", "--between", "drop", "--disagreement", "5%")
    assert drop < images("5%", "--between", "drop", "--disagreement", "20%")
    assert drop < images("5%", "--between", "drop-unpaired")
    assert images("5%", "--between", "worst") < images("5%", "--between", "worst", "--anytime")
    assert images("5%", "--between", "macro") < images("5%", "--between", "gap")
    assert images("0.02", "--between", "cv", "--classes", "5") > 1
    assert run(capsys, "power", "5%", "--between", "worst", "--gap", "120%")[0] == 2


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["/r/a/model.pt", "/r/b/model.pt"], ["a", "b"]),
        (["/r/a/model.pt", "/r/a/last.pt"], ["model.pt", "last.pt"]),
        (["r/a/x/model.pt", "r/b/model.pt"], ["a/x", "b"]),
        (["a.pt", "b.pt"], ["a.pt", "b.pt"]),
        (["r/a", "r"], ["r/a", "r"]),
        (["/r/a/model.pt"], ["/r/a/model.pt"]),
        (["a/m", "./a/m"], ["a/m", "./a/m"]),
        (["", "r/a"], ["", "r/a"]),
    ],
)
def test_models_are_named_by_what_tells_them_apart(names: list[str], short: list[str]) -> None:
    assert shorten_names(names) == short
