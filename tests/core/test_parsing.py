"""Numbers, times and names of attacks as people write them."""

import pytest

from leastwise.attacks.combine import Cascade
from leastwise.attacks.naming import Threat
from leastwise.attacks.registry import make_attack, repeat_over_radii
from leastwise.attacks.threats import Linf
from leastwise.core.text import parse_number, parse_numbers, parse_seconds

THREAT = Threat(Linf(0.08), 0.02)


def test_numbers_and_times() -> None:
    assert (
        parse_number("8/255", "eps") == 8 / 255
        and parse_numbers("0.5,1/4", "mean") == (0.5, 0.25)
        and parse_numbers("", "mean") == ()
    )
    assert [parse_seconds(text) for text in ("90s", "20m", "20 min", "1.5h", "")] == [90, 1200, 1200, 5400, None]


@pytest.mark.parametrize("text", ["20", "0s", "-5m", "m", "1d", "1.5.2h", "٣h x"])
def test_a_time_without_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the time budget must be like 90s"):
        parse_seconds(text)


def test_attacks_in_a_row_and_at_a_radius_of_their_own() -> None:
    assert make_attack("fgsm+pgd2", THREAT) == Cascade((make_attack("fgsm", THREAT), make_attack("pgd2", THREAT)))
    assert make_attack("pgd2[0.04]", THREAT) == make_attack("pgd2", Threat(Linf(0.04), 0.01))
    assert make_attack("fgsm+pgd2[0.04]", THREAT) == Cascade(
        (make_attack("fgsm", THREAT), make_attack("pgd2[0.04]", THREAT))
    )
    assert repeat_over_radii("clean,fgsm+pgd2,fog:3", ["0.02", "0.04"], THREAT) == (
        "clean,fgsm[0.02]+pgd2[0.02],fgsm[0.04]+pgd2[0.04],fog:3"
    )
    assert repeat_over_radii("clean,pgd2", ["0.02"], THREAT) == "clean,pgd2"


@pytest.mark.parametrize("name", ["pgd2+foo", "foo[0.1]", "pgd2[]", "+pgd2", "pgd2[0.1"])
def test_a_name_inside_a_name_must_be_known(name: str) -> None:
    with pytest.raises(ValueError, match="there is no attack"):
        make_attack(name, THREAT)
