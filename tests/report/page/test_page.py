"""The page without a browser: what it says, that data cannot become markup, its size, and that it is reproducible."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from leastwise.attacks.registry import NAMES
from leastwise.audit.evidence import count_confusions
from leastwise.audit.masking import cautions
from leastwise.report.charts.bars import Bar
from leastwise.report.class_changes import list_changes, same_images
from leastwise.report.condition_stats import compute_stats, find_attackers_pick
from leastwise.report.figures import order_by_group, shorten_bars, top_pairs, weakest_first
from leastwise.report.page.citations import WORKS, find_papers, find_works, make_bibtex
from leastwise.report.page.page import compare_models, make_page
from leastwise.report.results import AuditedModel
from leastwise.report.terminal.view import headline
from leastwise.statistics.accuracy import compare_paired, wilson_interval
from tests.report.evidence_made_up import CIFAR10, audited, evidence
from tests.report.page.made_up_pages import page_of
from tests.report.page.page_text import specifications, visible

LIMIT = 1_500_000  # bytes
EVIL = "</script><script>alert(1)</script>"
ATTRIBUTE = '"><img src=x onerror=alert(1)>'


@pytest.fixture(scope="module")
def html() -> str:
    return page_of(10)


class Tags(HTMLParser):
    """Every tag with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def tags(html: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Tags()
    parser.feed(html)
    return parser.seen


def test_the_headline_is_the_terminals_sentence(html: str) -> None:
    first = audited(10)[0].evidence
    assert headline(first).split(":")[0] == "An attacker would pick cat"
    assert headline(first) in visible(html)


def test_every_class_has_its_interval_under_every_condition(html: str) -> None:
    found = audited(10)[0].evidence
    table = re.search(r'<table class="classes" id="t1".*?</table>', html, re.S)
    assert table is not None
    rows = dict(re.findall(r'<tr><th scope="row">([^<]+)(.*?)\n?(?=<tr>|</tbody>)', table[0], re.S))
    assert sorted(rows) == sorted(CIFAR10)
    for name, row in rows.items():
        shown = re.findall(r"([\d.]+) <i>\[([\d.]+), ([\d.]+)\]</i>", row)
        for (value, low, high), condition in zip(shown, found.conditions, strict=True):
            tally = found.tally(condition)
            c = CIFAR10.index(name)
            expected = wilson_interval(tally.correct[c].numpy(), tally.n[c].numpy())
            assert float(value) == pytest.approx(100 * float(tally.accuracy[c]), abs=0.051)
            assert [float(low), float(high)] == pytest.approx([100 * float(e) for e in expected], abs=0.051)


def test_the_table_begins_with_the_weakest_class_and_says_so(html: str) -> None:
    rows = re.findall(r'<tr><th scope="row">([^<]+?)<td', html)
    found = audited(10)[0].evidence
    order = weakest_first(found, "autoattack")
    assert rows[:10] == [CIFAR10[c] for c in order] and rows[0] == "cat"
    assert re.search(r'aria-sort="ascending"><button type="button">autoattack, %', html)


def test_the_worst_class_and_the_spread_are_shown_without_their_noise(html: str) -> None:
    told, found = visible(html), compute_stats(audited(10)[0].evidence, "autoattack")
    assert found.worst.corrected > found.worst.plug_in and found.spread.debiased < found.spread.plug_in
    low, high = found.worst.low, found.worst.high
    assert f"cat: {100 * found.worst.corrected:.1f} % [{100 * low:.1f}, {100 * high:.1f}] under autoattack" in told
    assert f"Measured were {100 * found.worst.plug_in:.1f} % (naive Wilson interval [" in told
    assert f"{1e4 * found.spread.debiased:.1f} [{1e4 * found.spread_low:.1f}, {1e4 * found.spread_high:.1f}]" in told
    assert "Cat is the worst class with probability > 99.9 %." in told
    bare = visible(make_page([AuditedModel("one", evidence(10, 30))]))
    assert "Which class is the worst is open: cat" in bare
    open_ = compute_stats(evidence(10, 30), "autoattack")
    cat = CIFAR10.index("cat")
    assert open_.most[cat] - open_.least[cat] > 0.06  # 30 images do not show how alike the classes are, and it is said
    assert (
        f"cat {100 * open_.probability[cat]:.1f} % ({100 * open_.least[cat]:.0f} to {100 * open_.most[cat]:.0f} %)"
        in bare
    )
    assert "how far that depends on how alike the classes are" in bare
    for title in ("How fast each class falls", "Which class can be turned into which", "Comparison"):
        assert title in told and title not in bare


def test_warnings_and_provenance_are_repeated(html: str) -> None:
    first = audited(10)[0]
    told = visible(html)
    assert cautions(first.evidence) and all(caution in told for caution in cautions(first.evidence))
    assert first.evidence.key in told and "d" * 64 in told and "2.13.0+cpu" in told
    assert "&#34;type&#34;: &#34;AuditRecipe&#34;" in html


def test_names_from_data_never_become_markup(html: str) -> None:
    names = (EVIL, ATTRIBUTE, "{{ 7 * 7 }}", "a&b", "${x}", "<!--", "'\"`", "\\", "ok", "</style>")
    found = evidence(10, 40, names=names, more=True)
    groups = ((EVIL, (0, 1, 2)), (ATTRIBUTE, (3, 4, 5, 6, 7, 8, 9)))
    found = replace(found, groups=groups, warnings=(EVIL,))
    model = AuditedModel(ATTRIBUTE, found, {EVIL: EVIL})
    made = make_page([model, AuditedModel(EVIL, replace(found, recipe=found.recipe))], title=EVIL)
    assert "alert(1)</script>" not in made and "<img" not in made and "49" not in re.findall(r"row\">([^<]*)", made)
    kinds = {"script", "style", "img", "iframe", "object", "link"}
    assert [tag for tag, _ in tags(made) if tag in kinds] == [tag for tag, _ in tags(html) if tag in kinds]
    assert not [name for _, attributes in tags(made) for name in attributes if name.startswith("on")]


def test_the_file_is_small(html: str) -> None:
    assert len(html.encode()) < LIMIT / 2


@pytest.mark.medium
@pytest.mark.parametrize("k", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_file_is_small_with_many_classes(k: int) -> None:
    assert len(page_of(k).encode()) < LIMIT


def test_the_same_evidence_gives_the_same_bytes() -> None:
    assert make_page(audited(10, 20, models=1)) == make_page(audited(10, 20, models=1))


def test_nothing_is_fetched(html: str) -> None:
    for tag, attributes in tags(html):
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes and "srcset" not in attributes
        target = attributes.get("href")
        if target is not None and not target.startswith("#"):
            assert tag == "a" and target in {work.link for work in WORKS.values()}
    style = re.search(r"<style>(.*?)</style>", html, re.S)
    assert style is not None and "url(" not in style[1] and "@import" not in style[1]
    assert "default-src 'none'" in html
    for spec in specifications(html):
        assert '"url"' not in json.dumps(spec)


def test_charts_hold_the_numbers_of_the_evidence(html: str) -> None:
    specs = specifications(html)
    found = audited(10)[0].evidence
    about = "Accuracy of each class under pgd20 with 95 % intervals; overall 56.0 %."
    bars = next(spec for spec in specs if spec["description"] == about)
    rows = bars["datasets"][bars["data"]["name"]]
    assert len(rows) == 10
    accuracy = found.tally("pgd20").accuracy
    assert [row["name"] for row in rows if row["marked"]] == ["cat"]
    for row in rows:
        assert row["value"] == pytest.approx(100 * float(accuracy[CIFAR10.index(row["name"])]), abs=0.006)


@pytest.mark.medium
def test_every_specification_obeys_the_schema(html: str) -> None:
    import altair as alt

    for spec in specifications(html):
        alt.LayerChart.from_dict(spec, validate=True)


def test_long_lists_keep_both_ends_and_say_what_is_left_out() -> None:
    rows = [Bar(str(i), float(i)) for i in range(100)]
    short = shorten_bars(rows)
    assert [row.name for row in short] == [*map(str, range(20)), "… 60 more …", *map(str, range(80, 100))]
    assert shorten_bars(rows[:40]) == rows[:40]


def test_confusion_counts_every_image_once_and_its_diagonal_is_the_tally() -> None:
    found = evidence(10, 50)
    counts = count_confusions(found, "pgd20")
    assert counts.sum() == 500 and counts.diagonal().tolist() == found.tally("pgd20").correct.tolist()
    top = top_pairs(found, "pgd20")[0]
    a, b = CIFAR10.index(top.true), CIFAR10.index(top.predicted)
    np.fill_diagonal(counts, 0)
    assert top.count == counts.max() == counts[a, b] and top.n == 50


def test_superclasses_stand_together() -> None:
    groups = (("x", (4, 1)), ("y", (0, 4, 3)))
    assert order_by_group([0, 1, 2, 3, 4], groups)[0] == [4, 1, 0, 3, 2]
    assert order_by_group([0, 1, 2], ()) == ([0, 1, 2], [])


def test_changes_are_mcnemars_tests_with_holms_correction() -> None:
    a, b = evidence(10, 200), evidence(10, 200, 0.3)
    assert same_images(a, b)
    found = list_changes(a, b, "pgd20")
    for c, change in enumerate(found):
        rows = a.labels == c
        assert change.paired == compare_paired(a.correct("pgd20")[rows], b.correct("pgd20")[rows])
    from statsmodels.stats.multitest import multipletests

    raw = [change.paired.p for change in found]
    assert [change.p for change in found] == pytest.approx(multipletests(raw, method="holm")[1].tolist())


def test_a_few_models_are_compared_in_pairs_and_many_with_the_first() -> None:
    models = [
        AuditedModel(name, evidence(10, 50, shift)) for name, shift in zip("abcd", (0.0, 0.1, 0.2, 0.3), strict=True)
    ]
    assert [made["names"] for made in compare_models(models[:3], [])] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [made["names"] for made in compare_models(models, [])] == [("a", "b"), ("a", "c"), ("a", "d")]


def test_attacks_of_one_name_and_other_settings_are_not_compared() -> None:
    a, b = evidence(10, 50), evidence(10, 50, 0.1)
    b = replace(b, recipe=b.recipe.replace('"eps":0.00784', '"eps":0.03'))
    (made,) = compare_models([AuditedModel("a", a), AuditedModel("b", b)], [])
    assert "pgd20 stands for different attacks (ball.eps 0.00784 and 0.03) and is not compared." in made["sentence"]
    assert [figure["title"] for figure in made["figures"]] == ["clean", "autoattack"]


def test_models_on_other_images_are_not_compared() -> None:
    a, b = evidence(10, 20), evidence(10, 30, 0.3)
    told = visible(make_page([AuditedModel("a", a), AuditedModel("b", b)]))
    assert "b was audited on other images than a" in told and "significantly" not in told


def test_shared_last_places_are_said() -> None:
    found = evidence(10, 20)
    wrong = ((found.labels + 1) % 10).astype(np.int32)
    r = found.conditions["pgd20"]
    lost = np.isin(found.labels, [2, 5])
    predicted = np.where(lost, wrong, found.labels).astype(np.int32)
    found = replace(found, conditions={"pgd20": replace(r, predicted=predicted)})
    assert (
        find_attackers_pick(found).ties,
        find_attackers_pick(found).accuracy,
        find_attackers_pick(found).overall,
    ) == (2, "0.0", "80.0")
    assert "An attacker could pick any of 2 classes: 0.0 % each under pgd20, against 80.0 % overall." in visible(
        make_page([AuditedModel("a", found)])
    )


def test_a_class_without_images_is_left_out() -> None:
    found = evidence(10, 20)
    kept = found.labels != 3
    parts = {
        name: replace(
            r, **{f: getattr(r, f)[kept] for f, v in vars(r).items() if isinstance(v, np.ndarray) and v.ndim == 1}
        )
        for name, r in found.conditions.items()
    }
    found = replace(found, ids=found.ids[kept], labels=found.labels[kept], conditions=parts)
    made = make_page([AuditedModel("a", found)])
    assert (
        "180 images of 9 classes" in visible(made) and '<th scope="row">cat' not in made and " nan" not in visible(made)
    )


def test_two_classes_without_superclasses_under_one_condition() -> None:
    found = evidence(2, 30)
    found = replace(found, groups=(), conditions={"pgd20": found.conditions["pgd20"]})
    told = visible(make_page([AuditedModel("a", found)]))
    assert "60 images of 2 classes" in told and "By superclass" not in told and " nan" not in told
    both = visible(make_page([AuditedModel("a", found), AuditedModel("b", found)]))
    assert "significantly better: 0; significantly worse: 0; undecided: 2" in both


def test_mistakes_are_one_sentence() -> None:
    found = evidence(10, 10)
    with pytest.raises(ValueError, match="at least one audit"):
        make_page([])
    with pytest.raises(ValueError, match="its own name"):
        make_page([AuditedModel("a", found), AuditedModel("a", found)])


def test_every_paper_of_the_attack_table_can_be_cited() -> None:
    for row in NAMES:
        assert bool(find_papers(row.paper)) == bool(row.paper), row.spelling
    assert find_papers("Croce & Hein 2020 (FAB)") == ("Croce & Hein 2020 (FAB)",)
    assert find_papers("Carlini & Wagner 2017; settings of Tian et al. 2021") == (
        "Tian et al. 2021",
        "Carlini & Wagner 2017",
    )


def test_exactly_what_was_used_is_cited() -> None:
    def keys(conditions: list[str], comparing: bool) -> set[str]:
        return {work.key for work in find_works(conditions, comparing)}

    always = {"wilson1927probable", "tian2021analysis", "benz2021robustness"}
    assert keys(["clean", "mine"], False) == always
    assert keys(["clean", "pgd20", "fog:3"], False) == always | {"madry2018towards", "hendrycks2019benchmarking"}
    assert keys(["clean"], True) == always | {"mcnemar1947note", "holm1979simple", "zou2008construction"}
    text = make_bibtex(find_works(["square"], False))
    assert text.count("@") == 4 and text.count("{") == text.count("}")
    assert "author = {Andriushchenko, Maksym and Croce, Francesco" in text
