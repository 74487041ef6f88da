"""What a row of the table of attacks makes from a threat and the parts of a name."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from leastwise.attacks.autoattack import Version, autoattack
from leastwise.attacks.base import Attack, Keep
from leastwise.attacks.combine import Grid, Restarts
from leastwise.attacks.corruptions import Corrupted
from leastwise.attacks.goals import CE, KL, Margin, Toward
from leastwise.attacks.pgd import PGD, Gaussian
from leastwise.attacks.reachability import Everywhere
from leastwise.attacks.threats import L2, Ball, Linf
from leastwise.attacks.transfer import Surrogate, Transfer
from leastwise.core.parsing import parse_number
from leastwise.data.corrupt.registry import Corruption

TEMPERATURE = 5.0  # 1/T of a plain `tpgd`: the value Tian et al. report for MART and HE
TEMPERATURE_GRID = (2.0, 5.0, 10.0, 50.0)  # Tian et al., section 5
TRANSFER_STEPS = 20


def no_surrogate(name: str) -> Surrogate:
    raise ValueError(f"the surrogate {name!r} of a transfer attack cannot be loaded here: use `leastwise audit`")


@dataclass(frozen=True)
class Threat:
    """What all named attacks of one audit share. `load` finds the surrogates of transfer attacks."""

    ball: Ball
    step: float
    keep: Keep = "fooled"
    load: Callable[[str], Surrogate] = field(default=no_surrogate, compare=False)


def pgd(threat: Threat, steps: str, restarts: str | None = None) -> PGD | Restarts:
    attack = PGD(threat.ball, CE(), threat.step, int(steps), keep=threat.keep)
    return Restarts(attack, int(restarts)) if restarts else attack


def momentum_pgd(threat: Threat, steps: str) -> PGD:
    return PGD(threat.ball, CE(), threat.step, int(steps), keep=threat.keep, momentum=1.0)


def tpgd(threat: Threat, steps: str, inverse_temperature: str | None) -> PGD:
    goal = CE(TEMPERATURE if inverse_temperature is None else float(inverse_temperature))
    return PGD(threat.ball, goal, threat.step, int(steps), keep=threat.keep)


def tpgd_grid(threat: Threat, steps: str) -> Grid:
    return Grid(tuple(tpgd(threat, steps, str(t)) for t in TEMPERATURE_GRID))


def cw(threat: Threat, steps: str) -> PGD:
    return PGD(threat.ball, Margin(kappa=50.0), threat.step, int(steps), keep=threat.keep)


def kl_pgd(threat: Threat, steps: str) -> PGD:
    return PGD(threat.ball, KL(), threat.step, int(steps), start=Gaussian(0.001), keep=threat.keep)


def targeted(threat: Threat, steps: str, target: str) -> PGD:
    return PGD(threat.ball, Toward(int(target)), threat.step, int(steps), keep=threat.keep)


def everywhere(threat: Threat, steps: str) -> Everywhere:
    return Everywhere(PGD(threat.ball, CE(), threat.step, int(steps), keep="fooled"))


def friendly(threat: Threat, steps: str, patience: str | None) -> PGD:
    return PGD(threat.ball, CE(), threat.step, int(steps), keep="fooled", patience=int(patience or 0))


def version(name: Version) -> Callable[[Threat], Attack]:
    return lambda threat: autoattack(threat.ball, name, threat.keep)


def measured_in(norm: type[Linf] | type[L2], name: str, threat: Threat) -> Ball:
    if not isinstance(threat.ball, norm):
        raise ValueError(f"{name} measures distance in {norm.__name__}: give --norm {norm.__name__.lower()}")
    return threat.ball


def transfer(threat: Threat, files: str) -> Transfer:
    attack = PGD(threat.ball, CE(), threat.step, TRANSFER_STEPS, keep="last")
    return Transfer(attack, tuple(threat.load(file) for file in files.split("+")))


def corrupted(_: Threat, name: str, severity: str | None) -> Corrupted:
    return Corrupted(Corruption(name, int(severity or 3)))


def at_radius(threat: Threat, eps: str) -> Threat:
    radius = parse_number(eps, "eps")
    own = threat.ball.eps
    assert isinstance(own, float), "a named attack has one radius"
    return replace(threat, ball=threat.ball.at(radius), step=threat.step * radius / own if own else radius / 4)
