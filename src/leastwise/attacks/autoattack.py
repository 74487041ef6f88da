"""AutoAttack (Croce and Hein, ICML 2020): four attacks in a row, each on what survived the ones before.

    standard  APGD-CE, APGD-T (9 targets), FAB-T (9 targets), Square (5,000 queries)
    plus      APGD-CE, APGD-DLR, FAB (five restarts each), Square, APGD-T, FAB-T
    rand      APGD-CE and APGD-DLR, each gradient a mean of 20, for networks that are random

Order, budgets and schedules are the reference's; every gradient attack takes 100 steps. Targets are the classes ranked
2nd to 10th on the clean image, fewer if there are fewer classes.

Two more are ours. Any version can be opened by PMA and MM3, which are strong and short: the members are the same, each
on what is left, so that what the version alone fells still falls. `make_fast_autoattack` opens so too, and then gives
up runs that lead nowhere; decision 26 says on which networks its settings were chosen, and docs/results/attacks.md how
often its verdicts are AutoAttack's on others.
"""

from typing import Literal, get_args

from leastwise.attacks.apgd.apgd import APGD, make_mm3
from leastwise.attacks.base import Attack
from leastwise.attacks.choices import Keep
from leastwise.attacks.combine import Cascade
from leastwise.attacks.fab.fab import FAB
from leastwise.attacks.goals import AUTOATTACK_TARGETS, CE, DLR
from leastwise.attacks.hopeless import Hopeless
from leastwise.attacks.naming import AttackName
from leastwise.attacks.pma import PMA
from leastwise.attacks.square import Square
from leastwise.attacks.threats import L1, Ball

Version = Literal["standard", "plus", "rand"]
RESTARTS = 5
SAMPLES = 20
# When runs of the fast version are given up (docs/decisions/0026-not-paying-for-the-hopeless.md).
HOPELESS_TARGET = Hopeless(after=22, share=1.0)  # APGD's first checkpoint
HOPELESS_BOUNDARY = Hopeless(after=20, share=0.25)
HOPELESS_SQUARES = Hopeless(after=1000, share=0.25)
FAST_BOUNDARIES = 5  # targets of FAB-T, by distance


def make_autoattack(
    ball: Ball, version: Version = "standard", keep: Keep = "fooled", *, opened: bool = False
) -> Cascade:
    """The members of one of the three versions, in the reference's order; behind the opening if they are `opened`."""
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
    return Cascade((make_opening(ball, keep), *members)) if opened else Cascade(members)


def make_opening(ball: Ball, keep: Keep = "fooled") -> Cascade:
    """PMA, and MM3 on what is left."""
    return Cascade((PMA(ball, keep=keep), make_mm3(ball, keep)))


def make_fast_autoattack(ball: Ball, keep: Keep = "fooled") -> Cascade:
    """The opening, then the kinds of attack that AutoAttack is made of, each giving up what is hopeless."""
    if isinstance(ball, L1):
        raise ValueError("autoattack-fast is for the norms linf and l2, but saw l1: use apgd-ce and apgd-t")
    return Cascade(
        (
            make_opening(ball, keep),
            APGD(ball, targets=AUTOATTACK_TARGETS, keep=keep, hopeless=HOPELESS_TARGET),
            FAB(ball, targets=FAST_BOUNDARIES, keep=keep, order="distance", hopeless=HOPELESS_BOUNDARY),
            Square(ball, keep=keep, hopeless=HOPELESS_SQUARES),
        )
    )


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
OPENED = AttackName(
    Cascade,
    "autoattack-opened",
    "autoattack-opened",
    r"autoattack-opened",
    lambda threat: make_autoattack(threat.ball, "standard", threat.keep, opened=True),
    "pma and mm3, then all of autoattack on what survived: never weaker than it",
    "Croce & Hein 2020; Xie et al. 2025; Gao et al. 2022",
    "as autoattack, and at most 268 forwards, 260 backwards",
)
FAST = AttackName(
    Cascade,
    "autoattack-fast",
    "autoattack-fast",
    r"autoattack-fast",
    lambda threat: make_fast_autoattack(threat.ball, threat.keep),
    "pma and mm3, then apgd-t, fab-t and square, each giving up what is hopeless: almost always autoattack's verdict",
    "Croce & Hein 2020; Xie et al. 2025; Gao et al. 2022; Melamed et al. 2024",
    "about a quarter of autoattack; at most about 6,700 forwards, 1,700 backwards",
)
