"""Rules from exhibits to claims, on made-up results: every rule finds what it needs and says what is missing."""

import zlib
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from leastwise.audit.evidence import Evidence
from leastwise.core.counts import Tally
from leastwise.data.classes import CIFAR10, CIFAR10_GROUPS, CIFAR100, CIFAR100_GROUPS
from leastwise.insight.features import Moments
from leastwise.papers.claims.table import CLAIMS
from leastwise.papers.judge import ClaimVerdict, VerdictRule, judge_claims
from leastwise.papers.recipes import Measured, Recipe, Trained, list_replicas
from leastwise.papers.registry import EXHIBITS, PAPERS, keep_roles, list_recipes, load_rules, select_exhibits
from leastwise.papers.results import RecipeResult, Results
from leastwise.papers.tian2021.exhibits import CAT, DOG
from tests.insight.evidence_of_logits import evidence_of
from tests.papers.results_made_up import with_recipe

FEW = 12  # classes of the large data sets here: the rules do not count them


def names_of(recipe: Measured) -> tuple[str, ...]:
    change = recipe.data.change
    if recipe.data.name == "cifar100":
        return CIFAR100
    names = CIFAR10 if "imagenet" not in recipe.data.name else tuple(f"n{c}" for c in range(FEW))
    if change[:1] == ("removed",):
        return tuple(name for c, name in enumerate(names) if c != change[1])
    return tuple(names[c] for c in change[1:] if isinstance(c, int)) if change[:1] == ("binary",) else names


def made_up(recipe: Recipe, each: int = 8) -> RecipeResult:
    """Accuracies that fall from class to class, the same for all networks of a data set but for chance."""
    rng = np.random.default_rng(zlib.crc32(repr(recipe).encode()))
    if isinstance(recipe, Trained):
        n = torch.full((100,), 50)
        learnt = torch.linspace(0.9, 0.3, 100)
        return RecipeResult(epochs=tuple(Tally(n, (n * learnt * e / 5).long()) for e in range(1, 6)))
    names = names_of(recipe)
    k = len(names)
    whole = CIFAR10 if recipe.data.change[:1] == ("removed",) else names
    labels = np.repeat([names.index(name) for name in whole if name in names], each)
    ids = np.concatenate([np.arange(each) + each * c for c, name in enumerate(whole) if name in names])
    chance = np.linspace(0.9, 0.3, k)
    logits = {}
    for number, condition in enumerate(recipe.conditions):
        right = rng.random(len(labels)) < chance[labels] * 0.8**number
        predicted = np.where(right, labels, rng.integers(0, k, len(labels)))
        logits[condition] = 3 * np.eye(k)[predicted] + 0.1 * rng.normal(size=(len(labels), k))
    groups = {CIFAR10: CIFAR10_GROUPS, CIFAR100: CIFAR100_GROUPS}.get(names, ())
    if recipe.data.change == ("coloured",):
        groups = (("on red", tuple(range(5))), ("on blue", tuple(range(5, 10))))
    evidence = with_recipe(evidence_of(logits, labels, names=names, groups=groups, ids=ids))
    return RecipeResult(
        evidence, Moments.of(rng.random((len(labels), 6)), labels, k) if "features" in recipe.keeps else None
    )


@cache
def results(paper: str, scale: str) -> Results:
    recipes, _ = list_recipes(PAPERS[paper].exhibits, scale)
    return {one: made_up(one) for recipe in recipes for one in (recipe, *list_replicas(recipe))}


