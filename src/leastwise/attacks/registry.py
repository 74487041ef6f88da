"""Attacks by name: the one table that the command line, the documentation and the tests read."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from leastwise.attacks.apgd.attack import APGD
from leastwise.attacks.autoattack import TARGETS
from leastwise.attacks.base import Attack, Clean
from leastwise.attacks.combine import Cascade
from leastwise.attacks.corruptions import RandomNoise
from leastwise.attacks.fab.attack import FAB
from leastwise.attacks.goals import CE, DLR
from leastwise.attacks.makers import (
    TEMPERATURE,
    TEMPERATURE_GRID,
    TRANSFER_STEPS,
    Threat,
    at_radius,
    corrupted,
    cw,
    everywhere,
    friendly,
    kl_pgd,
    measured_in,
    momentum_pgd,
    pgd,
    targeted,
    tpgd,
    tpgd_grid,
    transfer,
    version,
)
from leastwise.attacks.min_norm.cw import CWL2, CWInf
from leastwise.attacks.min_norm.ddn_fmn import DDN, FMN
from leastwise.attacks.nattack import NAttack
from leastwise.attacks.pgd import Uniform, fgsm, r_fgsm
from leastwise.attacks.square import Square
from leastwise.attacks.threats import L2, Linf
from leastwise.data.corrupt.registry import CORRUPTIONS


class Named(NamedTuple):
    """A row of the table. The pattern's groups are handed to `make` after the threat."""

    spelling: str
    example: str
    pattern: str
    make: Callable[..., Attack]
    about: str
    paper: str
    cost: str


