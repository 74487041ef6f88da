"""A training method and its policies put together for one batch, by the rules that `training/base.py` names."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from leastwise.attacks.goals import SomeTargeted
from leastwise.core.noise import Noise
from leastwise.core.recipe import name_of_type
from leastwise.core.types import Labels, PerClass
from leastwise.training.base import (
    LogitChange,
    Objective,
    Policy,
    PolicyStates,
    TeacherTemperatures,
    Terms,
    per_example,
    unchanged,
)


def check_policies(objective: Objective, policies: Sequence[Policy]) -> None:
    """Refuse policies that cannot act on an objective, or not together; the sentence says why."""
    kinds = [type(policy) for policy in policies]
    twice = next((kind for kind in kinds if kinds.count(kind) > 1), None)
    if twice is not None:
        raise ValueError(f"{name_of_type(twice)} would act twice: give each policy once")
    for policy in policies:
        if reason := policy.obstacle(objective):
            raise ValueError(reason)
    for acts, what in ((changes_logits, "change the logits of the label's loss"), (aims_attacks, "aim attacks")):
        acting = [name_of_type(type(policy)) for policy in policies if acts(policy)]
        if len(acting) > 1:
            raise ValueError(f"{' and '.join(acting)} both {what}: choose one of them")


def changes_logits(policy: Policy) -> bool:
    """Whether a policy has something to say about the logits that the label's loss sees."""
    return type(policy).label_logits is not Policy.label_logits


def aims_attacks(policy: Policy) -> bool:
    """Whether a policy chooses classes that attacks aim at."""
    return type(policy).targets is not Policy.targets


def apply_temperatures(objective: Objective, policies: PolicyStates, y: Labels) -> Objective:
    """The objective with the teacher at the temperatures that the policies give this batch: they multiply."""
    found = [given for policy, s in policies if (given := policy.teacher_temperatures(y, s)) is not None]
    if not found:
        return objective
    adversarial, clean = (torch.stack(parts).prod(dim=0) for parts in zip(*found, strict=True))
    return objective.at_temperatures(TeacherTemperatures(adversarial, clean))


def apply_targets(objective: Objective, policies: PolicyStates, y: Labels, *, noise: Noise) -> Objective:
    """The objective with an attack that goes to the classes that a policy chooses for this batch."""
    attack = objective.attack
    if attack is None:
        return objective
    for policy, s in policies:
        targets = policy.targets(y, s, noise.fork("targets"))
        if targets is not None:
            return replace(objective, attack=replace(attack, goal=SomeTargeted(attack.goal, targets)))  # type: ignore[type-var]
    return objective


def apply_to_attack(objective: Objective, policies: PolicyStates, y: Labels, *, noise: Noise) -> Objective:
    """The objective with all that policies do to how a batch is crafted: radii, targets, a teacher's temperatures."""
    found = apply_temperatures(apply_radii(objective, policies, y), policies, y)
    return apply_targets(found, policies, y, noise=noise)


def apply_radii(objective: Objective, policies: PolicyStates, y: Labels) -> Objective:
    """The objective with the radii that the policies give this batch: their factors multiply."""
    attack = objective.attack
    if attack is None:
        return objective
    found = [factors for policy, s in policies if (factors := policy.radii(attack, y, s)) is not None]
    if not found:
        return objective
    radius = torch.stack([factors.radius for factors in found]).prod(dim=0)
    steps = [factors.step for factors in found if factors.step is not None]
    step = torch.stack(steps).prod(dim=0) * attack.step if steps else None
    return replace(objective, attack=attack.at(radius * attack.ball.eps, step))  # type: ignore[type-var]


def adjust_logits(policies: PolicyStates, y: Labels) -> LogitChange:
    """What the policies do to the logits of the label's loss: at most one of them does anything (`check_policies`)."""
    for policy, s in policies:
        if changes_logits(policy):
            return partial(policy.label_logits, y=y, s=s)
    return unchanged


def apply_terms(terms: Terms, policies: PolicyStates, y: Labels) -> Terms:
    """The loss of a batch under all policies. Each looks at the objective's own terms, so their order is free."""
    found = terms
    for policy, s in policies:
        weights = policy.weights(s)
        if weights is not None:
            w = per_example(weights, y, terms.label)
            found = found.weigh(w, w)
        parts = policy.part_weights(terms, y, s)
        if parts is not None:
            found = found.weigh(parts.label, parts.divergence)
        penalty = policy.penalty(terms, y, s)
        if penalty is not None:
            found = found.add(penalty)
    return found


def class_shares(policies: PolicyStates) -> PerClass | None:
    """How often each class is drawn under all policies, in proportion; None for every image once."""
    shares = [share for policy, s in policies if (share := policy.sampling(s)) is not None]
    return torch.stack(shares).prod(dim=0) if shares else None
