"""The declarations: every exhibit of the four papers, in names that exist, at three scales."""

from dataclasses import replace

import pytest

from leastwise.attacks.goals import CE
from leastwise.attacks.naming import Threat
from leastwise.attacks.pgd import PGD
from leastwise.attacks.registry import make_attack, split_names
from leastwise.attacks.threats import Linf
from leastwise.core.recipe import recipe_key
from leastwise.data.augment.registry import AUGMENTATIONS
from leastwise.data.classes import CIFAR100, CIFAR100_GROUPS
from leastwise.data.registry import SOURCES
from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import ReleasedNetwork
from leastwise.models.zoo.registry import find_architecture
from leastwise.papers.ahn import exhibits as ahn
from leastwise.papers.ahn.exhibits import CHAIR, CLEAN, FOX, FURTHER, GRID, SWEEP, pgd
from leastwise.papers.benz2021.exhibits import CORRUPTIONS, network
from leastwise.papers.cost import condition_passes, costs_by_scale, count_images, find_released, total_cost
from leastwise.papers.exhibit import Exhibit
from leastwise.papers.printed import read_errata, read_printed
from leastwise.papers.recipes import Absent, Measured, PaperThreat, Recipe, Trained, networks, trainings
from leastwise.papers.registry import PAPERS, keep_roles, list_recipes, select_exhibits
from leastwise.papers.scales import SCALES, scale
from leastwise.papers.tian2021 import exhibits as tian2021
from leastwise.papers.tian2021.exhibits import (
    DEFENCES,
    FULL,
    STANDARD,
    make_wide_audit,
    shown_classes,
    with_beta_of_dog,
)
from leastwise.papers.tradeoff2022 import exhibits as tradeoff2022
from leastwise.papers.tradeoff2022.exhibits import PGD_AT, ST, THREAT

EXHIBITS = [exhibit for paper in PAPERS.values() for exhibit in paper.exhibits]
CHANGES = {"removed", "binary", "coloured", "white_background", "matched", "targeted_set"}
# As `leastwise list methods` and its like spell them.
METHODS = {"standard", "pgd-at", "trades", "mart", "pgd-he", "me-at", "me-trades", "fgsm-rs", "avmixup"}
METHODS |= {"targeted-at", "single-class-at"}
POLICIES = {"fair-weighting", "important-class", "confusion", "similarity", "cfa", "frl-both"}
SCHEDULES = {"steps", "cyclic", "cosine", "one-cycle", "fast-imagenet", "frl"}


def at(exhibit: Exhibit, scale_name: str) -> list[Recipe | Absent]:
    return [one for parts in exhibit(scale_name).values() for one in parts]


def names(text: str) -> list[str]:
    return text.split()


def test_every_row_of_the_list_of_experiments_is_an_exhibit() -> None:
    expected = {
        "benz2021": [f"fig{n}" for n in range(1, 17)] + names("table1 protocol extras"),
        "tian2021": names("fig1 fig2 table1 table2 fig3a fig3bcd table3 fig4a fig4b fig4c fig5 fig6 table4 table5"),
        "ahn": names("fig1 fig2abcd fig2efgh table1") + [f"fig{n}" for n in range(3, 13)],
        "tradeoff2022": names("fig1ab fig1c") + [f"fig{n}" for n in range(2, 10)] + [f"table{n}" for n in range(1, 6)],
    }
    for paper, exhibits in expected.items():
        assert {one.id for one in PAPERS[paper].exhibits} == {f"{paper}/{name}" for name in exhibits}
    assert len({one.id for one in EXHIBITS}) == len(EXHIBITS) == 62