N = r"([1-9]\d*)"
TABLE: tuple[Named, ...] = (
    Named("clean", "clean", r"clean", lambda threat: Clean(), "the images as they are", "", "1 forward"),
    Named(
        "fgsm",
        "fgsm",
        r"fgsm",
        lambda threat: fgsm(threat.ball, keep=threat.keep),
        "one step of size eps from the image",
        "Goodfellow et al. 2015",
        "2 forwards, 1 backward",
    ),
    Named(
        "fgsm-rs",
        "fgsm-rs",
        r"fgsm-rs",
        lambda threat: fgsm(threat.ball, start=Uniform(), keep=threat.keep),
        "one step of size eps from a uniform start",
        "Tian et al. 2021",
        "3 forwards, 1 backward",
    ),
    Named(
        "rfgsm",
        "rfgsm",
        r"rfgsm",
        lambda threat: r_fgsm(threat.ball, keep=threat.keep),
        "half of eps to a random corner, the other half uphill",
        "Tramèr et al. 2018",
        "3 forwards, 1 backward",
    ),
    Named(
        "pgdN[xR]",
        "pgd3x2",
        rf"pgd{N}(?:x{N})?",
        pgd,
        "N steps on cross-entropy from a uniform start; R times",
        "Madry et al. 2018",
        "at most N + 2 forwards, N backwards, R times",
    ),
    Named(
        "mpgdN",
        "mpgd3",
        rf"mpgd{N}",
        momentum_pgd,
        "pgdN with momentum 1",
        "Dong et al. 2018",
        "as pgdN",
    ),
    Named(
        "tpgdN[@K]",
        "tpgd3@10",
        rf"tpgd{N}(?:@(\d+(?:\.\d+)?))?",
        tpgd,
        f"Temperature-PGD: cross-entropy of K·logits, K = 1/T = {TEMPERATURE:g} unless given",
        "Tian et al. 2021",
        "as pgdN",
    ),
    Named(
        "tpgdN-grid",
        "tpgd2-grid",
        rf"tpgd{N}-grid",
        tpgd_grid,
        f"Temperature-PGD, each and the worst of 1/T = {', '.join(f'{t:g}' for t in TEMPERATURE_GRID)}",
        "Tian et al. 2021",
        f"{len(TEMPERATURE_GRID)} × pgdN",
    ),
    Named(
        "cwN",
        "cw3",
        rf"cw{N}",
        cw,
        "N steps on the margin with kappa = 50 from a uniform start",
        "Carlini & Wagner 2017, as used by Madry et al. 2018",
        "as pgdN",
    ),
    Named(
        "klpgdN",
        "klpgd3",
        rf"klpgd{N}",
        kl_pgd,
        "N steps on KL(p(x) || p(x')) from a Gaussian start of 0.001: what TRADES trains against",
        "Zhang et al. 2019",
        "at most N + 3 forwards, N backwards",
    ),
    Named(
        "pgdN-to-C",
        "pgd3-to-1",
        rf"pgd{N}-to-(\d+)",
        targeted,
        "N steps toward class number C (from 0); only arriving there counts as success",
        "Madry et al. 2018",
        "as pgdN",
    ),
    Named(
        "reachN",
        "reach2",
        rf"reach{N}",
        everywhere,
        "N steps toward every other class: which class can be turned into which",
        "Madry et al. 2018",
        "K - 1 × pgdN, fewer where classes are reached on the way",
    ),
    Named(
        "fatN[@M]",
        "fat3@1",
        rf"fat{N}(?:@(\d+))?",
        friendly,
        "friendly PGD: stops M steps (0 unless given) after the first mistake",
        "Zhang et al. 2020",
        "as pgdN",
    ),
    Named(
        "apgd-ce",
        "apgd-ce",
        r"apgd-ce",
        lambda threat: APGD(threat.ball, CE(), keep=threat.keep),
        "auto-PGD on cross-entropy: 100 steps of adaptive size",
        "Croce & Hein 2020",
        "at most 102 forwards, 101 backwards",
    ),
    Named(
        "apgd-dlr",
        "apgd-dlr",
        r"apgd-dlr",
        lambda threat: APGD(threat.ball, DLR(), keep=threat.keep),
        "auto-PGD on the difference of logits ratio",
        "Croce & Hein 2020",
        "as apgd-ce",
    ),
    Named(
        "apgd-t",
        "apgd-t",
        r"apgd-t",
        lambda threat: APGD(threat.ball, targets=TARGETS, keep=threat.keep),
        "auto-PGD toward the nine classes that follow the first",
        "Croce & Hein 2020",
        "at most 9 × apgd-ce",
    ),
    Named(
        "fab",
        "fab",
        r"fab",
        lambda threat: FAB(threat.ball, targets=0, keep=threat.keep),
        "fast adaptive boundary: the nearest point beyond the linearised boundary to any class",
        "Croce & Hein 2020 (FAB)",
        "at most 102 forwards, 100 × (K - 1) backwards",
    ),
    Named(
        "fab-t",
        "fab-t",
        r"fab-t",
        lambda threat: FAB(threat.ball, targets=TARGETS, keep=threat.keep),
        "fast adaptive boundary, one target at a time, nine targets",
        "Croce & Hein 2020 (FAB)",
        "at most 9 × 101 forwards, 9 × 100 backwards",
    ),
    Named(
        "square[:N]",
        "square:20",
        rf"square(?::{N})?",
        lambda threat, queries: Square(threat.ball, queries=int(queries or 5000), keep=threat.keep),
        "random squares, no gradients; N queries, 5000 unless given",
        "Andriushchenko et al. 2020",
        "at most N + 1 forwards",
    ),
    Named(
        "autoattack",
        "autoattack",
        r"autoattack",
        version("standard"),
        "apgd-ce, apgd-t, fab-t and square, each on what survived",
        "Croce & Hein 2020",
        "at most about 7,000 forwards, 1,900 backwards",
    ),
    Named(
        "autoattack-plus",
        "autoattack-plus",
        r"autoattack-plus",
        version("plus"),
        "apgd-ce, apgd-dlr and fab with five restarts, square, apgd-t, fab-t",
        "Croce & Hein 2020",
        "at most about 8,500 forwards, 3,300 + 500 × (K - 1) backwards",
    ),
    Named(
        "autoattack-rand",
        "autoattack-rand",
        r"autoattack-rand",
        version("rand"),
        "apgd-ce and apgd-dlr on gradients averaged over 20 passes, for random networks",
        "Croce & Hein 2020",
        "at most about 4,000 forwards and backwards",
    ),
    Named(
        "cwinf[:N]",
        "cwinf:20",
        rf"cwinf(?::{N})?",
        lambda threat, n: CWInf(measured_in(Linf, "cwinf", threat), iterations=int(n or 1000), keep=threat.keep),
        "the smallest Linf distance by Carlini and Wagner's search; N Adam steps a round, 1000 unless given",
        "Carlini & Wagner 2017; settings of Tian et al. 2021",
        "up to N forwards and backwards × 5 values of c × values of tau; black and white pixels move slowly",
    ),
    Named(
        "cwl2[:N]",
        "cwl2:20",
        rf"cwl2(?::{N})?",
        lambda threat, n: CWL2(measured_in(L2, "cwl2", threat), iterations=int(n or 1000), keep=threat.keep),
        "the smallest L2 distance by Carlini and Wagner's search; N Adam steps a round, 1000 unless given",
        "Carlini & Wagner 2017",
        "up to N forwards and backwards × 9 values of c; black and white pixels move slowly",
    ),
    Named(
        "ddn[:N]",
        "ddn:10",
        rf"ddn(?::{N})?",
        lambda threat, n: DDN(measured_in(L2, "ddn", threat), steps=int(n or 100), keep=threat.keep),
        "decoupled direction and norm: the smallest L2 distance in N steps, 100 unless given",
        "Rony et al. 2019",
        "at most N + 1 forwards, N backwards",
    ),
    Named(
        "fmn[:N]",
        "fmn:10",
        rf"fmn(?::{N})?",
        lambda threat, n: FMN(threat.ball, steps=int(n or 100), keep=threat.keep),
        "fast minimum norm: the smallest distance in N steps, 100 unless given",
        "Pintor et al. 2021",
        "at most N + 1 forwards, N backwards",
    ),
    Named(
        "nattack[:N]",
        "nattack:10",
        rf"nattack(?::{N})?",
        lambda threat, n: NAttack(threat.ball, steps=int(n or 500), keep=threat.keep),
        "a Gaussian of adversarial points, learnt from queries; N rounds of 300, 500 unless given",
        "Li et al. 2019",
        "at most 300 N + N / 10 forwards",
    ),
    Named(
        "transfer:FILE[+FILE]",
        "",
        r"transfer:([^\[\]]+)",
        transfer,
        f"PGD-{TRANSFER_STEPS} crafted on other networks, each on what survived; takes MODEL's --arch, --mean, --std",
        "Tian et al. 2021",
        f"{TRANSFER_STEPS} + 1 forwards, {TRANSFER_STEPS} backwards of each surrogate; 1 + 1 forwards",
    ),
    Named(
        "uniform[:N]",
        "uniform:2",
        rf"uniform(?::{N})?",
        lambda threat, n: RandomNoise(threat.ball, "uniform", int(n or 1), threat.keep),
        "random points of the ball: the worst of N, 1 unless given",
        "",
        "at most N + 1 forwards",
    ),
    Named(
        "gaussian[:N]",
        "gaussian:2",
        rf"gaussian(?::{N})?",
        lambda threat, n: RandomNoise(threat.ball, "gaussian", int(n or 1), threat.keep),
        "Gaussian noise of standard deviation eps, projected: the worst of N, 1 unless given",
        "",
        "at most N + 1 forwards",
    ),
    Named(
        "CORRUPTION[:S]",
        "fog:3",
        rf"({'|'.join(CORRUPTIONS)})(?::([1-5]))?",
        corrupted,
        "a common corruption at severity S, 3 unless given: `leastwise list corruptions`",
        "Hendrycks & Dietterich 2019",
        "1 forward",
    ),
    Named(
        "A+B[+…]",
        "fgsm+pgd2",
        r"((?!transfer:)[^+]+(?:\+[^+]+)+)",
        lambda threat, names: Cascade(tuple(named(name, threat) for name in names.split("+"))),
        "several attacks as one, each on what survived those before it: the worst case of every image",
        "",
        "as its members, the later ones on survivors",
    ),
    Named(
        "A[EPS]",
        "pgd2[1/255]",
        r"(transfer:[^\[]+|[^+\[]+)\[([^\[\]]+)\]",
        lambda threat, name, eps: named(name, at_radius(threat, eps)),
        "an attack at a radius of its own, with a step in proportion: several make a security curve",
        "",
        "as the attack",
    ),
)


