"""Why classes are weak: numbers against closed forms, the page against hostile names, the command end to end."""

import base64
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leastwise.audit.evidence import EXPLAIN_FILE, Evidence
from leastwise.cli.main import main
from leastwise.data.classes import Groups
from leastwise.data.dataset import Dataset
from leastwise.insight.features import Moments, inter_class_similarity, intra_class_variance
from leastwise.jobs.folder import ANSWERS, CLAIM, digest_answers
from leastwise.report.explain.agreement import compare_facts
from leastwise.report.explain.facts import (
    collect_facts,
    homing_facts,
    keep_earlier_facts,
    overfitting_facts,
    read_facts,
)
from leastwise.report.explain.page import explain_page
from leastwise.report.explain.sentences import explain_lines
from leastwise.report.explain.sheet import draw_extremes
from leastwise.report.page.page import make_page
from leastwise.report.results import AuditedModel
from tests.insight.evidence_of_logits import evidence_of, predicting
from tests.report.page.page_text import specifications, visible

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
    return predicted(clean, attacked, names, (("small", (0, 1)), ("big", (2, 3, 4))))


def predicted(clean: np.ndarray, attacked: np.ndarray, names: tuple[str, ...] = NAMES, groups: Groups = ()) -> Evidence:
    """What five classes of 20 images each are taken for."""
    logits = {"clean": predicting(clean, 5), "pgd": predicting(attacked, 5)}
    made = evidence_of(logits, np.repeat(np.arange(5), EACH), names, groups)
    attacks = [("clean", {"type": "Clean"}), ("pgd", {"type": "PGD"})]
    return replace(made, recipe=json.dumps({"conditions": attacks, "data": "made"}))


def moments() -> Moments:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), EACH)
    return Moments.of(rng.random((100, 7)) + labels[:, None], labels, 5)


def test_the_numbers_are_those_of_the_images() -> None:
    made = collect_facts(audited())
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
    text = " ".join(explain_lines("model", made))
    assert "end in elk than in any other class: 60.0 %" in text and "50.0 % of the mistakes stay inside" in text
    # 15 of 36 images that are lost on the whole are elk's, 11 are dog's.
    assert made["drop_top"]["value"] == pytest.approx(26 / 36) and "elk and dog carry 72.2 % [" in text
    assert made["drop_top"]["low"] < 26 / 36 < made["drop_top"]["high"]


def test_places_that_are_shared_are_not_given_to_one_class() -> None:
    labels = np.repeat(np.arange(5), EACH)
    text = " ".join(explain_lines("m", collect_facts(predicted(labels, (labels + 1) % 5), "pgd") or {}))
    assert "end most often in each of 5 classes: 20.0 % in each" in text


def test_a_fall_that_is_not_sure_is_not_shared_out() -> None:
    labels = np.repeat(np.arange(5), EACH)
    first, second = (np.where(np.arange(100) % 20 == place, (labels + 1) % 5, labels) for place in (3, 4))
    made = collect_facts(predicted(first, second), "pgd")
    assert made is not None and made["drop_top"] is None
    assert compare_facts({"a": made, "b": made})["drop_share"] == {}


def test_an_explanation_under_another_condition_keeps_what_it_has_of_the_network() -> None:
    kept = collect_facts(audited(), "pgd", moments=moments(), plane=np.zeros((100, 2)))
    assert kept is not None
    kept |= {"homing": {"share": 0.5}, "sheet": {"title": "s"}, "overfitting": {"lost": [0.0] * 5}}
    other = collect_facts(audited(), "clean")
    again = collect_facts(audited(), "pgd")
    assert other is not None and again is not None
    found = keep_earlier_facts(other, kept)
    assert found["features"] == kept["features"] and found["overfitting"] == kept["overfitting"]
    assert found["homing"] is None and found["sheet"] is None
    same = keep_earlier_facts(again, kept)
    assert same == kept
    assert keep_earlier_facts(again, None) is again


