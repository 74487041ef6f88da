"""What notebooks show: tables as HTML that reads well on light and on dark pages, and frames of pandas.

Colours are the page's own text colour and see-through tints, because every notebook has another way to say that it is
dark. What is marked by colour is bold and has a sign, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leastwise.core.counts import ClassFrame
from leastwise.core.text import escape_html, percent, span
from leastwise.statistics.accuracy import wilson_interval

SHOWN = 40  # classes; of more, both ends of the ranking under the last condition are shown
END = 15
STYLE = (
    "<style>.leastwise{border-collapse:collapse;margin:.4em 0;color:inherit;font:inherit;"
    "font-variant-numeric:tabular-nums}"
    ".leastwise caption{text-align:left;padding:.2em .6em .5em 0;opacity:.9}"
    ".leastwise th,.leastwise td{padding:.15em .7em;text-align:right;background:none;white-space:nowrap;border:0}"
    ".leastwise th:first-child,.leastwise td:first-child{text-align:left}"
    ".leastwise thead th,.leastwise tbody.foot tr:first-child td{border-top:1px solid rgba(128,128,128,.5)}"
    ".leastwise small{opacity:.65}"
    ".leastwise td.worst{font-weight:bold;background:rgba(222,90,20,.22)}"
    ".leastwise tr.gap td{opacity:.65;text-align:left}</style>"
)

Cell = tuple[str, bool]  # markup, and whether it is marked


def table_html(
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    foot: Sequence[Sequence[Cell]] = (),
    *,
    caption: str = "",
    notes: Sequence[str] = (),
) -> str:
    """A table; `caption` and `notes` are plain text, cells are markup. A row of one cell spans the table."""

    def line(cells: Sequence[Cell]) -> str:
        if len(cells) == 1:
            return f'<tr class="gap"><td colspan="{len(head)}">{cells[0][0]}</td></tr>'
        parts = (f'<td class="worst">{text}</td>' if marked else f"<td>{text}</td>" for text, marked in cells)
        return f"<tr>{''.join(parts)}</tr>"

    parts = [STYLE, '<table class="leastwise">']
    parts += [f"<caption>{escape_html(caption)}</caption>"] if caption else []
    parts += [f"<thead><tr>{''.join(f'<th>{escape_html(name)}</th>' for name in head)}</tr></thead>"]
    parts += [f"<tbody>{''.join(map(line, rows))}</tbody>"]
    parts += [f'<tbody class="foot">{"".join(map(line, foot))}</tbody>'] if foot else []
    parts += ["</table>", *(f"<div><small>{escape_html(note)}</small></div>" for note in notes)]
    return "".join(parts)


def class_table_html(frame: ClassFrame, *, caption: str = "", notes: Sequence[str] = ()) -> str:
    """The accuracy of every class with its interval, a column per condition, the worst class of each marked."""
    accuracy, n = frame.accuracy.numpy(), frame.n.numpy()
    low, high = wilson_interval(frame.correct.numpy(), n)
    lowest = np.nanmin(np.where(n > 0, accuracy, np.nan), axis=1)

    def cell(row: int, c: int) -> Cell:
        if n[row, c] == 0:
            return "<small>no images</small>", False
        marked = bool(accuracy[row, c] == lowest[row])
        shown = f"{percent(accuracy[row, c])} <small>{span(low[row, c], high[row, c])}</small>"
        return shown + (" ◂" if marked else ""), marked

    rows = [
        [(escape_html(frame.names[c]), False), *(cell(row, c) for row in range(len(frame.conditions)))]
        if c >= 0
        else [(f"… {len(frame.names) - 2 * END:,} more …", False)]
        for c in shown_classes(frame)
    ]
    overall = [("overall", False), *((percent(value), False) for value in frame.overall.tolist())]
    return table_html(["class", *frame.conditions], rows, [overall], caption=caption, notes=notes)


def shown_classes(frame: ClassFrame) -> list[int]:
    """The classes in their order; of very many the weakest and the strongest, with -1 between them."""
    k = len(frame.names)
    if k <= SHOWN:
        return list(range(k))
    ranked = np.argsort(frame.accuracy[-1].nan_to_num(nan=2.0).numpy(), kind="stable")
    ranked = ranked[frame.n[-1].numpy()[ranked] > 0]
    return [*ranked[:END].tolist(), -1, *ranked[-END:].tolist()] if len(ranked) > 2 * END else ranked.tolist()


def class_rows(frame: ClassFrame) -> list[dict[str, Any]]:
    """A row per condition and class: counts, accuracy and its interval as fractions. Classes without images stay."""
    low, high = wilson_interval(frame.correct.numpy(), frame.n.numpy())
    accuracy = frame.accuracy.tolist()
    return [
        {
            "condition": condition,
            "class": name,
            "n": int(frame.n[m, c]),
            "correct": int(frame.correct[m, c]),
            "accuracy": accuracy[m][c],
            "low": float(low[m, c]),
            "high": float(high[m, c]),
        }
        for m, condition in enumerate(frame.conditions)
        for c, name in enumerate(frame.names)
    ]


def make_frame(rows: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> Any:
    """A data frame of pandas from rows or columns."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "data frames need pandas, which is not installed: pip install 'leastwise[pandas]'", name="pandas"
        ) from None
    return pandas.DataFrame(rows)
