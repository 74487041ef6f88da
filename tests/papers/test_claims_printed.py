"""Every claim is put to the numbers that its paper prints: a coding which they fail would be wrong (decision 21).

Class accuracies are printed in Tian's Tables 1, 3 and 4 (cats). Elsewhere only a mean, a spread or an end of the
classes is: then classes are made up that have exactly these.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from leastwise.audit.evidence import Evidence
from leastwise.data.classes import CIFAR10, CIFAR10_GROUPS
from leastwise.papers.ahn.verdicts import PAIRS
from leastwise.papers.claims.agreement import confusions_stay_near, profiles_agree, robust_agree_more, same_class_order
from leastwise.papers.claims.attacks import (
    class_is_lifted,
    gains_on_weak_classes,
    temperature_is_stronger,
    temperature_widens_spread,
    white_background_helps,
    white_background_spares_natural,
)
from leastwise.papers.claims.base import ClaimFinding
from leastwise.papers.claims.features import allows_a_larger_weight, average_rises, worst_class_rises
from leastwise.papers.claims.spread import (
    ALMOST_HALF,
    SMALL_COST,
    classes_differ,
    fair_method_costs,
    fair_method_narrows,
    fair_weights_cost_little,
    fair_weights_narrow,
    few_classes_carry_the_drop,
    spread_widens,
    weakest_class_changes,
    weight_costs_average,
    weight_lifts_its_class,
)
from leastwise.papers.claims.table import CLAIMS
from leastwise.papers.claims.trainings import TrainingPair
from leastwise.papers.printed import exhibit_errata, printed_table
from leastwise.papers.tian2021.exhibits import DEFENCES
from leastwise.papers.tian2021.verdicts import TABLE1_ATTACKS
from leastwise.papers.tradeoff2022.verdicts import LIFTED
from tests.insight.evidence_of_logits import evidence_of, predicting

CAT, DOG, BIRD = 3, 5, 2
TABLE_1, TABLE_3 = printed_table("tian2021/table1"), printed_table("tian2021/table3")
# What papers print of these claims is no number that their coding could be put to.
NOTHING_PRINTED = {
    "C4": "cosines of standard and adversarial training stand in no text",
    "C9 where smooth": "CVC is drawn, and only its two smallest classes are named",
    "C10": "CVC is drawn, and only its two smallest classes are named",
    "C11": "one cell of the matrix, 119 cats, is all that is printed",
    "C13": "the matrices are drawn",
    "C14": "the curves are drawn; only that they end to rise at 8/255 is said",
    "C16": "no statistic is given",
    "C17": "bounds for two groups of superclasses, over all methods together",
    "C18": "similarity and variance are drawn",
    "C19": "errors of two or one of nine classes; similarity is drawn",
    "C20 similarity falls": "drawn",
    "C20 variance falls": "drawn",
    "C21 entropy is higher": "drawn",
    "C2 of natural accuracy": "Table 5 has robustness after adversarial training",
    "C6 mutual": "matrices are drawn; one row of Table 4 is not enough for symmetry",
    "C28": "similarity and variance are drawn",
    "C31": "no statistic is given",
    "C32": "the clean network's accuracy of chair and fox is drawn",
}
PUT_TO_THE_TEST = "C1 C2 C3 C5 C6 C7 C8 C9 C12 C15 C20 C21 C22 C23 C24 C25 C26 C27 C29 C30"


def audit_of(conditions: Mapping[str, Sequence[float]], each: int = 1000) -> Evidence:
    """Class accuracies under each condition, exactly; mistakes go to the next class, and the same images are right."""
    k = len(next(iter(conditions.values())))
    labels, place = np.repeat(np.arange(k), each), np.tile(np.arange(each), k)
    logits = {}
    for name, accuracy in conditions.items():
        right = place < np.rint(each * np.asarray(accuracy))[labels]
        logits[name] = predicting(np.where(right, labels, (labels + 1) % k), k)
    names = CIFAR10 if k == len(CIFAR10) else tuple(f"class {c}" for c in range(k))
    return evidence_of(logits, labels, names=names)


def printed(row: Mapping[str, object]) -> np.ndarray:
    """The ten class accuracies of a row of Tian's tables."""
    return np.array([row[str(c)].value for c in range(10)]) / 100  # type: ignore[attr-defined]