def test_features_are_those_of_the_moments() -> None:
    found = moments()
    plane = np.arange(200.0).reshape(100, 2)
    made = collect_facts(audited(), "pgd", moments=found, plane=plane)
    assert made is not None
    assert made["features"]["similarity"] == pytest.approx(inter_class_similarity(found.means).tolist())
    assert made["features"]["variance"] == pytest.approx(intra_class_variance(found).tolist())
    assert made["features"]["variance_pooled"] == pytest.approx(intra_class_variance(found, pooled=True).tolist())
    assert made["plane"][21] == [42.0, 43.0, 1]
    assert "similarity to another class" in made["predicts"]


def test_without_clean_images_there_is_nothing_to_say_and_an_unknown_condition_is_refused() -> None:
    attacks = json.dumps({"conditions": [("pgd", {"type": "PGD"})], "data": "made"})
    assert collect_facts(replace(audited(), recipe=attacks)) is None
    with pytest.raises(ValueError, match="there is no condition 'fgsm': choose clean, pgd"):
        collect_facts(audited(), "fgsm")


def test_models_are_compared_by_their_deviations() -> None:
    first, second = collect_facts(audited()), collect_facts(audited((4, 8, 12, 16, 20)))
    assert first is not None and second is not None
    found = compare_facts({"a": first, "b": second})
    assert found["attacked"]["cosine"][0][1] == pytest.approx(-1)
    assert found["natural"]["cosine"][0][1] == pytest.approx(1)
    assert found["attacked"]["p"][0][0] is None and found["attacked"]["p"][0][1] > 0.9
    with pytest.raises(ValueError, match="models of different classes cannot be compared"):
        compare_facts({"a": first, "b": first | {"classes": ["x"] * 5}})


def test_homing_counts_who_comes_right_and_against_whom() -> None:
    """Without elk all come right, without ant nothing changes for the others."""
    full = audited()
    without_elk, without_ant = audited((20, 20, 20, 20, 4)), audited()
    found = homing_facts(full, {4: without_elk, 0: without_ant}, "pgd")
    assert [row[4] for row in found["homed"]] == pytest.approx([0, 4, 8, 12, 0])
    assert found["share"] == pytest.approx(24 / 40) and found["removed"] == ["ant", "elk"]


def test_overfitting_is_read_from_the_record_of_a_training(tmp_path: Path) -> None:
    def line(epoch: int, train: list[int], test: list[int]) -> str:
        def counts(correct: list[int]) -> dict[str, object]:
            return {"robust": {"n": [10, 10], "correct": correct}, "clean": {"n": [0, 0], "correct": [0, 0]}}

        return json.dumps({"epoch": epoch} | counts(train) | {"valid": counts(test)})

    lines = [line(1, [3, 3], [3, 2]), line(2, [6, 5], [6, 4]), line(3, [9, 9], [3, 4])]
    (tmp_path / "epochs.jsonl").write_text("\n".join(lines))
    found = overfitting_facts(tmp_path)
    assert found["images"] == "valid" and found["best_epoch"] == 2 and found["kind"] == "robust"
    assert found["lost"] == pytest.approx([0.3, 0.0]) and found["gap"] == pytest.approx([0.6, 0.5])
    with pytest.raises(ValueError, match="there is no record of a training"):
        overfitting_facts(tmp_path / "nowhere")