def test_what_papers_print_belongs_to_an_exhibit() -> None:
    ids = {one.id for one in EXHIBITS}
    for paper in PAPERS:
        assert {f"{paper}/{cell.exhibit}" for cell in read_printed(paper)} <= ids
        assert {f"{paper}/{name}" for one in read_errata(paper) for name in one.exhibits} <= ids
    assert {name for one in read_errata("across") for name in one.exhibits} <= {one.id for one in EXHIBITS}


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda one: one.id)
def test_every_name_exists(exhibit: Exhibit) -> None:
    threat = Threat(Linf(8 / 255), step=2 / 255)
    for scale_name in SCALES:
        for recipe in at(exhibit, scale_name):
            if isinstance(recipe, Absent):
                assert recipe.reason
                continue
            if isinstance(recipe, Measured):
                split_names(",".join(name for name in recipe.conditions if name != "transfer") or "clean")
                assert ("transfer" in recipe.conditions) == (recipe.surrogate is not None)
                attacked = [name for name in recipe.conditions if not passive(name)]
                assert not attacked or recipe.threat is not None
                for name in attacked:
                    if name != "transfer":
                        make_attack(name, threat)
                find_architecture(recipe.model.arch)
                assert recipe.data.name in SOURCES
            for net in trainings([recipe]):
                find_architecture(net.arch)
                assert net.data.name in SOURCES and net.method in METHODS
                assert set(net.fair) <= POLICIES and net.schedule in SCHEDULES and net.average in ("", "fawa")
                assert net.augment in AUGMENTATIONS and net.optimiser in ("sgd", "nesterov", "adam")
                assert (net.threat is None) == (net.method == "standard")
                made = net.data.change[:1] in (("matched",), ("targeted_set",))
                assert net.data.change[:1] == () or net.data.change[0] in CHANGES
                assert (net.source is not None) == (made or net.fair == ("frl-both",))
                assert list(net.settings) == sorted(net.settings)
                parts = {name.partition(".")[0] for name, _ in net.settings if "." in name}
                assert parts <= {*net.fair, net.average}


def passive(name: str) -> bool:
    return name == "clean" or name.partition(":")[0] in {corruption.partition(":")[0] for corruption in CORRUPTIONS}


@pytest.mark.parametrize("scale_name", SCALES)
def test_recipes_have_keys_and_a_scale_is_part_of_them(scale_name: str) -> None:
    recipes, _ = list_recipes(tuple(EXHIBITS), scale_name)
    assert len({recipe_key(recipe) for recipe in recipes}) == len(recipes)
    assert all(recipe.scale == scale_name for recipe in recipes)
    assert all(net.scale == scale_name for net in trainings(recipes))


def test_full_scale_is_the_declaration_itself() -> None:
    for exhibit in EXHIBITS:
        for role, parts in exhibit("full").items():
            assert parts == (exhibit.needs[role],) or isinstance(parts[0], Absent)


def test_number_of_trainings_is_that_of_the_papers() -> None:
    counts = {
        "benz2021/fig1": 1,
        "benz2021/fig6": 4,
        "benz2021/fig15": 4,
        "benz2021/table1": 5,
        "tian2021/table1": 5,
        "tian2021/fig4b": 11,
        "tian2021/table5": 12,
        "ahn/table1": 9,
        "ahn/fig1": 2 * len(GRID),
        "ahn/fig4": 8,
        "tradeoff2022/fig4": 11,
        "tradeoff2022/fig5": 19,
        "tradeoff2022/fig6": 6,
        "tradeoff2022/table2": 8,
        "tradeoff2022/table3": 4,
        "tradeoff2022/table4": 7,
        "tradeoff2022/fig8": 8,
        "tradeoff2022/fig9": 4,
    }
    for name, number in counts.items():
        (exhibit,) = select_exhibits(name)
        assert len(exhibit.trainings("full")) == number, name


def test_exhibits_share_trainings() -> None:
    separately = sum(len(exhibit.trainings("full")) for exhibit in EXHIBITS)
    together, _ = list_recipes(tuple(EXHIBITS), "full")
    assert len(trainings(together)) < separately / 2
    (table1,), (fig1,) = select_exhibits("ahn/table1"), select_exhibits("ahn/fig1")
    assert set(table1.trainings("full")) & set(fig1.trainings("full")) == {pgd(), ahn.trades()}


def test_sources_come_before_what_is_made_with_them() -> None:
    (exhibit,) = select_exhibits("benz2021/fig14")
    order = exhibit.trainings("full")
    assert len(order) == 6
    for net in order:
        assert net.source is None or order.index(net.source) < order.index(net)


@pytest.mark.parametrize("scale_name", ["smoke", "lite"])
def test_scales_keep_different_trainings_different(scale_name: str) -> None:
    """What differs on one data set must not become one network, or its cosines would be 1 by construction."""
    at_scale = scale(scale_name)
    for exhibit in EXHIBITS:
        by_data: dict[ImageSet, list[Trained]] = {}
        for net in exhibit.trainings("full"):
            by_data.setdefault(net.data, []).append(net)
        for nets in by_data.values():
            parts = [part for net in nets for part in at_scale(net) if not isinstance(part, Absent)]
            assert len(set(parts)) == len(parts), exhibit.id


