"""What attacks find that look for the nearest mistake rather than for any mistake in a given ball."""

from typing import NamedTuple

import torch

from leastwise.attacks.base import Outcome, outcome
from leastwise.balls import Ball
from leastwise.types import Images, Labels, PerExample


class Closest(NamedTuple):
    """The nearest misclassified points found, in the attack's norm, and what they cost in passes of single examples."""

    x_adv: Images  # the image itself where none was found
    distance: PerExample  # infinity where none was found; 0 where the image itself is misclassified
    forwards: int
    backwards: int
    trouble: Labels  # FLAT or BROKEN where finding none may mean little


def within(found: Closest, ball: Ball, x: Images, step: Labels) -> Outcome:
    """The outcome at a radius: fooled where the nearest mistake is inside the ball, the image itself elsewhere."""
    eps = torch.as_tensor(ball.eps, dtype=torch.float64, device=x.device)
    fooled = found.distance.double() <= eps
    x_adv = torch.where(fooled.view(-1, 1, 1, 1), found.x_adv, x)
    return outcome(x_adv, fooled, step, found.forwards, found.backwards, found.trouble)
