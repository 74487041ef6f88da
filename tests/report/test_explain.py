"""Why classes are weak: numbers against closed forms, the page against hostile names, the command end to end."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leastwise import cli
from leastwise.data import Dataset
from leastwise.evidence import Evidence
from leastwise.geometry import Moments, inter_class_similarity, intra_class_variance
from leastwise.report import across, explain_page, explain_text, homed, overfitted, page, reasons, sheet
from leastwise.report.page import Audited
from leastwise.report.reasons import FILE, beside
from tests.geometry.given import evidence_of, predicting
from tests.report.test_page import unpacked, visible

NAMES = ("ant", "bee", "cow", "dog", "elk")
EACH = 20
EVIL = ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{7*7}}", "a&b", "'")


def audited(right: tuple[int, ...] = (20, 16, 12, 8, 4), names: tuple[str, ...] = NAMES) -> Evidence:
    """Of 20 images so many survive; the others are taken for elk, and those of elk for ant.

    Without attack there is one mistake in each class but the third."""
    labels, place = np.repeat(np.arange(5), EACH), np.tile(np.arange(EACH), 5)
    wrong = np.where(labels == 4, 0, 4)
    clean = np.where((place < EACH - 1) | (labels == 2), labels, wrong)
    attacked = np.where(place < np.array(right)[labels], labels, wrong)
    made = evidence_of(
        {"clean": predicting(clean, 5), "pgd": predicting(attacked, 5)},
        labels,
        names,
        (("small", (0, 1)), ("big", (2, 3, 4))),
    )
    attacks = [("clean", {"type": "Clean"}), ("pgd", {"type": "PGD"})]
    return replace(made, recipe=json.dumps({"conditions": attacks, "data": "made"}))


def moments() -> Moments:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), EACH)
    return Moments.of(rng.random((100, 7)) + labels[:, None], labels, 5)


def test_the_numbers_are_those_of_the_images() -> None:
    made = reasons(audited())
    assert made is not None and made["condition"] == "pgd" and made["clean"] == "clean"
    assert made["accuracy"]["pgd"] == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])
    # 4 + 8 + 12 images end in elk, 16 of elk in ant.
    assert made["attractor"] == "elk" and made["in_flow"] == pytest.approx([0.4, 0, 0, 0, 0.6])
    fall = np.array([-0.05, 0.15, 0.4, 0.55, 0.75])
    assert made["drop_share"] == pytest.approx(fall / fall.sum())
    # Inside superclasses: cow and dog to elk, 8 + 12 of 40.
    assert made["inside"]["mistakes"] == 40 and made["inside"]["share"] == pytest.approx(0.5)
    assert made["predicts"]["clean accuracy"]["n"] == 5
    assert made["extremes"]["bee"]["least_robust"] and len(made["extremes"]["bee"]["most_robust"]) == 5
    assert made["features"] is None and made["plane"] is None
    json.dumps(made, allow_nan=False)
    text = " ".join(explain_text("model", made))
    assert "end in elk: 60.0 % of all" in text and "50.0 % of the mistakes stay inside" in text
    assert "elk and dog carry" in text


def test_features_are_those_of_the_moments() -> None:
    found = moments()
    plane = np.arange(200.0).reshape(100, 2)
    made = reasons(audited(), "pgd", found, plane)
    assert made is not None
    assert made["features"]["similarity"] == pytest.approx(inter_class_similarity(found.means).tolist())
    assert made["features"]["variance"] == pytest.approx(intra_class_variance(found).tolist())
    assert made["features"]["variance_pooled"] == pytest.approx(intra_class_variance(found, pooled=True).tolist())
    assert made["plane"][21] == [42.0, 43.0, 1]
    assert "similarity to another class" in made["predicts"]


def test_without_clean_images_there_is_nothing_to_say_and_an_unknown_condition_is_refused() -> None:
    attacks = json.dumps({"conditions": [("pgd", {"type": "PGD"})], "data": "made"})
    assert reasons(replace(audited(), recipe=attacks)) is None
    with pytest.raises(ValueError, match="there is no condition 'fgsm': choose clean, pgd"):
        reasons(audited(), "fgsm")


def test_models_are_compared_by_their_deviations() -> None:
    first, second = reasons(audited()), reasons(audited((4, 8, 12, 16, 20)))
    assert first is not None and second is not None
    found = across({"a": first, "b": second})
    assert found["attacked"]["cosine"][0][1] == pytest.approx(-1)
    assert found["natural"]["cosine"][0][1] == pytest.approx(1)
    assert found["attacked"]["p"][0][0] is None and found["attacked"]["p"][0][1] > 0.9
    with pytest.raises(ValueError, match="models of different classes cannot be compared"):
        across({"a": first, "b": first | {"classes": ["x"] * 5}})


def test_homing_counts_who_comes_right_and_against_whom() -> None:
    """Without elk all come right, without ant nothing changes for the others."""
    full = audited()
    without_elk, without_ant = audited((20, 20, 20, 20, 4)), audited()
    found = homed(full, {4: without_elk, 0: without_ant}, "pgd")
    assert [row[4] for row in found["homed"]] == pytest.approx([0, 4, 8, 12, 0])
    assert found["share"] == pytest.approx(24 / 40) and found["removed"] == ["ant", "elk"]


def test_overfitting_is_read_from_the_record_of_a_training(tmp_path: Path) -> None:
    def line(epoch: int, train: list[int], test: list[int]) -> str:
        def counts(correct: list[int]) -> dict[str, object]:
            return {"robust": {"n": [10, 10], "correct": correct}, "clean": {"n": [0, 0], "correct": [0, 0]}}

        return json.dumps({"epoch": epoch} | counts(train) | {"valid": counts(test)})

    lines = [line(1, [3, 3], [3, 2]), line(2, [6, 5], [6, 4]), line(3, [9, 9], [3, 4])]
    (tmp_path / "epochs.jsonl").write_text("\n".join(lines))
    found = overfitted(tmp_path)
    assert found["images"] == "valid" and found["best_epoch"] == 2
    assert found["lost"] == pytest.approx([0.3, 0.0]) and found["gap"] == pytest.approx([0.6, 0.5])
    with pytest.raises(ValueError, match="there is no record of a training"):
        overfitted(tmp_path / "nowhere")


def test_what_lies_beside_other_evidence_is_not_used(tmp_path: Path) -> None:
    evidence = audited()
    assert beside(tmp_path, evidence) is None
    made = reasons(evidence, "pgd", moments())
    (tmp_path / FILE).write_text(json.dumps(made))
    assert beside(tmp_path, evidence) == json.loads(json.dumps(made))
    assert beside(tmp_path, replace(evidence, recipe=evidence.recipe.replace("made", "other"))) is None
    (tmp_path / FILE).write_text("[]")
    assert beside(tmp_path, evidence) is None


def test_the_report_says_why_and_more_with_features() -> None:
    evidence = audited()
    alone = visible(page([Audited("m", evidence)]))
    assert "Why: what weak classes have in common" in alone and "end in elk: 60.0 % of all" in alone
    assert "most similar class" not in alone and "need the network itself" in alone
    more = visible(page([Audited("m", evidence, {}, reasons(evidence, "pgd", moments()))]))
    assert "most similar class" in more and "need the network itself" not in more


def test_hostile_names_stay_text_and_a_sheet_has_its_images() -> None:
    evidence = audited(names=EVIL)
    made = reasons(evidence, "pgd", moments(), np.zeros((100, 2)))
    assert made is not None
    data = Dataset.of(np.full((100, 3, 8, 6), 200, np.uint8), evidence.labels.astype(np.int64), EVIL)
    made["sheet"] = sheet(data, made["extremes"], EVIL, "pgd")
    assert made["sheet"]["source"].startswith("data:image/png;base64,")
    # Two ends of five images 64 // 8 = 8 times as large, five rows.
    assert (made["sheet"]["width"], made["sheet"]["height"]) == (130 + 10 * (48 + 2) + 14, 5 * (64 + 4))
    text = explain_page({EVIL[0]: made, "b": made})
    assert EVIL[0] not in text and EVIL[1] not in text and "49" not in visible(text).split("{{7*7}}")[0][-3:]
    specs = json.loads(unpacked(text, "payload"))["specs"]
    assert len(specs) > 10


@pytest.mark.medium
def test_the_command_audits_looks_at_features_and_feeds_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--attack", "clean,pgd1", "--per-class", "6", "--threads", "1"]
    assert cli.main(["train", "standard", "--epochs", "1", "--per-class", "12", "--out", "t", "--threads", "1"]) == 0
    assert cli.main(["explain", "t/model.pt", *options, "--training", "t"]) == 0
    said = capsys.readouterr().out
    assert " end in " in said and "explain.html" in said
    made = json.loads(Path("explain.json").read_text())["models"]["t/model.pt"]
    assert made["features"]["dimensions"] > 1 and made["overfitting"] is not None and made["sheet"] is not None
    assert len(made["plane"]) == 60
    (folder,) = Path("results").iterdir()
    assert cli.main(["explain", str(folder), "-o", "again.html"]) == 0
    assert json.loads((folder / FILE).read_text())["features"] == made["features"]
    (folder / FILE).unlink()
    assert cli.main(["explain", str(folder), "-o", "again.html"]) == 0
    assert json.loads((folder / FILE).read_text())["features"] is None
    assert cli.main(["explain", "t/model.pt", str(folder), *options, "-o", "two.html"]) == 0
    two = json.loads(Path("two.json").read_text())
    assert two["between"]["models"] == ["t/model.pt", str(folder)]
    assert two["models"]["t/model.pt"]["confusion"] == two["models"][str(folder)]["confusion"]
    for wrong in ("nobody", "10"):
        assert cli.main(["explain", str(folder), "--without", f"{wrong}={folder}"]) == 2
        assert f"there is no class '{wrong}'" in capsys.readouterr().err
    few = {"robust": {"n": [1, 1], "correct": [0, 1]}, "clean": {"n": [1, 1], "correct": [0, 1]}}
    Path("other").mkdir()
    Path("other/epochs.jsonl").write_text(json.dumps({"epoch": 1} | few | {"valid": few}))
    assert cli.main(["explain", str(folder), "--training", "other"]) == 2
    assert "2 classes and the model 10" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--training", "nowhere"], ["--without", "0=nowhere"]])
def test_a_wrong_folder_is_found_out_before_anything_is_audited(
    option: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["explain", "no-such-model.pt", *option]) == 2
    assert "nowhere" in capsys.readouterr().err
