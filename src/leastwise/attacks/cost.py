"""The most passes that an attack makes for an image. What it did make is counted while it runs."""

from math import ceil, log
from typing import NamedTuple

from leastwise.attacks.apgd.attack import APGD
from leastwise.attacks.base import Attack, Clean
from leastwise.attacks.combine import Cascade, Grid, Restarts
from leastwise.attacks.corruptions import Corrupted, RandomNoise
from leastwise.attacks.fab.attack import FAB
from leastwise.attacks.min_norm.cw import CWL2, CWInf
from leastwise.attacks.min_norm.ddn_fmn import DDN, FMN
from leastwise.attacks.nattack import NAttack
from leastwise.attacks.pgd import PGD
from leastwise.attacks.reachability import Everywhere
from leastwise.attacks.square import Square
from leastwise.attacks.transfer import Transfer


class Passes(NamedTuple):
    forwards: int
    backwards: int

    def times(self, count: int) -> "Passes":
        return Passes(count * self.forwards, count * self.backwards)


def most_passes(attack: Attack, k: int) -> Passes | None:
    """The most passes for one image of k classes; None for an attack whose cost nobody knows.

    Images that fall early cost a small part of it.
    """
    match attack:
        case Clean() | Corrupted():
            return Passes(1, 0)
        case RandomNoise(draws=draws):
            return Passes(draws + 1, 0)
        case PGD(steps=steps):
            return Passes(steps + 3, steps)
        case APGD(steps=steps, targets=targets, restarts=restarts, eot=eot):
            runs = restarts * max(1, min(targets, k - 1))
            return Passes(1 + runs * (steps + 4) * eot, runs * (steps + 3) * eot)  # L1 begins anew at three radii
        case FAB(steps=steps, targets=0, restarts=restarts):
            return Passes(1 + restarts * (steps + 1), restarts * steps * (k - 1))
        case FAB(steps=steps, targets=targets, restarts=restarts):
            return Passes(1, 0) if k < 2 else Passes(1 + restarts * targets * (steps + 1), restarts * targets * steps)
        case Square(queries=queries, restarts=restarts):
            return Passes(1 + restarts * (queries + 1), 0)
        case NAttack(steps=steps, population=population):
            return Passes(2 + steps * (population + 1), 0)
        case DDN(steps=steps) | FMN(steps=steps):
            return Passes(steps + 2, steps)
        case CWL2(iterations=iterations, searches=searches, bisections=bisections):
            return Passes(2 + searches * (iterations + 1) + bisections, searches * iterations)
        case CWInf(iterations=n, searches=searches, bisections=bisections, tau_decay=decay, tau_least=least):
            rounds = searches * (1 + ceil(log(least) / log(decay)))
            return Passes(2 + rounds * (n + 1) + bisections, rounds * n)
        case Everywhere(attack=inner):
            one = most_passes(inner, k)
            return one and Passes(1 + (k - 1) * (one.forwards + 1), (k - 1) * one.backwards)
        case Restarts(attack=inner, times=times):
            one = most_passes(inner, k)
            return one and one.times(times)
        case Transfer(attack=inner, surrogates=surrogates):
            one = most_passes(inner, k)
            return one and Passes(2 + len(surrogates) * (one.forwards + 2), len(surrogates) * one.backwards)
        case Cascade(members=members) | Grid(members=members):
            each = [most_passes(member, k) for member in members]
            known = [one for one in each if one is not None]
            total = Passes(1 + sum(p.forwards for p in known), sum(p.backwards for p in known))
            return total if len(known) == len(each) else None
    return None