def test_overfitting_is_of_the_images_seen_most_often_and_of_one_kind(tmp_path: Path) -> None:
    def counts(robust: int, clean: int) -> dict[str, object]:
        def kind(correct: int) -> dict[str, list[int]]:
            return {"n": [10 if correct >= 0 else 0] * 2, "correct": [max(correct, 0)] * 2}

        return {"robust": kind(robust), "clean": kind(clean)}

    def written(*lines: dict[str, object]) -> Path:
        (tmp_path / "epochs.jsonl").write_text("\n".join(json.dumps({"epoch": e} | one) for e, one in enumerate(lines)))
        return tmp_path

    none = -1
    lines = [counts(5, 8) | {"valid": counts(6 - e, 8)} for e in range(3)]
    lines[2] |= {"test": counts(9, 9)}
    found = overfitting_facts(written(*lines))
    assert found["images"] == "valid" and found["lost"] == pytest.approx([0.2, 0.2])
    # Training without attack beside attacked validation images: clean on both sides.
    found = overfitting_facts(written(*(counts(none, 9) | {"valid": counts(3, 8 - e)} for e in range(2))))
    assert found["kind"] == "clean" and found["gap"] == pytest.approx([0.2, 0.2])
    with pytest.raises(ValueError, match="nothing can be compared"):
        overfitting_facts(written(*(counts(5, none) | {"valid": counts(none, 8)} for _ in range(2))))
    with pytest.raises(ValueError, match="of one epoch"):
        overfitting_facts(written(counts(5, 8) | {"valid": counts(5, 8)}))
    with pytest.raises(ValueError, match="of no epoch"):
        overfitting_facts(written(counts(5, 8), counts(6, 8)))


def test_what_lies_beside_other_evidence_is_not_used(tmp_path: Path) -> None:
    evidence = audited()
    assert read_facts(tmp_path, evidence) is None
    made = collect_facts(evidence, "pgd", moments=moments())
    (tmp_path / EXPLAIN_FILE).write_text(json.dumps(made))
    assert read_facts(tmp_path, evidence) == json.loads(json.dumps(made))
    assert read_facts(tmp_path, replace(evidence, recipe=evidence.recipe.replace("made", "other"))) is None
    (tmp_path / EXPLAIN_FILE).write_text("[]")
    assert read_facts(tmp_path, evidence) is None
    claim = {"kind": "audit", "key": evidence.key, ANSWERS: {"model": "of one"}}
    (tmp_path / CLAIM).write_text(json.dumps(claim))
    (tmp_path / EXPLAIN_FILE).write_text(json.dumps(made))  # earlier versions did not say whose answers
    assert read_facts(tmp_path, evidence) is not None
    (tmp_path / EXPLAIN_FILE).write_text(json.dumps({**made, ANSWERS: digest_answers(tmp_path)}))
    assert read_facts(tmp_path, evidence) is not None
    (tmp_path / CLAIM).write_text(json.dumps(claim | {ANSWERS: {"model": "of another"}}))
    assert read_facts(tmp_path, evidence) is None


def test_outputs_do_not_replace_files_of_other_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "explain.json").write_text('{"schema": 2}')  # what an audit's own folder has
    assert main(["explain", "nothing", "--out", str(tmp_path / "explain.html")]) == 2
    assert "holds something else than an explanation: choose another name with --out" in said(capsys)
    assert main(["compare", "nothing", "--out", str(tmp_path / "explain.json")]) == 2
    assert "holds something else than a comparison: choose another name with --out" in said(capsys)
    assert (tmp_path / "explain.json").read_text() == '{"schema": 2}'


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_the_report_says_why_and_more_with_features() -> None:
    evidence = audited()
    alone = visible(make_page([AuditedModel("m", evidence)]))
    assert "Why: what weak classes have in common" in alone and "end in elk than in any other class: 60.0 %" in alone
    assert "most similar class" not in alone and "need the network itself" in alone
    more = visible(make_page([AuditedModel("m", evidence, {}, collect_facts(evidence, "pgd", moments=moments()))]))
    assert "most similar class" in more and "need the network itself" not in more


