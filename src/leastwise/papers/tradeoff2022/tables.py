"""The tables of the paper on the tradeoff."""

from collections.abc import Callable, Mapping
from functools import partial

from leastwise.papers.claims.base import Same, shared
from leastwise.papers.drawing.drawn import Drawn
from leastwise.papers.drawing.given import Given, Ours, Triple, tried
from leastwise.papers.drawing.values import accuracy_difference, asked, overall, sd_without_noise, worst
from leastwise.papers.printed import table
from leastwise.papers.results import STAND_INS

AA = STAND_INS["autoattack"]
CONDITIONS = {"natural": ("clean",), "PGD-20": ("pgd",), "C&W-20": ("cw2",), "AA": AA}


def table1(given: Given) -> Drawn:
    ours: Ours = {}
    for column, begin in (("natural", ("clean",)), ("AA", AA)):
        for role in given.roles:
            ours[role, column] = asked(given, overall, role, *begin)
        for base in ("ST", "PGD-AT", "TRADES"):
            ours[base, f"{column}, gain by LS"] = tried(partial(gain, given, base, begin))
    return Drawn(ours=ours)


def gain(given: Given, base: str, begin: tuple[str, ...]) -> Triple:
    return accuracy_difference(shared(given.audit(base, *begin), given.audit(f"{base}+LS", *begin)))


def attacked_table(
    given: Given, statistic: Callable[[Same], Triple], more: Mapping[str, Callable[[Same], Triple]]
) -> Drawn:
    ours: Ours = {}
    for role in given.roles:
        for column, begin in CONDITIONS.items():
            ours[role, column] = asked(given, statistic, role, *begin)
        for name, of in more.items():
            for column, begin in CONDITIONS.items():
                ours[role, f"{column}, {name}"] = asked(given, of, role, *begin)
    return Drawn(ours=ours)


def table4(given: Given) -> Drawn:
    """The lowest class of each condition, and the deviation over all classes without noise."""
    return attacked_table(given, worst, {"class SD without noise": sd_without_noise})


BY_OTHERS = "from others' reports: not trained here"


def table5(given: Given) -> Drawn:
    ours: Ours = {}
    for row in table("tradeoff2022/table5"):
        for column, begin in (("natural", ("clean",)), ("AA", AA)):
            known = row in given.roles
            ours[row, column] = asked(given, overall, row, *begin) if known else BY_OTHERS
    return Drawn(ours=ours)


def averages(given: Given) -> Drawn:
    return attacked_table(given, overall, {})