def test_smoke_uses_only_what_is_in_the_package() -> None:
    recipes, absent = list_recipes(tuple(EXHIBITS), "smoke")
    assert absent == () and find_released(recipes) == ()
    for recipe in recipes:
        data = [net.data for net in trainings([recipe])] + ([recipe.data] if isinstance(recipe, Measured) else [])
        assert {one.name for one in data} == {"fashion-mini"}
        assert all(isinstance(part, str) or part < 10 for one in data for part in one.change)
    assert max(total_cost([recipe]).passes for recipe in recipes) < 200_000


def test_lite_trains_within_its_time() -> None:
    """The measured reference: 12 epochs of 50,000 images with five attack steps took 22 minutes on two cores."""
    reference = 50_000 * 12 * (3 * 5 + 3)
    recipes, absent = list_recipes(tuple(EXHIBITS), "lite")
    for net in trainings(recipes):
        pixels = {"stl10": 9, "tiny-imagenet": 4}.get(net.data.name, 1)
        assert total_cost([net]).passes * pixels <= 25 / 22 * reference or net.source, net
        assert net.arch.partition("+")[0] in ("small", "convnet", "lenet5", "small-cnn")
    assert {one.reason for one in absent} == {
        "imagenet is too large for two cores",
        "the 500,000 pseudo-labelled pictures were withdrawn with the data set they came from",
    }


def test_lite_puts_heavy_attacks_on_fewer_images() -> None:
    (table3,) = select_exhibits("tradeoff2022/table3")
    light, heavy = table3("lite")["PGD-AT"]
    assert isinstance(light, Measured) and isinstance(heavy, Measured)
    assert light.conditions == ("clean", "pgd20", "cw20") and light.data.per_class is None
    assert heavy.conditions == ("autoattack",) and heavy.data.per_class == 100 and heavy.model == light.model
    (table1,) = select_exhibits("tian2021/table1")
    heavy_ones = [one for one in table1("lite")["Madry, 2000 images"] if isinstance(one, Measured)]
    seen = {one.conditions: one.data.per_class for one in heavy_ones}
    assert seen == {("cwinf:100",): 200, ("nattack:50",): 20}


def lite(net: Trained) -> Trained:
    (found,) = scale("lite")(net)
    assert isinstance(found, Trained)
    return found


def test_lite_is_one_recipe_for_all_papers_which_share_their_trainings() -> None:
    """PGD-AT and TRADES on CIFAR-10 are trained once for Tian's Tables 1 and 5, for Benz and for the tradeoff paper."""
    madry, trades = DEFENCES["Madry"], DEFENCES["TRADES"]
    others = (
        tian2021.network("cifar10", "pgd-at"),
        PGD_AT,
        network("cifar10", "resnet18", "pgd-at"),
    )
    assert len({madry, *others}) == 4 and {lite(one) for one in others} == {lite(madry)}
    assert lite(trades) == lite(tradeoff2022.trades()) != lite(madry)
    assert lite(STANDARD) == lite(ST) == lite(network("cifar10", "resnet18"))
    eight = lite(madry).threat
    assert eight == PaperThreat(8 / 255, 2 / 255, 5)
    (tested,) = scale("lite")(FULL)
    assert isinstance(tested, Measured) and tested.threat is not None and tested.threat.eps == 8 / 255
    (wide,) = scale("lite")(make_wide_audit(madry, "pgd20"))
    assert isinstance(wide, Measured) and wide.threat is not None
    assert (wide.threat.eps, wide.threat.step) == (8 / 255, 0.003)  # a step of its own stays


def test_lite_trainings_differ_in_nothing_but_what_they_are_about() -> None:
    recipes, _ = list_recipes(tuple(EXHIBITS), "lite")
    about_the_optimiser = set(select_exhibits("benz2021/fig6")[0].trainings("lite"))
    for net in trainings(recipes):
        assert net.keep == "last" and net.batch_size == 128 and net.drops == () and net.scale == "lite"
        assert net.epochs == {"mnist": 4, "svhn": 6, "stl10": 10}.get(net.data.name, 8) and net.augment != "crop-flip"
        if net.fair == ("frl-both",):
            assert (net.schedule, net.rate, net.options) == ("frl", 0.001, {"beta": 1.5})
        elif net not in about_the_optimiser:
            rate = 0.02 if net.arch == "small-cnn" else 0.2
            assert (net.schedule, net.rate, net.weight_decay, net.optimiser) == ("one-cycle", rate, 5e-4, "sgd"), net


