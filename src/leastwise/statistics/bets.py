"""Bets against "this class is right no more often than that one": what a class's wealth is multiplied by.

Class c has a share `weight` w_c of its images left to draw (all of them for a population), of which an unknown
share μ_c will be right; what is known already is in `offset` m. The doubted claim is then w_c·μ_c − w_d·μ_d ≤ m. For
any point (p_c, p_d) with w_c·p_c − w_d·p_d = m and any stake h ≥ 0, k_c images of c and k_d of d multiply the wealth by

    Π_c (1 + h·w_c·(y − p_c) / k_c) · Π_d (1 − h·w_d·(y − p_d) / k_d).

If the claim holds, u = w_c(μ_c − p_c) ≤ v = w_d(μ_d − p_d), and the mean of the product is at most
(1 + h·u/k_c)^k_c · (1 − h·v/k_d)^k_d ≤ exp(h·(u − v)) ≤ 1: for images with replacement by independence, for images
without by Hoeffding (1963, theorem 4), because both products are convex in the number of right ones. So wealth is a
non-negative supermartingale that starts at 1 and ever reaches 1/α with probability at most α (Ville), whatever p and
h were, as long as they were chosen before the images were seen. The best p and h for guesses (q_c, q_d) are those for
which the factors are q(y)/p(y), p being the point of the claim nearest to q in relative entropy (Turner, Ly and
Grünwald 2024); three rounds of substitution find them closely enough.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from leastwise.statistics.accuracy import ClassCounts, ClassValues

ClassPairs = Float[np.ndarray, "k k"]

EDGE = 1e-9  # how near to 0 and 1 a guess may come
MOST = 0.999  # of what can be staked without ever owing something
ROUNDS = 3  # of substitution
ROUNDING = 1e-12  # of the computation of a point


class ClassState(NamedTuple):
    """What is known of each class before a round: shares of all its images."""

    known: ClassValues  # right for certain
    weight: ClassValues  # open
    guess: ClassValues  # of the open ones, the share that is expected to be right
    drawn: ClassCounts  # images that the round will look at


class PairBet(NamedTuple):
    """The bets of one round: row c against column d."""

    p_row: ClassPairs
    p_column: ClassPairs
    stake: ClassPairs  # 0 where nothing can be won


def place_bets(state: ClassState) -> PairBet:
    """Bets of every class against every other, for the doubted claim "the row is right no more often"."""
    w_c, w_d = state.weight[:, None], state.weight[None, :]
    q_c, q_d = state.guess[:, None], state.guess[None, :]
    k_c, k_d = np.maximum(state.drawn[:, None], 1), np.maximum(state.drawn[None, :], 1)
    offset = state.known[None, :] - state.known[:, None]
    gap = w_c * q_c - w_d * q_d - offset
    # A class with images left has to be drawn; one without has nothing open, and the other is held against a number.
    ready = (state.drawn > 0) | (state.weight <= 0)
    p_c, p_d = np.broadcast_to(q_c, gap.shape), np.broadcast_to(q_d, gap.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(ROUNDS):
            v_c, v_d = w_c**2 * p_c * (1 - p_c) / k_c, w_d**2 * p_d * (1 - p_d) / k_d
            p_c = np.where(w_c > 0, np.clip(q_c - gap * v_c / (v_c + v_d) / w_c, EDGE, 1 - EDGE), q_c)
            p_d = np.where(w_d > 0, np.clip((w_c * p_c - offset) / w_d, EDGE, 1 - EDGE), q_d)
            p_c = np.where(w_c > 0, np.clip((w_d * p_d + offset) / w_c, EDGE, 1 - EDGE), q_c)
        stake = gap / (w_c**2 * p_c * (1 - p_c) / k_c + w_d**2 * p_d * (1 - p_d) / k_d)
        most = MOST / np.maximum(w_c * p_c / k_c, w_d * (1 - p_d) / k_d)
    # A point beyond the claim's edge is as sound as one on it, for it grants the claim more. Inside it is not.
    sound = w_c * p_c - w_d * p_d >= offset - ROUNDING
    playing = ready[:, None] & ready[None, :] & (gap > EDGE) & sound & np.isfinite(stake)
    return PairBet(p_c, p_d, np.where(playing, np.minimum(stake, most), 0.0))


def settle_bets(bets: PairBet, state: ClassState, right: ClassCounts) -> ClassPairs:
    """The logarithm of what each bet multiplies wealth by, from how many of the round's images were right."""
    wrong, k = state.drawn - right, np.maximum(state.drawn, 1)
    up = bets.stake * (state.weight / k)[:, None]
    down = bets.stake * (state.weight / k)[None, :]
    row = right[:, None] * np.log1p(up * (1 - bets.p_row)) + wrong[:, None] * np.log1p(-up * bets.p_row)
    column = right[None, :] * np.log1p(-down * (1 - bets.p_column)) + wrong[None, :] * np.log1p(down * bets.p_column)
    return row + column


def weigh_opponents(state: ClassState, error: ClassValues) -> ClassPairs:
    """Logarithms of shares of wealth that the row bets against each column: most against who may be the worst.

    A class whose expected accuracy is z standard errors above the lowest gets exp(−z²/2). Shares that follow the race
    took 280 images for the classes of a CIFAR-10 network, equal ones 346.
    """
    expected = state.known + state.weight * state.guess
    lowest = int(expected.argmin())
    spread = np.maximum(error**2 + error[lowest] ** 2, EDGE)
    log_share = np.tile(-((expected - expected[lowest]) ** 2) / (2 * spread), (len(expected), 1))
    np.fill_diagonal(log_share, -np.inf)
    return log_share - add_logs(log_share)[:, None]


def add_logs(values: Float[np.ndarray, "r c"]) -> Float[np.ndarray, " r"]:
    """The logarithm of the sum of each row's exponentials; a tenth of the time of scipy's for ten classes."""
    most = values.max(axis=1)
    shift = np.where(np.isfinite(most), most, 0.0)
    with np.errstate(divide="ignore"):
        return shift + np.log(np.exp(values - shift[:, None]).sum(axis=1))


def bet_on_side(limit: ClassValues, guess: ClassValues, right: ClassCounts, *, drawn: ClassCounts) -> ClassValues:
    """Log of the factor against "at most `limit` of the open images are right", where the guess is above it.

    The same with everything turned round doubts "at least": give 1 − limit, 1 − guess and the wrong ones.
    """
    p = np.clip(limit, EDGE, 1 - EDGE)  # upwards is sound; a limit near 1 is never beaten by a guess
    q = np.clip(guess, EDGE, 1 - EDGE)
    factor = right * np.log(q / p) + (drawn - right) * np.log((1 - q) / (1 - p))
    return np.where((q > p) & (limit <= 1 - EDGE), factor, 0.0)
