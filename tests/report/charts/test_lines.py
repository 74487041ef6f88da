"""Axes and legends of charts with several series."""

from leastwise.report.charts.bars import whole_ticks
from leastwise.report.charts.lines import COLOURS, DASHES, Axes, Series, SeriesStyle, line_chart, ticks_at


def epochs(last: int) -> tuple[float, ...]:
    return tuple(float(e) for e in range(1, last + 1))


def test_ticks_are_whole_numbers_or_where_points_are() -> None:
    assert whole_ticks(epochs(2)) == [1, 2] and whole_ticks(epochs(12)) == [2, 4, 6, 8, 10, 12]
    assert whole_ticks(epochs(200)) == [25, 50, 75, 100, 125, 150, 175, 200] and whole_ticks(()) == [1]
    radii = Series("PGD", (1.0,) * 7, (1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0))
    assert ticks_at([radii]) == {"values": [1, 2, 4, 6, 8, 12, 16]}
    assert ticks_at([Series("a", (0.0,) * 12, epochs(12))]) == {"values": whole_ticks(epochs(12))}
    assert ticks_at([Series("a", (0.0,) * 9, tuple(e / 4 for e in range(9)))]) == {}


def test_a_series_may_bring_its_colour_and_dashes() -> None:
    made = line_chart(
        [Series("x", (1.0,), (1.0,), SeriesStyle(3, 1, 3)), Series("y", (1.0,), (1.0,), SeriesStyle(3, 0, 2))],
        Axes("", ""),
        "",
    )
    line = made["layer"][0]["encoding"]
    assert line["color"]["scale"]["range"] == [COLOURS[3]] * 2
    assert line["strokeDash"]["scale"]["range"] == [DASHES[1], DASHES[0]]
    usual = line_chart([Series("x", (1.0,), (1.0,)), Series("y", (1.0,), (1.0,))], Axes("", ""), "")["layer"][0][
        "encoding"
    ]
    assert usual["color"]["scale"]["range"] == COLOURS[:2]