def test_lite_leaves_what_an_exhibit_is_about() -> None:
    (fig6,) = select_exhibits("benz2021/fig6")
    base, adam, decay, cyclic = fig6.trainings("lite")
    assert (adam.optimiser, adam.rate) == ("adam", 1e-3) and (decay.weight_decay, cyclic.schedule) == (1e-5, "cyclic")
    assert replace(decay, weight_decay=5e-4) == base == replace(cyclic, schedule="one-cycle")
    radii = [net.threat.eps for net in map(lite, SWEEP.values()) if net.threat]
    assert radii == pytest.approx([eps / 255 for eps in GRID] * 2)


def test_lite_looks_at_two_thousand_images_after_every_epoch() -> None:
    followed = [
        one
        for one in list_recipes(tuple(EXHIBITS), "lite")[0]
        if isinstance(one, Measured) and one.each_epoch and one.data.per_class is not None
    ]
    assert {(one.data.name, one.data.per_class) for one in followed} == {
        ("mnist", 200),
        ("svhn", 200),
        ("cifar10", 200),
        ("cifar100", 20),
        ("stl10", 200),
        ("tiny-imagenet", 10),
    }
    assert not any(
        isinstance(one, Measured) and one.each_epoch and one not in followed
        for one in list_recipes(tuple(EXHIBITS), "lite")[0]
    )


def test_settings_of_the_papers_by_hand() -> None:
    trades = DEFENCES["TRADES"]
    assert trades.threat == PaperThreat(0.031, 0.007, 10) and trades.options == {"beta": 6.0, "clean_passes": 2}
    assert lite(trades).options == {"beta": 6.0}  # what moves nothing but BatchNorm's statistics is one for all papers
    assert with_beta_of_dog(6.0) == trades
    assert with_beta_of_dog(0.5).options["beta"] == (6.0,) * 5 + (0.5,) + (6.0,) * 4
    assert tian2021.make_audit(tian2021.network("mnist", "pgd-at")).conditions == ("clean", "pgd40")
    assert PGD_AT.batch_size == 64 and THREAT.eps == 8 / 256
    assert CLEAN.epochs == 200 and ahn.trades(16).threat == PaperThreat(16 / 255, 2 / 255, 10)
    assert PAPERS["benz2021"].first_class == 1 and {p.first_class for p in PAPERS.values() if p.id != "benz2021"} == {0}


def test_a_network_without_a_class_is_tested_without_it() -> None:
    (exhibit,) = select_exhibits("tian2021/fig4b")
    for c in range(10):
        recipe = exhibit.needs[f"without {c}"]
        assert isinstance(recipe, Measured) and isinstance(recipe.model, Trained)
        assert recipe.data.change == recipe.model.data.change == ("removed", c)


def test_classes_and_images_that_exhibits_show() -> None:
    (fig3,), (fig2,) = select_exhibits("ahn/fig3"), select_exhibits("ahn/fig2abcd")
    assert [CIFAR100[c] for c in fig3.classes] == ["chair", "fox"] and fig2.classes == fig3.classes
    assert [scale("smoke").cls(c) for c in fig3.classes] == [0, 4] and scale("lite").cls(34) == 34
    groups = {c: name for name, classes in CIFAR100_GROUPS for c in classes}
    shown = [c for part in FURTHER for c in part]
    assert len({groups[c] for c in shown}) >= 7 and not {CHAIR, FOX} & set(shown)
    assert shown_classes(10) == tuple(range(10))
    twelve = shown_classes(100)
    assert len(set(twelve)) == 12 and twelve == shown_classes(100)
    assert {one.id: one.images for one in EXHIBITS if one.images} == {
        "tian2021/fig3bcd": (127,),
        "tian2021/fig6": (3634, 2261),
    }


def test_both_radii_are_measured_on_both_splits() -> None:
    (exhibit,) = select_exhibits("ahn/fig2efgh")
    train, test = (exhibit.needs[f"PGD, eps 1/255, {split} images"] for split in ("train", "test"))
    assert isinstance(train, Measured) and isinstance(test, Measured)
    assert train.conditions == test.conditions == ("clean", "pgd20[1/255]", "pgd20[8/255]")
    assert (train.split, test.split) == ("train", "test") and train.model == exhibit.needs["PGD, eps 1/255"]
    (smoke,) = scale("smoke")(train)
    assert isinstance(smoke, Measured) and smoke.conditions == ("clean", "pgd2[1/255]", "pgd2[8/255]")