def test_hostile_names_stay_text_and_a_sheet_has_its_images() -> None:
    evidence = audited(names=EVIL)
    made = collect_facts(evidence, "pgd", moments=moments(), plane=np.zeros((100, 2)))
    assert made is not None
    data = Dataset.of(np.full((100, 3, 8, 6), 200, np.uint8), evidence.labels.astype(np.int64), EVIL)
    made["sheet"] = draw_extremes(data, made["extremes"], EVIL, condition="pgd")
    assert made["sheet"]["source"].startswith("data:image/png;base64,")
    # Two ends of five images 64 // 8 = 8 times as large, five rows.
    assert (made["sheet"]["width"], made["sheet"]["height"]) == (130 + 10 * (48 + 2) + 14, 5 * (64 + 4))
    text = explain_page({EVIL[0]: made, "b": made})
    assert EVIL[0] not in text and EVIL[1] not in text and "49" not in visible(text).split("{{7*7}}")[0][-3:]
    specs = specifications(text)
    assert len(specs) > 10


@pytest.mark.medium
def test_the_command_audits_looks_at_features_and_feeds_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--attack", "clean,pgd1", "--per-class", "6", "--threads", "1"]
    assert main(["train", "standard", "--epochs", "2", "--per-class", "12", "--out", "t", "--threads", "1"]) == 0
    assert main(["explain", "t/model.pt", *options, "--training", "t"]) == 0
    said = capsys.readouterr().out
    assert " end in " in said and "explain.html" in said
    made = json.loads(Path("explain.json").read_text())["models"]["t/model.pt"]
    assert made["features"]["dimensions"] > 1 and made["overfitting"] is not None and made["sheet"] is not None
    assert len(made["plane"]) == 60
    (folder,) = Path("results").iterdir()
    assert main(["explain", str(folder), "-o", "again.html"]) == 0
    assert json.loads((folder / EXPLAIN_FILE).read_text())["features"] == made["features"]
    assert main(["explain", "t/model.pt", *options]) == 0
    assert json.loads((folder / EXPLAIN_FILE).read_text())["overfitting"] == made["overfitting"]
    assert main(["explain", str(folder), "--condition", "clean"]) == 0
    assert json.loads((folder / EXPLAIN_FILE).read_text())["condition"] == "clean"
    assert main(["explain", str(folder)]) == 0
    back = json.loads((folder / EXPLAIN_FILE).read_text())
    assert back["condition"] == made["condition"] and back["features"] == made["features"]
    assert back["predicts"] == made["predicts"]
    (folder / EXPLAIN_FILE).unlink()
    assert main(["explain", str(folder), "-o", "again.html"]) == 0
    assert json.loads((folder / EXPLAIN_FILE).read_text())["features"] is None
    assert main(["explain", "t/model.pt", str(folder), *options, "-o", "two.html"]) == 0
    other = ["--attack", "clean,pgd2", "--per-class", "6", "--threads", "1"]  # not the attack of the first
    assert main(["explain", str(folder), "t/model.pt", *other, "-o", "mixed.html"]) == 0
    assert json.loads(Path("mixed.json").read_text())["between"]["attacked"] is None
    two = json.loads(Path("two.json").read_text())
    assert two["between"]["models"] == ["t/model.pt", str(folder)]
    assert two["models"]["t/model.pt"]["confusion"] == two["models"][str(folder)]["confusion"]
    for wrong in ("nobody", "10"):
        assert main(["explain", str(folder), "--without", f"{wrong}={folder}"]) == 2
        assert f"there is no class '{wrong}'" in capsys.readouterr().err
    few = {"robust": {"n": [1, 1], "correct": [0, 1]}, "clean": {"n": [1, 1], "correct": [0, 1]}}
    Path("other").mkdir()
    Path("other/epochs.jsonl").write_text("\n".join(json.dumps({"epoch": e} | few | {"valid": few}) for e in (1, 2)))
    assert main(["explain", str(folder), "--training", "other"]) == 2
    assert "2 classes and the model 10" in capsys.readouterr().err


