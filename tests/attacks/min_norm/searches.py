"""Searches for the nearest mistake that are short enough for tests."""

from leastwise.attacks.min_norm.ddn_fmn import DDN, FMN
from leastwise.attacks.threats import L1, L2, Linf

SEARCHES = (FMN(Linf(0.03), steps=15), FMN(L2(0.3), steps=15), FMN(L1(2.0), steps=15), DDN(L2(0.3), steps=15))


def short(attack: object) -> str:
    return str(attack).replace(", the nearest mistake of the whole search", "")
