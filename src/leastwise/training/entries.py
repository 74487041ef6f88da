"""What the table of methods and policies says about each: every method's file ends with its entries.

The registry puts the entries of all files together; `leastwise list methods`, the tests and the documentation read it.
"""

from collections.abc import Callable
from typing import NamedTuple

from leastwise.attacks.goals import CE, KL
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Ball, Gaussian, Radius, Uniform
from leastwise.training.base import Objective, Policy

MAXIMUM_ENTROPY_PAPER = "on rethinking robust fairness, ICLR 2022 submission"


class Method(NamedTuple):
    """A training method by name; `make` takes the inner attack's ball, step and number of steps."""

    make: Callable[[Ball, Radius, int], Objective]
    equation: str
    paper: str
    passes: str  # forward-backward passes of the batch per step; n is the number of attack steps


class PublishedSetting(NamedTuple):
    """What surrounds a policy in its paper or code, and is the default of `leastwise train` with it."""

    settings: tuple[str, ...]  # of the method, as `--set` takes them
    schedule: str
    validation_steps: int  # of the attack on the validation images
    fine_tunes: bool  # it begins with a robust network


class NamedPolicy(NamedTuple):
    """A class-wise policy by name, with its default settings."""

    policy: Policy
    equation: str
    paper: str
    passes: str  # that it adds to those of the method
    published: PublishedSetting | None = None  # where that is not what a method has by default


def ce_attack(ball: Ball, step: Radius, steps: int) -> PGD:
    """PGD on the cross-entropy from a uniform start: the inner attack of PGD-AT."""
    return PGD(ball, CE(), step, steps, Uniform())


def gaussian_ce_attack(ball: Ball, step: Radius, steps: int) -> PGD:
    """PGD on the cross-entropy from a Gaussian start, as the TRADES line of code has it."""
    return PGD(ball, CE(), step, steps, Gaussian(0.001))


def kl_attack(ball: Ball, step: Radius, steps: int) -> PGD:
    """PGD on the divergence from the clean answer, from a Gaussian start: the inner attack of TRADES."""
    return PGD(ball, KL(), step, steps, Gaussian(0.001))
