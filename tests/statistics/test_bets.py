"""Bets against their exact means: every outcome of a round, weighed with its probability, under every true claim."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom, hypergeom

from leastwise.statistics.bets import ClassState, bet_on_side, place_bets, settle_bets, weigh_opponents


def mean_factor(state: ClassState, probabilities: list["np.ndarray"]) -> float:
    """The mean of what the first class's wealth against the second is multiplied by."""
    bets = place_bets(state)
    rights = itertools.product(*(range(len(p)) for p in probabilities))
    return sum(
        probabilities[0][a] * probabilities[1][b] * np.exp(settle_bets(bets, state, np.array([a, b]))[0, 1])
        for a, b in rights
    )


SIZES = [((12, 9, 3, 2), (12, 12, 4, 2)), ((10, 6, 1, 3), (18, 14, 5, 1)), ((20, 5, 4, 1), (8, 8, 0, 3))]


@pytest.mark.parametrize(("first", "second"), SIZES)
def test_no_bet_gains_on_average_when_the_claim_holds_without_replacement(
    first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    """(images, open, known right, drawn): all counts of survivors with first ≤ second, and several guesses."""
    (n_c, open_c, known_c, k_c), (n_d, open_d, known_d, k_d) = first, second
    checked, most = 0, 0.0
    for q_c, q_d in itertools.product((0.1, 0.5, 0.9, 0.99), repeat=2):
        known, weight = np.array([known_c / n_c, known_d / n_d]), np.array([open_c / n_c, open_d / n_d])
        state = ClassState(known, weight, np.array([q_c, q_d]), np.array([k_c, k_d]))
        for s_c, s_d in itertools.product(range(open_c + 1), range(open_d + 1)):
            if (known_c + s_c) * n_d <= (known_d + s_d) * n_c:
                ways = [
                    hypergeom.pmf(np.arange(k + 1), left, s, k)
                    for left, s, k in ((open_c, s_c, k_c), (open_d, s_d, k_d))
                ]
                mean = mean_factor(state, ways)
                assert mean <= 1 + 1e-9
                checked, most = checked + 1, max(most, mean)
    assert checked > 100 and most > 0.99  # at the edge of the claim hardly anything is given away


def test_no_bet_gains_on_average_in_a_population() -> None:
    for k_c, k_d in ((1, 1), (5, 5), (8, 1)):
        for q_c, q_d in ((0.6, 0.5), (0.9, 0.1), (0.5, 0.6)):
            state = ClassState(np.zeros(2), np.ones(2), np.array([q_c, q_d]), np.array([k_c, k_d]))
            for p in np.linspace(0.01, 0.99, 25):
                for more in (0.0, 0.1):
                    ways = [
                        binom.pmf(np.arange(k_c + 1), k_c, p),
                        binom.pmf(np.arange(k_d + 1), k_d, min(1, p + more)),
                    ]
                    assert mean_factor(state, ways) <= 1 + 1e-9


def test_an_exhausted_class_is_held_against_as_a_number() -> None:
    """Second class: all 10 drawn, 4 right. First: 2 of 5 right so far; more than 4 of its 10 refutes the claim."""
    state = ClassState(np.array([0.2, 0.4]), np.array([0.5, 0.0]), np.array([0.8, 0.5]), np.array([2, 0]))
    for survivors in range(3):  # of 5 open ones: 2 to 4 of 10 in all
        ways = [hypergeom.pmf(np.arange(3), 5, survivors, 2), np.ones(1)]
        assert mean_factor(state, ways) <= 1 + 1e-9
    assert mean_factor(state, [hypergeom.pmf(np.arange(3), 5, 4, 2), np.ones(1)]) > 1.2


@pytest.mark.parametrize(("q_c", "q_d", "k"), [(0.7, 0.5, 1), (0.9, 0.3, 5), (0.2, 0.1, 5)])
def test_bets_grow_as_fast_as_the_nearest_point_of_the_claim_allows(q_c: float, q_d: float, k: int) -> None:
    """If the guess is true, the mean log factor is the smallest relative entropy to the claim; within 2 %."""
    weight, known = np.array([0.8, 0.6]), np.array([0.05, 0.1])
    state = ClassState(known, weight, np.array([q_c, q_d]), np.array([k, k]))
    offset = known[1] - known[0]

    def entropy(q: float, p: float) -> float:
        return float(q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p)))

    def distance(p_c: float) -> float:
        p_d = (weight[0] * p_c - offset) / weight[1]
        return np.inf if not 1e-9 < p_d < 1 - 1e-9 else k * (entropy(q_c, p_c) + entropy(q_d, p_d))

    best = minimize_scalar(distance, bounds=(offset / weight[0] + 1e-6, q_c), method="bounded").fun
    bets = place_bets(state)
    ways = [binom.pmf(np.arange(k + 1), k, q) for q in (q_c, q_d)]
    grown = sum(
        ways[0][a] * ways[1][b] * settle_bets(bets, state, np.array([a, b]))[0, 1]
        for a, b in itertools.product(range(k + 1), repeat=2)
    )
    assert 0.98 * best <= grown <= best + 1e-6


def test_a_side_bet_gains_nothing_when_the_class_is_on_the_other_side() -> None:
    n, k = np.array([3]), np.arange(4)
    for left, most in ((10, 4), (6, 0), (5, 4)):
        for survivors in range(most + 1):
            for q in (0.3, 0.7, 0.99):
                gains = [
                    float(np.exp(bet_on_side(np.array([most / left]), np.array([q]), np.array([r]), drawn=n))[0])
                    for r in k
                ]
                assert hypergeom.pmf(k, left, survivors, 3) @ np.array(gains) <= 1 + 1e-9


def test_weights_are_shares_of_the_opponents_and_prefer_the_lowest() -> None:
    state = ClassState(np.zeros(3), np.ones(3), np.array([0.2, 0.5, 0.9]), np.array([5, 5, 5]))
    shares = np.exp(weigh_opponents(state, np.array([0.1, 0.1, 0.1])))
    assert np.diag(shares).tolist() == [0, 0, 0] and shares.sum(1) == pytest.approx([1, 1, 1])
    assert shares[1, 0] > 0.9 and shares[0, 1] > shares[0, 2]
