"""Maps of numbers: which cells are written, and how."""

from leastwise.report.charts.heatmap import HeatmapStyle, heatmap

NAMES = ["ant", "bee"]


def cells(look: HeatmapStyle, values: tuple[float, float]) -> dict[str, str]:
    spec = heatmap([("ant", "bee", values[0]), ("bee", "ant", values[1])], NAMES, NAMES, style=look, about="")
    return {one["name"]: one["text"] for one in spec["datasets"][spec["data"]["name"]]}


def test_a_cosine_of_zero_is_written_and_never_as_minus_zero() -> None:
    cosines = HeatmapStyle("", "cosine", "", digits=2, signed=True, least_top=1.0)
    assert cells(cosines, (0.0, -0.004)) == {"ant": "0.00", "bee": "0.00"}
    assert cells(cosines, (-0.416, 1.0)) == {"ant": "−0.42", "bee": "1.00"}


def test_shares_that_round_to_zero_stay_empty() -> None:
    assert cells(HeatmapStyle(), (0.0, 0.3)) == {"bee": ""}
    assert cells(HeatmapStyle(), (float("nan"), 12.6)) == {"bee": "13"}
