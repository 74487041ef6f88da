"""Names matched by hand, permutations that are known, and mistakes that no order explains."""

import numpy as np
import pytest
import torch
from torch import nn

from leastwise.models.load.dispatch import load_model
from leastwise.models.output_check import describe_swapped, find_swapped, match_names, parse_map
from tests.conftest import SHAPE, K, random_linear

NAMES = ("ant", "bee", "cow", "dog", "elk")


def counts_of(order: list[int], right: int = 7, n: int = 10) -> np.ndarray:
    """Images of class c go to order[c] but for some that are spread over the other classes."""
    made = np.zeros((len(order), len(order)), dtype=np.int64)
    for c, to in enumerate(order):
        made[c, to] = right
        for i in range(n - right):
            made[c, [other for other in range(len(order)) if other != to][i % (len(order) - 1)]] += 1
    return made


def test_two_swapped_classes_and_a_turned_order_are_found_by_name() -> None:
    assert find_swapped(counts_of([0, 1, 2, 3, 4])) == {}
    assert find_swapped(counts_of([0, 3, 2, 1, 4])) == {1: 3, 3: 1}
    assert find_swapped(counts_of([1, 2, 3, 4, 0])) == {0: 1, 1: 2, 2: 3, 3: 4, 4: 0}
    said = describe_swapped(counts_of([0, 3, 2, 1, 4]), NAMES)
    assert said.startswith(
        "classes bee and dog look swapped: with that order 35 of 50 images would be right instead of 2"
    )
    assert "ant is taken for bee" in describe_swapped(counts_of([1, 2, 3, 4, 0]), NAMES)


def test_mistakes_that_are_no_order_are_not_called_one() -> None:
    assert find_swapped(counts_of([0, 0, 2, 3, 4])) == {}  # all bees are taken for ants, which stay ants
    assert find_swapped(counts_of([0, 3, 2, 1, 4], right=5)) == {}  # half of the images is not most of them
    assert find_swapped(counts_of([0, 3, 2, 1, 4], right=2, n=3)) == {}  # three images a class are too few
    rng = np.random.default_rng(0)
    found = sum(bool(find_swapped(rng.multinomial(10, [0.2] * 5, size=5))) for _ in range(500))
    assert found <= 5  # guesses: one in a hundred at most


def test_names_are_matched_in_any_order_and_spelling_or_by_hand() -> None:
    assert match_names(NAMES, NAMES, {}, what="m") == []
    assert match_names(("Elk", "dog", "cow", "BEE", "ant"), NAMES, {}, what="m") == [4, 3, 2, 1, 0]
    assert match_names(["LABEL_0", "LABEL_1"], ("a", "b"), {}, what="m") == []
    assert match_names(["a", "b"], ("0", "1"), {}, what="m") == []
    assert match_names(["tench, Tinca tinca", "cat"], ("cat", "Tinca_tinca"), {}, what="m") == [1, 0]
    with pytest.raises(
        ValueError, match="m calls its 3 classes boat, car, cat, the data its 2 car, ship; it has no ship"
    ):
        match_names(["boat", "car", "cat"], ("car", "ship"), {}, what="m")
    with pytest.raises(ValueError, match="--map"):  # one class more than the data: only by hand
        match_names(["ship", "car", "cat"], ("car", "ship"), {}, what="m")
    assert match_names(["boat", "car", "cat"], ("car", "ship"), parse_map("ship=boat"), what="m") == [1, 0]
    with pytest.raises(ValueError, match="--map names plane"):
        match_names(NAMES, NAMES, {"plane": "ant"}, what="m")
    with pytest.raises(ValueError, match="pairs such as car=automobile"):
        parse_map("car:automobile")


def test_a_model_with_names_answers_in_the_order_of_the_data() -> None:
    x = torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(3))
    net: nn.Module = random_linear(K, torch.float32).net
    plain = net(x)
    net.classes = list(reversed(NAMES))  # type: ignore[assignment]
    model = load_model(net, SHAPE, NAMES)
    assert torch.equal(model(x), plain.flip(1))
    assert any(
        "put into the order of the data's classes by name (ant is the model's ant, output 4" in n for n in model.notes
    )
    net.classes = ["ant", "bee", "cow", "dog", "horse"]  # type: ignore[assignment]
    with pytest.raises(ValueError, match="it has no elk: say which are the same with --map"):
        load_model(net, SHAPE, NAMES)
    assert torch.equal(load_model(net, SHAPE, NAMES, mapping={"elk": "horse"})(x), plain)
    net.classes = 7  # type: ignore[assignment]  # a number of classes, as some call it
    assert torch.equal(load_model(net, SHAPE, NAMES)(x), plain)
