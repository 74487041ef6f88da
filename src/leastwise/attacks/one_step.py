"""One-step attacks: FGSM from the image or from a uniform start, and R-FGSM. They are values of PGD."""

from leastwise.attacks.choices import Keep
from leastwise.attacks.goals import CE, Goal
from leastwise.attacks.naming import AttackName
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Ball, Signs, Start, Uniform, Zero


def fgsm(ball: Ball, goal: Goal | None = None, start: Start | None = None, *, keep: Keep = "last") -> PGD:
    """One step to the edge of the ball (Goodfellow et al., ICLR 2015)."""
    return PGD(ball, goal or CE(), step=ball.eps, steps=1, start=start or Zero(), keep=keep)


def r_fgsm(ball: Ball, goal: Goal | None = None, keep: Keep = "last") -> PGD:
    """Half of eps to a random corner, the other half along the gradient (Tramèr et al., ICLR 2018)."""
    if not isinstance(ball.eps, float):
        raise ValueError("R-FGSM takes one eps for all examples")
    return PGD(ball, goal or CE(), step=ball.eps / 2, steps=1, start=Signs(ball.eps / 2), keep=keep)


FGSM = AttackName(
    PGD,
    "fgsm",
    "fgsm",
    r"fgsm",
    lambda threat: fgsm(threat.ball, keep=threat.keep),
    "one step of size eps from the image",
    "Goodfellow et al. 2015",
    "2 forwards, 1 backward",
)


FGSM_RANDOM_START = AttackName(
    PGD,
    "fgsm-rs",
    "fgsm-rs",
    r"fgsm-rs",
    lambda threat: fgsm(threat.ball, start=Uniform(), keep=threat.keep),
    "one step of size eps from a uniform start",
    "Tian et al. 2021",
    "3 forwards, 1 backward",
)


R_FGSM = AttackName(
    PGD,
    "rfgsm",
    "rfgsm",
    r"rfgsm",
    lambda threat: r_fgsm(threat.ball, keep=threat.keep),
    "half of eps to a random corner, the other half uphill",
    "Tramèr et al. 2018",
    "3 forwards, 1 backward",
)