def test_counts_and_costs_by_hand() -> None:
    assert count_images(ImageSet("cifar10"), "train") == 50_000 and count_images(ImageSet("mnist"), "test") == 10_000
    assert count_images(ImageSet("cifar10", ("binary", 3, 5)), "train") == 10_000
    assert count_images(ImageSet("cifar10", ("removed", 3), per_class=7), "test") == 63
    assert count_images(ImageSet("mnist", classes=(0,)), "test") == 980
    assert (
        count_images(ImageSet("imagenet"), "test") == 50_000
        and count_images(ImageSet("tiny-imagenet"), "test") == 10_000
    )
    assert [condition_passes(name, 10) for name in ("clean", "pgd20[1/255]", "tpgd20-grid", "fog:3")] == [1, 62, 248, 1]
    net = Trained(ImageSet("cifar10"), "small", "pgd-at", threat=PaperThreat(0.1, 0.1, 5), epochs=2)
    assert total_cost([net]) == total_cost([net, net]) and total_cost([net]).passes == 50_000 * 2 * (15 + 3)
    audit = Measured(net, ImageSet("cifar10"), ("clean", "pgd20"))
    assert total_cost([audit]).passes - total_cost([net]).passes == 10_000 * 63 and total_cost([audit]).trainings == 1
    assert networks(Measured(ReleasedNetwork("w", "resnet18", ImageSet("cifar10")), ImageSet("cifar10"))) == ()


def test_costs_of_an_exhibit_at_every_scale() -> None:
    (exhibit,) = select_exhibits("benz2021/fig10")
    found = costs_by_scale(exhibit)
    assert list(found) == list(SCALES) and found["lite"].trainings == 0 == found["lite"].passes
    assert found["full"] == total_cost(exhibit.needs.values()) and found["full"].passes == 5 * 50_000
    assert found["smoke"].trainings == 5
    assert PAPERS["benz2021"].number(3) == 4 and PAPERS["ahn"].number(3) == 3


def test_fewer_steps_still_cross_the_ball() -> None:
    smoke = scale("smoke")
    (net,) = smoke(Trained(ImageSet("cifar10"), "resnet18", "pgd-at", threat=PaperThreat(8 / 255, 2 / 255, 10)))
    assert isinstance(net, Trained) and net.threat is not None
    assert net.threat.steps == 2 and net.threat.steps * net.threat.step == pytest.approx(1.25 * net.threat.eps)
    PGD(Linf(net.threat.eps), CE(), net.threat.step, net.threat.steps)
    already = replace(net, threat=PaperThreat(0.1, 0.1, 1))
    (again,) = smoke(already)
    assert isinstance(again, Trained) and again.threat == already.threat


def test_wrong_names_are_answered_with_the_right_ones() -> None:
    assert [one.id for one in select_exhibits("tian2021/table3")] == ["tian2021/table3"]
    assert len(select_exhibits("ahn")) == 14
    with pytest.raises(ValueError, match="did you mean tian2021/table3"):
        select_exhibits("tian2021/tabel3")
    with pytest.raises(ValueError, match="choose benz2021"):
        select_exhibits("madry")
    with pytest.raises(ValueError, match="choose smoke, lite, full"):
        scale("huge")


def test_rows_by_their_names_and_patterns() -> None:
    table1, fig1 = select_exhibits("ahn/table1"), select_exhibits("ahn/fig1")
    assert keep_roles(table1, ()) == table1
    (one,) = keep_roles(table1, ("PGD", "TRADES"))
    assert list(one.needs) == ["PGD", "TRADES"] and one.trainings("lite") == (lite(pgd()), lite(ahn.trades()))
    (many,) = keep_roles(table1, ("TRADES*",))
    assert list(many.needs) == ["TRADES", "TRADES + IDBH", "TRADES + CFA", "TRADES + FRL"]
    first, second = keep_roles(table1 + fig1, ("Clean", "*, eps 8/255"))  # a name may be of one of them only
    assert list(first.needs) == ["Clean"] and list(second.needs) == ["PGD, eps 8/255", "TRADES, eps 8/255"]
    with pytest.raises(ValueError, match=r"no row is called 'pgd': choose among Clean; PGD; PGD \+ IDBH; .*FRL"):
        keep_roles(table1, ("PGD", "pgd"))