def trained(before: Sequence[float], after: Sequence[float], each: int = 1000) -> TrainingPair:
    """Two ways of training whose three seeds gave the same: what is left is the choice of images."""
    first, second = (((audit_of({"a": one}, each), "a"),) * 3 for one in (before, after))
    return TrainingPair(first, second, ((first,), (second,)))


def with_shape(mean: float, deviation: float, lowest: float, highest: float, k: int) -> np.ndarray:
    """k classes of that mean and deviation, with these ends; half of the others above and half below their mean."""
    middle = (k * mean - lowest - highest) / (k - 2)
    square = (k * deviation**2 - (lowest - mean) ** 2 - (highest - mean) ** 2) / (k - 2) - (middle - mean) ** 2
    assert square >= 0 and k % 2 == 0
    made = middle + np.sqrt(square) * np.where(np.arange(k - 2) % 2, 1, -1)
    assert lowest <= made.min() and made.max() <= highest
    return np.concatenate([[lowest, highest], made])


def hold(found: Sequence[ClaimFinding]) -> bool:
    return bool(found) and all(one.verdict == "holds" for one in found)


def test_every_claim_is_put_to_the_test_or_has_nothing_printed() -> None:
    parts = {f"{one.id} {part}".strip() for one in CLAIMS.values() for part in one.parts}
    silent = {part for part in parts if part in NOTHING_PRINTED or part.partition(" ")[0] in NOTHING_PRINTED}
    assert {name.partition(" ")[0] for name in parts - silent} == set(PUT_TO_THE_TEST.split())
    assert all(name in parts or name in CLAIMS for name in NOTHING_PRINTED)


@pytest.mark.parametrize("row", TABLE_1)
def test_c1_every_row_of_table_1(row: str) -> None:
    assert hold(classes_differ(audit_of({"pgd": printed(TABLE_1[row])}), "pgd"))


@pytest.mark.parametrize("data", printed_table("tian2021/table5"))
def test_c2_every_data_set_of_table_5(data: str) -> None:
    """The printed CV and MCD decide the shape of the classes; twelve of them where there are very many."""
    row, k = printed_table("tian2021/table5")[data], 12 if data in ("CIFAR-100", "ImageNet") else 10

    def classes(kind: str) -> np.ndarray:
        half = row[f"{kind} MCD"].value / 200
        return with_shape(0.5, np.sqrt(row[f"{kind} CV"].value) / 100, 0.5 - half, 0.5 + half, k)

    found = spread_widens(trained(classes("standard"), classes("adversarial"), each=4000))
    change = row["adversarial CV"].value - row["standard CV"].value
    assert hold(found) and 1e4 * found[0].value == pytest.approx(change, rel=0.03)


def profiles_of(cosine: float, models: int, k: int) -> np.ndarray:
    """Profiles whose deviations have the same cosine in every pair."""
    rng = np.random.default_rng(0)
    centred = rng.normal(size=(k, models + 1))
    basis, _ = np.linalg.qr(centred - centred.mean(0))
    return 0.7 + 0.1 * (np.sqrt(cosine) * basis[:, 0] + np.sqrt(1 - cosine) * basis[:, 1:].T)


COSINES = [
    ("fig4", "CIFAR-10 all pairs", 8, 10),
    ("fig4", "CIFAR-100 all pairs", 10, 100),
    ("fig5", "ImageNet all pairs", 8, 100),
    ("fig6", "all pairs", 4, 10),
    ("fig11", "all pairs", 5, 100),
    ("fig3", "SVHN mean of pairs", 7, 10),
]


