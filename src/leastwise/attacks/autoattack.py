"""AutoAttack (Croce and Hein, ICML 2020): four attacks in a row, each on what survived the ones before.

    standard  APGD-CE, APGD-T (9 targets), FAB-T (9 targets), Square (5,000 queries)
    plus      APGD-CE, APGD-DLR, FAB (five restarts each), Square, APGD-T, FAB-T
    rand      APGD-CE and APGD-DLR, each gradient a mean of 20, for networks that are random

Order, budgets and schedules are the reference's; every gradient attack takes 100 steps. Targets are the classes ranked
2nd to 10th on the clean image, fewer if there are fewer classes.
"""

from typing import Literal, get_args

from leastwise.attacks.apgd.apgd import APGD
from leastwise.attacks.base import Attack
from leastwise.attacks.choices import Keep
from leastwise.attacks.combine import Cascade
from leastwise.attacks.fab.fab import FAB
from leastwise.attacks.goals import AUTOATTACK_TARGETS, CE, DLR
from leastwise.attacks.naming import AttackName
from leastwise.attacks.square import Square
from leastwise.attacks.threats import L1, Ball

Version = Literal["standard", "plus", "rand"]
RESTARTS = 5
SAMPLES = 20


def make_autoattack(ball: Ball, version: Version = "standard", keep: Keep = "fooled") -> Cascade:
    """The members of one of the three versions, in the reference's order."""
    if version not in get_args(Version):
        raise ValueError(f"there is no AutoAttack {version!r}: choose {', '.join(get_args(Version))}")
    if isinstance(ball, L1):
        raise ValueError("AutoAttack is for the norms linf and l2, but saw l1: use apgd-ce and apgd-t, which know l1")
    members: tuple[Attack, ...]
    match version:
        case "standard":
            members = (
                APGD(ball, CE(), keep=keep),
                APGD(ball, targets=AUTOATTACK_TARGETS, keep=keep),
                FAB(ball, targets=AUTOATTACK_TARGETS, keep=keep),
                Square(ball, keep=keep),
            )
        case "plus":
            members = (
                APGD(ball, CE(), restarts=RESTARTS, keep=keep),
                APGD(ball, DLR(), restarts=RESTARTS, keep=keep),
                FAB(ball, targets=0, restarts=RESTARTS, keep=keep),
                Square(ball, keep=keep),
                APGD(ball, targets=AUTOATTACK_TARGETS, keep=keep),
                FAB(ball, targets=AUTOATTACK_TARGETS, keep=keep),
            )
        case "rand":
            members = (APGD(ball, CE(), eot=SAMPLES, keep=keep), APGD(ball, DLR(), eot=SAMPLES, keep=keep))
    return Cascade(members)


STANDARD = AttackName(
    Cascade,
    "autoattack",
    "autoattack",
    r"autoattack",
    lambda threat: make_autoattack(threat.ball, "standard", threat.keep),
    "apgd-ce, apgd-t, fab-t and square, each on what survived",
    "Croce & Hein 2020",
    "at most about 7,000 forwards, 1,900 backwards",
)
PLUS = AttackName(
    Cascade,
    "autoattack-plus",
    "autoattack-plus",
    r"autoattack-plus",
    lambda threat: make_autoattack(threat.ball, "plus", threat.keep),
    "apgd-ce, apgd-dlr and fab with five restarts, square, apgd-t, fab-t",
    "Croce & Hein 2020",
    "at most about 8,500 forwards, 3,300 + 500 × (K - 1) backwards",
)
RANDOMISED = AttackName(
    Cascade,
    "autoattack-rand",
    "autoattack-rand",
    r"autoattack-rand",
    lambda threat: make_autoattack(threat.ball, "rand", threat.keep),
    "apgd-ce and apgd-dlr on gradients averaged over 20 passes, for random networks",
    "Croce & Hein 2020",
    "at most about 4,000 forwards and backwards",
)