# What each exhibit speaks to, as read from the papers.
SPEAKS_TO = {
    "benz2021/fig1": "C1",
    "benz2021/fig2": "C1 C2",
    "benz2021/fig3": "C3",
    "benz2021/fig4": "C3",
    "benz2021/fig5": "C3",
    "benz2021/fig6": "C3",
    "benz2021/fig9": "C2 C4",
    "benz2021/fig11": "C3 C5",
    "benz2021/fig12": "C6",
    "benz2021/fig13": "C6",
    "benz2021/fig14": "C3",
    "benz2021/fig15": "C23",
    "benz2021/fig16": "C24",
    "benz2021/protocol": "C1 C2 C4 C24",
    "benz2021/table1": "C30",
    "tian2021/fig1": "C1",
    "tian2021/fig2": "C6",
    "tian2021/table1": "C1 C7 C8 C25",
    "tian2021/fig3a": "C10",
    "tian2021/table3": "C9 C26",
    "tian2021/fig4a": "C6",
    "tian2021/fig4b": "C11",
    "tian2021/fig4c": "C12",
    "tian2021/fig5": "C13",
    "tian2021/table4": "C12 C27",
    "tian2021/table5": "C1 C2",
    "ahn/fig1": "C14",
    "ahn/fig2abcd": "C32",
    "ahn/fig2efgh": "C16",
    "ahn/table1": "C15",
    "ahn/fig3": "C16 C31",
    "ahn/fig4": "C17",
    "ahn/fig11": "C17",
    "ahn/fig12": "C17",
    "tradeoff2022/fig1ab": "C2",
    "tradeoff2022/fig1c": "C22",
    "tradeoff2022/fig2": "C18 C28",
    "tradeoff2022/fig4": "C18",
    "tradeoff2022/fig5": "C19",
    "tradeoff2022/fig6": "C20",
    "tradeoff2022/fig7": "C21",
    "tradeoff2022/table2": "C21",
    "tradeoff2022/table3": "C29",
    "tradeoff2022/table4": "C20",
}
RULES: dict[str, tuple[VerdictRule, ...]] = {name: load_rules(paper) for name, paper in PAPERS.items()}


def judge(paper: str, found: Results, scale: str) -> tuple[ClaimVerdict, ...]:
    return judge_claims(RULES[paper], found, scale, exhibits=EXHIBITS)


def test_rules_and_exhibits_name_the_same_claims() -> None:
    declared = {(exhibit, claim) for exhibit, claims in SPEAKS_TO.items() for claim in claims.split()}
    assert {(rule.exhibit, rule.claim.id) for rules in RULES.values() for rule in rules} == declared
    assert {rule.claim.id for rules in RULES.values() for rule in rules} == set(CLAIMS)
    assert all(rule.exhibit.split("/")[0] == paper for paper, rules in RULES.items() for rule in rules)


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_every_rule_finds_what_it_needs(paper: str) -> None:
    """All but ImageNet's: one training on each side tells nothing, and its classes have no superclasses."""
    for one in judge(paper, results(paper, "full"), "full"):
        lacking = "imagenet" in one.on.replace("tiny-imagenet", "") and (one.claim.id == "C2" or "inside" in one.part)
        assert bool(one.findings) != lacking and bool(one.missing) == lacking, one
        assert one.verdict in ("holds", "does not hold", "undecided")


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_at_lite_scale_only_imagenet_is_missing(paper: str) -> None:
    of_imagenet = {"benz2021/fig9", "benz2021/fig11"}
    for one in judge(paper, results(paper, "lite"), "lite"):
        assert bool(one.findings) != (
            one.exhibit in of_imagenet
            or (one.exhibit, one.on) == ("benz2021/fig5", "standard")  # those of ImageNet
            or "imagenet" in one.on.replace("tiny-imagenet", "")
        ), one


@pytest.mark.parametrize("paper", PAPERS)
def test_without_results_everything_is_missing_and_says_so(paper: str) -> None:
    for one in judge(paper, {}, "full"):
        assert one.findings == () and one.missing and one.verdict == "undecided", one


