"""summary.json: its contract, RobustBench's keys, and the fairness block against slow formulas."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import leastwise.report
from leastwise.attacks.naming import Threat
from leastwise.attacks.registry import make_attacks, repeat_over_radii
from leastwise.attacks.threats import Linf
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import audit
from leastwise.models.zoo.registry import build
from leastwise.report.cost_matrix import read_costs
from leastwise.report.summary import summarise
from leastwise.statistics.worst_class import estimate_worst
from tests.conftest import SHAPE, K
from tests.report.evidence_made_up import CIFAR10, evidence

SCHEMA = json.loads(Path(leastwise.report.__file__).with_name("summary.schema.json").read_text())


@pytest.mark.parametrize("k", [2, 10, 100])
def test_a_summary_keeps_its_contract(k: int) -> None:
    made = summarise(evidence(k, 30, more=True), {"model": "m.pt", "data": "cifar10/test"})
    jsonschema.validate(json.loads(json.dumps(made, allow_nan=False)), SCHEMA)
    assert SCHEMA["properties"]["schema"]["const"] == made["schema"]


def test_a_real_audit_with_missing_classes_grids_and_curves_keeps_it_too(unbalanced: Dataset) -> None:
    threat = Threat(Linf(0.02), 0.005, keep="last")
    names = repeat_over_radii("clean,fgsm,tpgd2-grid,fmn:5,reach2", ["0.01", "0.02"], threat)
    found = audit(build("convnet", SHAPE, K, seed=3), unbalanced, make_attacks(names, threat))
    made = summarise(found)
    jsonschema.validate(json.loads(json.dumps(made, allow_nan=False)), SCHEMA)
    assert made["eps"] is None and made["corruptions_acc"] is None and made["autoattack_acc"] is None
    assert "members" in made["conditions"]["tpgd2-grid[0.01]"] and "pair" in made["fairness"]["reach2[0.02]"]["game"]


def test_the_contract_notices_what_is_wrong() -> None:
    made = summarise(evidence(10, 30))
    for path, value in ((("fairness", "pgd20", "gini", "low"), 1.5), (("clean_acc",), 93.68), (("schema",), 1)):
        spoilt = json.loads(json.dumps(made))
        at = spoilt
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(spoilt, SCHEMA)


def test_robustbench_reads_percent_as_text_and_eps_as_a_fraction() -> None:
    made = summarise(evidence(10, 100), {"model": "m.pt", "data": "cifar10/test", "arch": "resnet20"})
    assert (made["name"], made["dataset"], made["architecture"]) == ("m.pt", "cifar10", "resnet20")
    assert made["clean_acc"] == f"{100 * made['conditions']['clean']['overall']:.2f}"
    assert made["autoattack_acc"] == f"{100 * made['conditions']['autoattack']['overall']:.2f}"
    assert made["eps"] == "2/255" or made["eps"].startswith("0.00784")
    first_11 = (
        "link name authors additional_data number_forward_passes dataset venue architecture eps clean_acc reported"
    )
    assert set(first_11.split()) <= made.keys()


def test_fairness_against_slow_formulas() -> None:
    found = evidence(10, 200, more=True)
    made, tally = summarise(found)["fairness"]["pgd20"], found.tally("pgd20")
    a, n = tally.accuracy.numpy(), tally.n.numpy()
    lowest = estimate_worst(tally.correct.numpy(), n)
    assert made["worst"]["corrected"] == lowest.corrected and sum(made["worst"]["probability"]) == pytest.approx(1)
    assert made["cv"]["plug_in"] == pytest.approx(np.var(100 * a))
    noise = 9 / 100 * sum(p * (1 - p) / 199 for p in a)
    assert made["cv"]["debiased"] == pytest.approx(np.var(100 * a) - 1e4 * noise)
    assert made["sd_debiased"] == pytest.approx(np.sqrt(np.var(100 * a) - 1e4 * noise))
    assert made["worst_k"]["3"]["plug_in"] == pytest.approx(np.sort(a)[:3].mean())
    assert made["cvar"]["0.2"]["plug_in"] == pytest.approx(np.sort(a)[:2].mean())
    pairs = np.abs(a[:, None] - a[None]).sum()
    assert made["gini"]["plug_in"] == pytest.approx(pairs / (2 * 100 * a.mean()))
    assert made["nsd_error"] == pytest.approx(a.std() / (1 - a).mean())
    assert made["nsd_accuracy"] == pytest.approx(a.std() / a.mean())
    clean = found.tally("clean").accuracy.numpy()
    assert made["boundary_error"] == pytest.approx((clean - a).tolist())
    predicted = found.conditions["pgd20"].predicted
    for c in (0, 3):
        others = found.labels != c
        assert made["false_positive_rate"][c] == pytest.approx((predicted[others] == c).mean())
    share = np.array(
        [[(predicted[found.labels == i] == j).mean() if i != j else 0 for j in range(10)] for i in range(10)]
    )
    assert made["confusion_norm"] == pytest.approx(np.sqrt(np.linalg.eigvalsh(share.T @ share).max()))
    assert made["game"]["class"]["source"] == "cat" and made["game"]["class"]["cost"] == pytest.approx(1 - a[3])
    assert {name for group in made["rank_groups"] for name in group} == set(CIFAR10)


def test_costs_change_what_an_attacker_would_pick(tmp_path: Path) -> None:
    found = evidence(10, 200, more=True)
    rows = [["", *CIFAR10]] + [[name, *("0" if i == j else "1" for j in range(10))] for i, name in enumerate(CIFAR10)]
    rows[1 + 9][1 + 1] = "500"  # a truck that is taken for a car
    file = tmp_path / "costs.csv"
    file.write_text("\n".join(",".join(row) for row in rows))
    cost = read_costs(file, CIFAR10)
    game = summarise(found, cost=cost)["fairness"]["reach20"]["game"]
    assert game["class"]["source"] == "truck"
    assert (game["pair"]["source"], game["pair"]["target"]) == ("truck", "automobile")
    reach = found.reach("reach20")
    assert reach is not None and game["pair"]["cost"] == pytest.approx(500 * reach[9, 1])
    file.write_text("\n".join(",".join(row[1:]) for row in rows[1:]))
    assert np.array_equal(read_costs(file, CIFAR10), cost)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1,2\n3,4", "10 rows of 10 numbers, but .* has 2 rows of 2 to 2"),
        ("", "has 0 rows"),
        ("\n".join([",".join(["1"] * 10)] * 9 + [",".join(["1"] * 9 + ["-1"])]), "at least 0, but .* has '-1'"),
        ("\n".join([",".join(["1"] * 10)] * 9 + [",".join(["1"] * 9 + ["nan"])]), "has 'nan'"),
        ("\n".join([",".join(["dog", *CIFAR10[1:]])] + [",".join(["1"] * 10)] * 10), "saw 'dog' where 'airplane'"),
    ],
)
def test_bad_costs_are_refused_in_one_sentence(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        read_costs(tmp_path / "c.csv", CIFAR10)
