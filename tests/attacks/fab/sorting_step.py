"""The step onto a hyperplane the slow way."""

import math

import numpy as np

from leastwise.attacks.threats import L1, L2, Linf

BALLS = (Linf, L2, L1)


ORDER = {Linf: math.inf, L2: 2, L1: 1}


def exact_step(kind: type, p: np.ndarray, w: np.ndarray, gap: float) -> np.ndarray:
    """One row the slow way: sort the pixels by when they meet the box, and walk until the gap is closed."""
    direction = -np.sign(w) * np.sign(gap)
    room = np.where(direction > 0, 1 - p, p)
    moves = np.flatnonzero(direction)
    size, need = np.abs(w), abs(gap)
    moved = np.zeros_like(p)
    if need >= (size * room)[moves].sum():
        moved[moves] = room[moves]
    elif kind is L1:
        for i in sorted(moves, key=lambda i: -size[i]):
            moved[i] = min(room[i], need / size[i])
            need -= size[i] * moved[i]
    else:
        rate = size if kind is L2 else np.ones_like(size)
        order = sorted(moves, key=lambda i: room[i] / rate[i])
        for at, i in enumerate(order):
            free = order[at:]
            level = (need - sum(size[j] * room[j] for j in order[:at])) / sum(size[j] * rate[j] for j in free)
            if level * rate[i] <= room[i]:
                break
        moved[moves] = np.minimum(level * rate, room)[moves]
    return direction * moved
