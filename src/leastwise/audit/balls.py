"""Where the conditions of an audit search: the balls of those that use gradients."""

import math
from collections.abc import Sequence

from leastwise.attacks.base import Attack, CombinedAttack
from leastwise.attacks.goals import Goal
from leastwise.attacks.threats import L1, L2, Ball, Linf


def group_by_ball(conditions: Sequence[tuple[str, Attack]]) -> list[tuple[Ball, tuple[str, ...]]]:
    """The conditions to be checked: those that use gradients to find any mistake, by their ball."""
    found: dict[str, tuple[Ball, tuple[str, ...]]] = {}
    for name, attack in conditions:
        ball = find_ball(attack)
        if attack.gradients and ball is not None and isinstance(ball.eps, float) and seeks_any_mistake(attack):
            _, names = found.get(str(ball), (ball, ()))
            found[str(ball)] = ball, (*names, name)
    return list(found.values())


def find_ball(attack: Attack) -> Ball | None:
    """The ball that an attack and all its members share, if it has one."""
    if isinstance(attack, CombinedAttack):
        balls = {str(ball): ball for ball in map(find_ball, attack.inner)}
        return next(iter(balls.values())) if len(balls) == 1 else None
    ball = getattr(attack, "ball", None)
    return ball if isinstance(ball, Linf | L2 | L1) else None


def seeks_any_mistake(attack: Attack) -> bool:
    """Whether any wrong answer counts; survivors of an attack toward one class prove nothing."""
    if isinstance(attack, CombinedAttack):
        return all(map(seeks_any_mistake, attack.inner))
    goal = getattr(attack, "goal", None)
    return (goal is None or type(goal).reached is Goal.reached) and getattr(attack, "target", None) is None


def find_reach(attacks: Sequence[Attack], pixels: int) -> float:
    """How far, per pixel, the attacks of an audit that use gradients go at most; 0 if none says."""
    found = [0.0]
    for attack in attacks:
        ball = find_ball(attack) if attack.gradients else None
        if ball is not None and isinstance(ball.eps, float):
            found.append(ball.eps if isinstance(ball, Linf) else ball.eps / math.sqrt(pixels))
    return max(found)
