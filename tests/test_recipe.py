"""Recipes as plain values."""

from leastwise.recipe import difference


def test_the_first_difference_is_named_with_its_path() -> None:
    a = {"ball": {"eps": 0.1, "type": "Linf"}, "steps": 20}
    assert difference(a, a) == ""
    assert difference(a, {"ball": {"eps": 0.2, "type": "Linf"}, "steps": 10}) == "ball.eps 0.1 and 0.2"
    assert difference(a, {"ball": {"eps": 0.1, "type": "Linf"}}) == "steps 20 and null"
    assert difference([1], [2]) == "value [1] and [2]"