def named(name: str, threat: Threat) -> Attack:
    """The attack of that name under that threat."""
    row, parts = found(name)
    return row.make(threat, *parts)


def found(name: str) -> tuple[Named, tuple[str | None, ...]]:
    """The row of a name, and what the name says beyond it."""
    for row in TABLE:
        if match := re.fullmatch(row.pattern, name):
            for part in members(row, match.groups()):
                found(part)
            return row, match.groups()
    raise ValueError(f"there is no attack {name!r}: choose from {', '.join(row.spelling for row in TABLE)}")


def members(row: Named, parts: tuple[str | None, ...]) -> list[str]:
    """The names inside a name."""
    if row.spelling == "A[EPS]":
        return [parts[0] or ""]
    return (parts[0] or "").split("+") if row.spelling == "A+B[+…]" else []


def named_all(names: str, threat: Threat) -> tuple[tuple[str, Attack], ...]:
    """The attacks of a comma-separated list of names, each once."""
    return tuple((name, named(name, threat)) for name in listed(names))


def over_radii(names: str, radii: Sequence[str], threat: Threat) -> str:
    """The names with every attack that has a radius once for each of several: `pgd20` becomes `pgd20[2/255],…`."""
    if len(radii) == 1:
        return names
    spelled = []
    for name in listed(names):
        several = [at_each(name, radius) for radius in radii]
        moves = "[" not in name and named(several[0], threat) != named(several[-1], threat)
        spelled += several if moves else [name]
    return ",".join(spelled)


def at_each(name: str, radius: str) -> str:
    parts = [name] if name.startswith("transfer:") else name.split("+")
    return "+".join(f"{part}[{radius}]" for part in parts)


def listed(names: str) -> tuple[str, ...]:
    """The names of a comma-separated list, checked."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise ValueError("no attack was named: give a list such as clean,pgd20")
    if repeated := sorted({name for name in wanted if wanted.count(name) > 1}):
        raise ValueError(f"{', '.join(repeated)} is named more than once: give each attack once")
    for name in wanted:
        found(name)
    return tuple(wanted)