@pytest.mark.parametrize(("figure", "row", "models", "k"), COSINES)
def test_c3_printed_cosines_beat_any_order_of_the_classes(figure: str, row: str, models: int, k: int) -> None:
    cosine = printed_table(f"benz2021/{figure}")[row]["cosine"].value
    found = profiles_agree(profiles_of(cosine, models, k))
    assert hold(found) and found[0].value == pytest.approx(cosine, abs=1e-6)


def test_c3_two_networks_on_digits_are_not_enough_to_be_sure() -> None:
    """0.64 of ten classes is near what chance gives: the coding asks for more than the paper does."""
    cosine = printed_table("benz2021/fig3")["MNIST ConvNet-LeNet"]["cosine"].value
    (found,) = profiles_agree(profiles_of(cosine, 2, 10))
    assert found.value == pytest.approx(0.64) and found.verdict != "does not hold"


def test_c5_robust_networks_agree_more() -> None:
    standard = printed_table("benz2021/fig5")["ImageNet all pairs"]["cosine"].value
    robust = printed_table("benz2021/fig11")["all pairs"]["cosine"].value
    (found,) = robust_agree_more(profiles_of(standard, 8, 100), profiles_of(robust, 5, 100))
    assert found.value == pytest.approx(robust - standard) and found.value > 0 and found.verdict != "does not hold"


def test_c6_cats_are_taken_for_animals() -> None:
    row = printed_table("tian2021/table4")["1 original, natural"]
    counts = [int(row[str(c)].value) for c in range(10)]
    predicted = np.repeat(np.arange(10), counts)
    evidence = evidence_of(
        {"clean": predicting(predicted, 10)}, np.full(1000, CAT), names=CIFAR10, groups=CIFAR10_GROUPS
    )
    (found,) = confusions_stay_near(evidence, "clean")
    assert found.verdict == "holds" and found.value == pytest.approx(248 / 290)


@pytest.mark.parametrize("name", DEFENCES)
def test_c7_c8_gains_on_weak_classes(name: str) -> None:
    def pair(weaker: str, stronger: str) -> ClaimFinding:
        rows = {one: printed(TABLE_1[f"{name} {one}"]) for one in (weaker, stronger)}
        (found,) = gains_on_weak_classes(*((audit_of({one: rows[one]}), one) for one in rows))
        return found

    assert pair("FGSM", "PGD").value < 0 and pair("FGSM", "PGD").verdict != "does not hold"
    assert pair("transfer", "NAttack").verdict == "holds"


@pytest.mark.parametrize("row", TABLE_3)
def test_c9_c26_temperature_pgd_is_stronger_and_widens_the_spread(row: str) -> None:
    name = row.split()[0]
    evidence = audit_of({"pgd": printed(TABLE_1[f"{name} PGD"]), "tpgd": printed(TABLE_3[row])})
    (stronger,), (wider,) = (
        temperature_is_stronger(evidence, "pgd", "tpgd"),
        temperature_widens_spread(evidence, "pgd", "tpgd"),
    )
    assert stronger.value < 0 and stronger.verdict == "holds"
    assert wider.value > 0 and wider.verdict != "does not hold"


def test_c12_cats_with_a_smaller_beta_of_dog() -> None:
    rows = printed_table("tian2021/fig4c")
    before, after = (rows[f"beta of class 5 = {beta}"]["3"].value / 100 for beta in ("6", "0.5"))
    four = printed_table("tian2021/table4")
    white = [
        four[line]["3"].value / 1000
        for line in ("5 white background, adversarial", "6 + training adjustment, adversarial")
    ]
    for first, second in ((before, after), tuple(white)):
        (found,) = class_is_lifted(trained([0.5] * 3 + [first], [0.5] * 3 + [second]), cls=CAT)
        assert found.value == pytest.approx(second - first, abs=0.001) and found.verdict != "does not hold"
    assert before < after and white[0] < white[1]