@pytest.mark.medium
def test_homing_from_trainings_without_a_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the guide says it: two trainings without a class, audited on the rest of the same images."""
    monkeypatch.chdir(tmp_path)
    names = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"]
    train = ["train", "standard", "--epochs", "2", "--per-class", "12", "--threads", "1"]
    audit = ["audit", "--attack", "clean,pgd1", "--per-class", "8", "--threads", "1"]
    for out, kept in (("full", names), ("no-dress", names[:3] + names[4:]), ("no-coat", names[:4])):
        only = ["--only", ",".join(kept)]
        assert main([*train, *only, "--out", out]) == 0
        assert main([*audit[:1], f"{out}/model.pt", *audit[1:], *only, "--out", f"a-{out}"]) == 0
    said = main(["explain", "a-full", "--condition", "pgd1", "--without", "Dress=a-no-dress,Coat=a-no-coat"])
    assert said == 0
    homing = json.loads(Path("a-full", EXPLAIN_FILE).read_text())["homing"]
    assert homing["removed"] == ["Dress", "Coat"] and len(homing["homed"]) == 5
    capsys.readouterr()
    assert main(["audit", "no-coat/model.pt", "--per-class", "8"]) == 2
    assert "add --only T-shirt/top,Trouser,Pullover,Dress" in capsys.readouterr().err


def test_what_cannot_be_explained_is_refused_before_it_is_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(
        "import torch\ndef build():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))\n"
    )
    for options, sentence in (
        (["--attack", "pgd1"], "put clean among them"),
        (["--attack", "clean,pgd1", "--condition", "pgd7"], "there is no condition 'pgd7'"),
    ):
        assert main(["explain", "net.py:build", "--per-class", "2", *options]) == 2
        assert sentence in capsys.readouterr().err and not Path("results").exists()


def test_a_sheet_shows_the_right_images_and_is_small_whatever_their_size() -> None:
    """Each image has a colour of its own; ids are not in the order of the rows."""
    ids = np.array([40, 10, 30, 20])
    colours = np.array([[200, 0, 0], [0, 200, 0], [0, 0, 200], [200, 200, 0]], np.uint8)
    images = np.broadcast_to(colours[:, :, None, None], (4, 3, 128, 64)).copy()
    data = replace(Dataset.of(images, np.array([0, 0, 1, 1]), ("ant", "bee")), ids=ids)
    ends = {"ant": {"most_robust": [10], "least_robust": [40]}, "bee": {"most_robust": [30], "least_robust": [20]}}
    made = draw_extremes(data, ends, ["bee", "ant"], condition="pgd")
    picture = Image.open(io.BytesIO(base64.b64decode(made["source"].partition(",")[2]))).convert("RGB")
    assert picture.size == (made["width"], made["height"]) == (130 + 2 * (32 + 2) + 14, 2 * (64 + 4))
    left, right = 130 + 16, 130 + 34 + 14 + 16
    seen = [[picture.getpixel((x, y)) for x in (left, right)] for y in (32, 68 + 32)]
    assert seen == [[(0, 0, 200), (200, 200, 0)], [(0, 200, 0), (200, 0, 0)]]


def test_models_under_different_attacks_are_compared_without_attack_only() -> None:
    both = {"a": collect_facts(audited(), "pgd"), "b": collect_facts(audited(), "clean")}
    found = compare_facts({name: one for name, one in both.items() if one is not None})
    assert found["attacked"] is None and found["natural"]["conditions"] == ["clean", "clean"]


def test_the_report_of_several_models_says_whether_they_agree() -> None:
    two = [AuditedModel("first", audited()), AuditedModel("second", audited((18, 17, 11, 9, 3)))]
    text = visible(make_page(two))
    assert "Do the models find the same classes hard?" in text and "first and second, under pgd: 0.9" in text
    assert "Do the models find" not in visible(make_page(two[:1]))


@pytest.mark.parametrize("option", [["--training", "nowhere"], ["--without", "0=nowhere"]])
def test_a_wrong_folder_is_found_out_before_anything_is_audited(
    option: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explain", "no-such-model.pt", *option]) == 2
    assert "nowhere" in capsys.readouterr().err
