"""Text for people, and numbers that JSON can hold."""

import json

from leastwise.core.files import finite_or_none, with_nulls
from leastwise.core.text import (
    did_you_mean,
    error_with_type,
    first_line,
    nearest_name,
    one_line,
)


def test_a_misspelt_word_is_answered_with_the_nearest_or_with_all() -> None:
    assert did_you_mean("audti", ["audit", "gate"]) == "did you mean audit?"
    assert did_you_mean("zzz", iter(["audit", "gate"])) == "choose audit, gate"
    assert nearest_name("zzz", ["audit", "gate"]) is None
    assert nearest_name("", ["audit"], likeness=0.0) == "audit"


def test_an_error_is_one_line() -> None:
    error = ValueError("\n first  part\n\tsecond\n")
    assert one_line(error) == "first part second"
    assert first_line(error) == "first  part" and error_with_type(error) == "ValueError: first  part"
    assert first_line(KeyError()) == "KeyError"


def test_what_is_not_finite_is_null() -> None:
    nan, inf = float("nan"), float("inf")
    assert json.dumps(with_nulls([[0.5, nan], [-inf, 2]])) == "[[0.5, null], [null, 2]]"
    assert finite_or_none(1.5) == 1.5 and finite_or_none(nan) is None