@pytest.mark.parametrize(("base", "other"), PAIRS)
def test_c15_fair_methods_of_ahns_table_1(base: str, other: str) -> None:
    rows = printed_table("ahn/table1")

    def classes(name: str, kind: str) -> np.ndarray:
        columns = ("average", "class SD", "worst class", "best class")
        return with_shape(*(rows[name][f"{column}, {kind}"].value / 100 for column in columns), k=100)

    pairs = {kind: trained(classes(base, kind), classes(other, kind), each=100) for kind in ("clean", "robust")}
    clean, robust, worst = fair_method_narrows(pairs["clean"], pairs["robust"])
    assert clean.value < 0 and robust.value < 0 and worst.value > 0
    before, after = (rows[name]["class SD, clean"].value for name in (base, other))
    assert 1e4 * clean.value == pytest.approx(after**2 - before**2, rel=0.1)
    fallen = fair_method_costs(pairs if other.endswith("FRL") else {"robust": pairs["robust"]})
    assert all(one.value < 0 for one in fallen)


def test_c15_what_ahn_contradicts_is_said_on_the_page() -> None:
    """TRADES + CFA is less even than TRADES: it is not claimed, and the erratum says why."""
    rows = printed_table("ahn/table1")
    assert rows["TRADES + CFA"]["class SD, clean"].value > rows["TRADES"]["class SD, clean"].value
    assert ("TRADES", "TRADES + CFA") not in PAIRS
    assert any(one.id == "ahn-4" and "TRADES + CFA is less even" in one.what for one in exhibit_errata("ahn/table1"))


@pytest.mark.parametrize(("base", "other", "attack"), LIFTED)
def test_c20_worst_classes_of_table_4(base: str, other: str, attack: str) -> None:
    column = {"clean": "natural", "pgd": "PGD-20", "cw": "C&W-20", "autoattack": "AA"}[attack]
    rows = printed_table("tradeoff2022/table4")
    before, after = (rows[name][column].value / 100 for name in (base, other))
    (found,) = worst_class_rises(trained([before, *[0.9] * 9], [after, *[0.9] * 9]))
    assert (
        found.value == pytest.approx(after - before, abs=0.001) and found.value > 0 and found.verdict != "does not hold"
    )


@pytest.mark.parametrize("column", ["PGD-20", "C&W-20", "AA"])
def test_c21_the_most_robust_lambda_is_larger_with_entropy(column: str) -> None:
    rows = printed_table("tradeoff2022/table2")

    def models(begin: str) -> dict[float, Evidence]:
        found = {
            float(row.rpartition("=")[2]): cells[column].value / 100
            for row, cells in rows.items()
            if row.startswith(begin)
        }
        return {weight: audit_of({"a": [accuracy] * 2}, each=5000) for weight, accuracy in found.items()}

    (found,) = allows_a_larger_weight(models("TRADES"), models("ME-TRADES"), "a")
    assert found.value == {"PGD-20": 12, "C&W-20": 21, "AA": 21}[column] and found.verdict == "holds"


def test_c22_bird_and_cat() -> None:
    share = printed_table("tradeoff2022/fig1c")["bird and cat"]["share of the accuracy drop"].value / 100
    fall = np.full(10, (1 - share) / 8)
    fall[[BIRD, CAT]] = share / 2
    before = ((audit_of({"a": [0.9] * 10}), "a"),)
    after = ((audit_of({"a": 0.9 - fall}), "a"),)
    (found,) = few_classes_carry_the_drop(before, after, classes=(BIRD, CAT))
    assert found.value == pytest.approx(share, abs=0.01) and found.value > ALMOST_HALF and found.verdict == "holds"


FAIR = (
    ("standard", "standard fair"),
    ("adversarial clean", "adversarial fair clean"),
    ("adversarial robust", "adversarial fair robust"),
)


