"""Evidence that no network made: realistic class accuracies, drawn with a fixed seed, for tests and screenshots."""

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from leastwise.attacks.base import NEVER
from leastwise.audit.evidence import Evidence
from leastwise.audit.record import Record
from leastwise.report.results import AuditedModel

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR10_GROUPS = (("transportation", (0, 1, 8, 9)), ("animals", (2, 3, 4, 5, 6, 7)))
PGD20 = np.array([66.3, 76.7, 36.7, 23.4, 36.5, 50.6, 73.2, 64.6, 73.7, 65.0]) / 100  # cifar_resnet2b at 2/255
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def names_of(k: int) -> tuple[str, ...]:
    if k == 10:
        return CIFAR10
    rng = np.random.default_rng(k)
    made = ["".join(LETTERS[i] for i in rng.integers(0, 26, rng.integers(4, 14))) for _ in range(k)]
    return tuple(f"{name} {i}" for i, name in enumerate(made))


def evidence(
    k: int = 10, per_class: int = 1000, shift: float = 0.0, names: Sequence[str] | None = None, more: bool = False
) -> Evidence:
    """Clean, pgd20 and autoattack. `shift` makes another model: it moves weak classes up and strong ones down.

    `more` adds fgsm at three small radii, and reach20 with the pairs of classes.
    """
    rng = np.random.default_rng([k, per_class, round(100 * shift)])
    classes = np.random.default_rng(k)
    base = PGD20 if k == 10 else np.clip(classes.beta(2.2, 3.0, k), 0.01, 0.97)
    base = np.clip(base + shift * (0.5 - base), 0.0, 1.0)
    groups = CIFAR10_GROUPS if k == 10 else even_groups(k)
    group_of = np.zeros(k, dtype=np.int64)
    for g, (_, members) in enumerate(groups):
        group_of[list(members)] = g
    near = np.where(group_of[:, None] == group_of[None], 4.0, 0.6) * classes.gamma(0.6, size=(k, k))
    np.fill_diagonal(near, 0.0)
    near /= near.sum(1, keepdims=True)
    labels = np.repeat(np.arange(k, dtype=np.int32), per_class)
    luck = rng.random(len(labels))  # one draw per image: what survives an attack survives the weaker ones
    level = {"clean": base**0.3, "pgd20": base, "autoattack": np.clip(base - 0.021, 0, 1)}
    astray = choices(near, labels, rng)
    conditions = {
        name: record(labels, np.where(luck < p[labels], labels, astray).astype(np.int32), k)
        for name, p in level.items()
    }
    ball = {"type": "Linf", "eps": 0.00784}
    attack = {"type": "PGD", "ball": ball, "steps": 20, "step": 0.00196, "goal": {"type": "CE"}}
    attacks: dict[str, Any] = {"clean": {"type": "Clean"}, "pgd20": attack, "autoattack": {"type": "Cascade"}}
    if more:
        clean = base**0.3
        for e in (0.5, 1, 1.5):
            survived = luck < (clean * (base / clean) ** ((e / 2) ** 1.3))[labels]
            conditions[f"fgsm[{e}/255]"] = record(labels, np.where(survived, labels, astray).astype(np.int32), k)
            attacks[f"fgsm[{e}/255]"] = {"type": "PGD", "ball": {"type": "Linf", "eps": e / 255}, "steps": 1}
        chance = np.clip(classes.beta(1.2, 6, (k, k)) + 0.3 * (1 - base)[:, None] * classes.random((k, k)), 0, 1)
        reached = np.random.default_rng(7).binomial(per_class, chance)
        np.fill_diagonal(reached, 0)
        conditions["reach20"] = replace(conditions["pgd20"], reached=reached)
        attacks["reach20"] = {"type": "Everywhere", "attack": attack}
    recipe = {
        "type": "AuditRecipe",
        "conditions": list(attacks.items()),
        "data": "d" * 64,
        "model": f"{round(100 * shift):064d}",
        "seed": 0,
    }
    ids = np.arange(len(labels), dtype=np.int32)
    text = json.dumps(recipe, sort_keys=True, separators=(",", ":"))
    return Evidence(ids, labels, tuple(names or names_of(k)), conditions, text, groups)


def choices(chances: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One draw of `rng.choice(k, p=chances[y])` for each label, all at once."""
    limits = chances.cumsum(1)
    limits /= limits[:, -1:]
    luck, drawn = rng.random(len(labels)), np.empty(len(labels), dtype=np.int32)
    for y in np.unique(labels):
        drawn[labels == y] = limits[y].searchsorted(luck[labels == y], side="right")
    return drawn


def even_groups(k: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    count = 20 if k >= 100 else max(1, k // 5)
    order = np.random.default_rng(k + 1).permutation(k)
    return tuple((f"group {g + 1}", tuple(sorted(order[g::count].tolist()))) for g in range(count))


def record(labels: "np.ndarray", predicted: "np.ndarray", k: int) -> Record:
    """Only the predictions mean something; the rest is consistent with them."""
    n = len(labels)
    right = predicted == labels
    told: dict[str, Any] = {
        "predicted": predicted,
        "runner_up": ((predicted + 1) % k).astype(np.int32),
        "margin": np.where(right, 1.0, -1.0).astype(np.float32),
        "p_true": np.where(right, 0.6, 0.2).astype(np.float32),
        "p_predicted": np.full(n, 0.6, np.float32),
        "p_runner_up": np.full(n, 0.2, np.float32),
        "logit_sum": np.zeros((k, k)),
        "probability_sum": np.zeros((k, k)),
        "reached": np.zeros((0, 0), dtype=np.int64),
        "rounded": np.full(n, NEVER, np.int32),
        "forwards": 22 * n,
        "backwards": 20 * n,
    }
    whole = {"by", "step", "trouble", "each"}
    rest = [f.name for f in fields(Record) if f.name not in told]
    told |= {name: np.zeros(n, np.int32 if name in whole else np.float32) for name in rest}
    return Record(**told)


def audited(k: int = 10, per_class: int | None = None, models: int = 2) -> tuple[AuditedModel, ...]:
    """Two models with everything a page can show."""
    size = per_class or {10: 1000, 100: 100}.get(k, 50)
    made = []
    for name, shift in (("PGD training", 0.0), ("Fair training", 0.3))[:models]:
        warned = ("2 of 10 layers were in training mode; they were set right",)
        found = replace(evidence(k, size, shift, more=True), warnings=warned)
        run = {"finished": "2026-01-02T03:04:05Z", "leastwise": "0.1.0", "torch": "2.13.0+cpu", "device": "cpu"}
        made.append(AuditedModel(name, found, run))
    return tuple(made)