def test_a_rule_looks_at_the_right_networks() -> None:
    """Cats of one network are lifted by hand; the claim about them turns, and no other does."""
    recipes = results("tian2021", "full")
    before = EXHIBITS["tian2021/fig4c"].needs["6"]
    after = EXHIBITS["tian2021/fig4c"].needs["0.5"]
    assert isinstance(before, Measured) and isinstance(after, Measured)

    def with_cats(recipe: Measured, right: bool) -> RecipeResult:
        labels = np.repeat(np.arange(10), 40)
        predicted = np.where((labels == CAT) & (not right), DOG, labels)
        logits = {name: 3.0 * np.eye(10)[predicted] for name in recipe.conditions}
        return RecipeResult(with_recipe(evidence_of(logits, labels, names=CIFAR10, groups=CIFAR10_GROUPS)))

    def changed_to(right: bool) -> Results:
        """All seeds of the first network, and the one of the second."""
        seeds = {replace(before.model, seed=seed) for seed in (0, 1, 2)}  # type: ignore[type-var]
        first = {one: with_cats(one, not right) for one in recipes if isinstance(one, Measured) and one.model in seeds}
        return {**recipes, **first, after: with_cats(after, right)}

    changed = changed_to(right=True)
    found = [one for one in judge("tian2021", changed, "full") if one.exhibit == "tian2021/fig4c"]
    assert [(one.claim.id, one.on, one.verdict) for one in found] == [("C12", "6; 0.5", "holds")]
    assert found[0].findings[0].value == 1
    turned = changed_to(right=False)
    (other,) = (one for one in judge("tian2021", turned, "full") if one.exhibit == "tian2021/fig4c")
    assert other.verdict == "does not hold"


def test_a_network_that_gives_one_answer_decides_nothing() -> None:
    """As adversarial training on digits may end: all classes but one are at 0, and no spread could be wider."""
    recipes = dict(results("tian2021", "full"))
    failed = EXHIBITS["tian2021/table5"].needs["mnist, adversarial"]
    assert isinstance(failed, Measured)
    labels = np.repeat(np.arange(10), 8)
    always = 3.0 * np.eye(10)[np.full(len(labels), 3)]
    recipes[failed] = RecipeResult(evidence_of(dict.fromkeys(failed.conditions, always), labels, names=CIFAR10))
    found = [one for one in judge("tian2021", recipes, "full") if "mnist, adversarial" in one.on]
    assert {one.claim.id for one in found} == {"C1", "C2"} and not any(one.findings for one in found)
    assert {one.missing for one in found} == {
        "mnist, adversarial gives one answer to all images: its training failed",
    }


def test_what_is_there_decides_and_is_named() -> None:
    """Two of eight methods, three of ten networks: claims over several are decided by these, and say so."""
    some = list_recipes(keep_roles(select_exhibits("ahn/fig4"), ("PGD", "TRADES")), "lite")[0]
    found = {one.exhibit: one for one in judge("ahn", {r: made_up(r) for r in some}, "lite") if one.claim.id == "C17"}
    (w,) = found["ahn/fig4"].findings
    assert w.what == "Kendall's W of 20 superclasses over 2 methods: only PGD, TRADES"
    assert found["ahn/fig11"].missing == "1 of 4 are among the results, and two are needed"


def test_networks_that_stand_for_others_do_not_agree_by_that() -> None:
    """At scale lite `convnet` stands for VGG-16 and `small` for the rest: one network with several seeds."""
    rows = ("cifar10 vgg16-bn", "cifar10 resnet18", "cifar10 resnet50", "cifar10 densenet121")
    some = list_recipes(keep_roles(select_exhibits("benz2021/fig4"), rows), "lite")[0]
    (case, _) = (
        one for one in judge("benz2021", {r: made_up(r) for r in some}, "lite") if one.exhibit == "benz2021/fig4"
    )
    (one,) = case.findings
    assert one.what.startswith("cosine of two models") and "convnet for vgg16-bn, small for resnet18" in one.what
    alike = list_recipes(keep_roles(select_exhibits("benz2021/fig4"), rows[1:]), "lite")[0]
    judgements = judge("benz2021", {r: made_up(r) for r in alike}, "lite")
    missing = {one.missing for one in judgements if one.exhibit == "benz2021/fig4" and one.on == "cifar10"}
    assert missing == {"at this scale one network stands for all architectures that are there"}


def test_evidence_of_the_made_up_results_is_sound() -> None:
    for paper in PAPERS:
        for found in results(paper, "full").values():
            if isinstance(found.evidence, Evidence):
                found.evidence.verify()