@pytest.mark.parametrize(("base", "fair"), FAIR)
def test_c23_fair_weights_narrow_and_cost_little_where_the_paper_says_so(base: str, fair: str) -> None:
    rows = printed_table("benz2021/fig15")

    def classes(name: str) -> np.ndarray:
        overall, away = (rows[name][column].value / 100 for column in ("overall", "worst deviation"))
        return np.array([overall + away, *[overall - away / 9] * 9])

    pair = trained(classes(base), classes(fair))
    assert hold(fair_weights_narrow(pair))
    (cost,) = fair_weights_cost_little(pair)
    assert 100 * cost.value == pytest.approx(rows[fair]["overall"].value - rows[base]["overall"].value, abs=0.1)
    if base == "standard":  # only there the paper calls it small
        assert cost.value > -SMALL_COST and cost.verdict == "holds"


def test_c24_dog_is_the_weakest_under_most_corruptions() -> None:
    cells = printed_table("benz2021/fig16")
    cat, dog = (int(cells[row]["most vulnerable class"].value) - 1 for row in ("adversarial", "most corruptions"))
    assert (cat, dog) == (CAT, DOG)
    weak = {c: [0.5 if one == c else 0.9 for one in range(10)] for c in (cat, dog)}
    corrupted = {f"corruption {n}": weak[dog if n < 4 else cat] for n in range(7)}  # most of seven are four
    evidence = audit_of({"clean": weak[cat], **corrupted}, each=200)
    (found,) = weakest_class_changes(evidence, "clean", {name: [name] for name in corrupted})
    assert found.verdict == "holds" and found.value == pytest.approx(4 / 7)


def test_c25_the_order_of_classes_in_table_1() -> None:
    called = {"fgsm": "FGSM", "pgd": "PGD", "transfer": "transfer"}
    rows = [printed(TABLE_1[f"{name} {called[attack]}"]) for name in DEFENCES for attack in TABLE1_ATTACKS]
    assert hold(same_class_order(np.stack(rows)))


def test_c27_cats_on_white() -> None:
    rows = printed_table("tian2021/table4")

    def pair(before: str, after: str) -> list[tuple[Evidence, str]]:
        return [(audit_of({"a": [rows[line]["3"].value / 1000] * 2}, each=500), "a") for line in (before, after)]

    (attacked,) = white_background_helps(*pair("4 original, adversarial", "5 white background, adversarial"))
    (natural,) = white_background_spares_natural(*pair("1 original, natural", "2 white background, natural"))
    assert attacked.verdict == "holds" and attacked.value == pytest.approx(0.141, abs=0.002)
    assert natural.verdict == "holds" and natural.value == pytest.approx(0.032, abs=0.002)


@pytest.mark.parametrize("column", ["natural", "PGD-20"])
def test_c29_maximum_entropy_lifts_the_average(column: str) -> None:
    rows = printed_table("tradeoff2022/table3")
    before, after = (rows[name][column].value / 100 for name in ("PGD-AT", "ME-AT β=0.5"))
    (found,) = average_rises(trained([before] * 2, [after] * 2, each=5000))
    assert (
        found.value == pytest.approx(after - before, abs=2e-4) and found.value > 0 and found.verdict != "does not hold"
    )


def test_c29_what_the_paper_contradicts_is_said_on_the_page() -> None:
    """Under AutoAttack and C&W-20 smoothing is better than entropy."""
    rows = printed_table("tradeoff2022/table3")
    assert all(rows["PGD-AT+LS α=0.1"][c].value > rows["ME-AT β=0.5"][c].value for c in ("AA", "C&W-20"))
    assert any(one.id == "tradeoff2022-4" for one in exhibit_errata("tradeoff2022/table3"))


def test_c30_weights_of_cat() -> None:
    rows = printed_table("benz2021/table1")
    audits = {}
    for name, cells in rows.items():
        cat, overall = cells["class 4"].value / 100, cells["overall"].value / 100
        others = (10 * overall - cat) / 9
        audits[float(name.split()[1])] = audit_of({"a": [others] * 3 + [cat] + [others] * 6}), "a"
    (lifts,), (costs,) = weight_lifts_its_class(audits, CAT), weight_costs_average(audits)
    assert lifts.value > 0 and lifts.verdict != "does not hold"
    assert costs.value < 0 and costs.verdict != "does not hold"
