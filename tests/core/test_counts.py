"""Tallies add; class-wise numbers against numpy, on unbalanced data with a missing class."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leastwise.core.counts import ClassFrame, Tally

NAMES = ("ant", "bee", "cow", "dog", "elk")
N = torch.tensor([200, 3, 0, 50, 1])
CORRECT = torch.tensor([[150, 3, 0, 10, 1], [20, 1, 0, 5, 0]])


@pytest.fixture
def frame() -> ClassFrame:
    return ClassFrame.of({"clean": Tally(N, CORRECT[0]), "pgd20": Tally(N, CORRECT[1])}, NAMES)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=40), st.integers(1, 5), st.randoms())
def test_tally_is_additive_in_any_order_and_grouping(
    examples: list[tuple[int, bool]], pieces: int, random: "np.random.Generator"
) -> None:
    def count(part: list[tuple[int, bool]]) -> Tally:
        y, hit = [e[0] for e in part], [e[1] for e in part]
        return Tally.count(torch.tensor(y, dtype=torch.int64), torch.tensor(hit, dtype=torch.bool), 5)

    whole = count(examples)
    random.shuffle(examples)
    parts = [count(examples[i::pieces]) for i in range(pieces)]
    random.shuffle(parts)
    total = sum(parts, Tally.empty(5))
    assert total.n.tolist() == whole.n.tolist() and total.correct.tolist() == whole.correct.tolist()
    assert total.n.tolist() == [sum(y == c for y, _ in examples) for c in range(5)]
    assert total.correct.tolist() == [sum(y == c and hit for y, hit in examples) for c in range(5)]


def test_class_numbers_on_an_unbalanced_set_with_a_missing_class(frame: ClassFrame) -> None:
    a = np.array([150 / 200, 1.0, 10 / 50, 1.0])  # without the missing cow
    assert math.isnan(frame.accuracy[0, 2]) and frame.accuracy[0, [0, 1, 3, 4]].tolist() == a.tolist()
    assert float(frame.overall[0]) == 164 / 254
    assert float(frame.macro[0]) == pytest.approx(a.mean())
    assert frame.worst.tolist() == [3, 4] and frame.best.tolist() == [1, 1]
    assert float(frame.gap[0]) == pytest.approx(0.8)
    assert float(frame.variance[0]) == pytest.approx(a.var())  # numpy's default is the population variance
    assert float(frame.std[0]) == pytest.approx(a.std())
    assert frame.deviation[0, 3].item() == pytest.approx(0.2 - 164 / 254)
    assert math.isnan(frame.deviation[0, 2])


def test_a_missing_class_is_never_the_worst(frame: ClassFrame) -> None:
    assert 2 not in frame.worst.tolist() + frame.best.tolist()


@given(st.lists(st.integers(0, 50), min_size=2, max_size=8), st.randoms())
def test_p17_relabelling_the_classes_permutes_every_metric(correct: list[int], random: "np.random.Generator") -> None:
    k = len(correct)
    n = [50 + 3 * c for c in range(k)]
    order = list(range(k))
    random.shuffle(order)
    names = tuple(str(c) for c in range(k))
    a = ClassFrame.of({"x": Tally(torch.tensor(n), torch.tensor(correct))}, names)
    b = ClassFrame.of(
        {"x": Tally(torch.tensor(n)[order], torch.tensor(correct)[order])}, tuple(names[c] for c in order)
    )
    assert torch.equal(a.accuracy[:, order], b.accuracy) and torch.allclose(a.deviation[:, order], b.deviation)
    for metric in ("overall", "macro", "gap", "variance", "std"):
        assert getattr(a, metric).item() == pytest.approx(getattr(b, metric).item(), abs=1e-12)
    shift = torch.arange(k)
    other = ClassFrame.of({"y": Tally(torch.tensor(n), shift)}, names)
    renamed = ClassFrame.of({"y": Tally(torch.tensor(n)[order], shift[order])}, b.names)
    assert torch.allclose(a.beside(other).similarity, b.beside(renamed).similarity, equal_nan=True)
    assert a.accuracy[0, a.worst[0]] == b.accuracy[0, b.worst[0]]
    assert a.accuracy[0, a.best[0]] == b.accuracy[0, b.best[0]]


def of_accuracies(*rows: list[float]) -> ClassFrame:
    n = torch.full((len(rows[0]),), 1000)
    tallies = {str(i): Tally(n, (1000 * torch.tensor(row)).round().long()) for i, row in enumerate(rows)}
    return ClassFrame.of(tallies, tuple(str(c) for c in range(len(rows[0]))))


def test_p22_model_similarity_is_pearsons_correlation_on_balanced_data() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 1001, (2, 10)) / 1000
    frame = of_accuracies(a.tolist(), b.tolist())
    assert frame.similarity[0, 1].item() == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert frame.similarity.diagonal().tolist() == pytest.approx([1, 1])


def test_similarity_ignores_a_constant_and_is_undefined_without_a_direction() -> None:
    a = [0.1, 0.5, 0.3, 0.6]
    lifted = [v + 0.2 for v in a]
    frame = of_accuracies(a, lifted, [0.7] * 4)
    assert frame.similarity[0, 1].item() == pytest.approx(1)
    assert math.isnan(frame.similarity[0, 2]) and math.isnan(frame.similarity[2, 2])


def test_similarity_uses_the_classes_both_have(frame: ClassFrame) -> None:
    other = ClassFrame.of({"b": Tally(torch.tensor([10, 10, 10, 0, 10]), torch.tensor([7, 9, 1, 0, 10]))}, NAMES)
    both = frame.beside(other)
    expected = np.corrcoef([0.75, 1.0, 1.0], [0.7, 0.9, 1.0])[0, 1]
    assert both.similarity[0, 2].item() == pytest.approx(expected)


def test_variance_ignores_a_constant_and_scales_with_the_square() -> None:
    a = [0.1, 0.5, 0.3, 0.4]
    frame = of_accuracies(a, [v + 0.3 for v in a], [2 * v for v in a])
    assert frame.variance[1].item() == pytest.approx(frame.variance[0].item())
    assert frame.variance[2].item() == pytest.approx(4 * frame.variance[0].item())


def test_frames_of_different_classes_do_not_stand_beside_each_other(frame: ClassFrame) -> None:
    with pytest.raises(ValueError, match="different classes"):
        frame.beside(of_accuracies([0.1] * 5))
