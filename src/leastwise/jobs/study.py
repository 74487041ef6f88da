"""A study: methods × radii × seeds × architectures as one file, and the table of what came out.

The file names what varies and, under [train] and [audit], options that all share. Nothing in it is evaluated.
"""

import csv
import html
import io
import itertools
import math
import statistics
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from leastwise.audit.evidence import Evidence
from leastwise.core.text import did_you_mean

MOST_CELLS = 10_000
MOST_BYTES = 1 << 20  # of a study file
LISTS = ("models", "methods", "eps", "seeds")
KEYS = ("title", "data", *LISTS, "attack", "train", "audit")


class Cell(NamedTuple):
    """One training and its audit."""

    model: str
    method: str
    eps: str
    seed: int

    def __str__(self) -> str:
        return f"{self.model} {self.method} eps {self.eps} seed {self.seed}"


@dataclass(frozen=True)
class Study:
    title: str = "A study"
    data: str = "fashion-mini"
    models: tuple[str, ...] = ("small",)
    methods: tuple[str, ...] = ()
    eps: tuple[str, ...] = ("8/255",)
    seeds: tuple[int, ...] = (0,)
    attack: str = "clean,pgd20"
    train: Mapping[str, Any] = field(default_factory=dict)  # options of `leastwise train`
    audit: Mapping[str, Any] = field(default_factory=dict)  # options of the audits

    @property
    def cells(self) -> Iterator[Cell]:
        return (Cell(*values) for values in itertools.product(self.models, self.methods, self.eps, self.seeds))


def read_study(path: Path) -> Study:
    """A study from a TOML file; a key that is not known is answered with the nearest one that is."""
    if not path.is_file():
        raise ValueError(f"there is no study at {path}: give a .toml file")
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} is larger than any study: {path.stat().st_size:,} bytes")
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file ({' '.join(str(error).split())})") from None
    check_keys(content, KEYS, str(path))
    found: dict[str, Any] = {}
    for name in ("title", "data", "attack"):
        if name in content:
            found[name] = of_kind(content[name], str, name)
    for name in ("models", "methods"):
        if name in content:
            found[name] = tuple(of_kind(value, str, name) for value in listed(content[name]))
    if "eps" in content:
        found["eps"] = tuple(radius(value) for value in listed(content["eps"]))
    if "seeds" in content:
        found["seeds"] = tuple(of_kind(value, int, "seeds") for value in listed(content["seeds"]))
    for name in ("train", "audit"):
        found[name] = of_kind(content.get(name, {}), dict, name)
    study = Study(**found)
    check_study(study, path)
    return study


def check_study(study: Study, path: Path) -> None:
    if not study.methods:
        raise ValueError(f'{path} names no methods: write methods = ["pgd-at", "trades"] or the like')
    count = math.prod(len(getattr(study, name)) for name in LISTS)
    if count > MOST_CELLS:
        raise ValueError(f"{path} asks for {count:,} trainings, more than {MOST_CELLS:,}: make several studies of it")
    for name in LISTS:
        values = getattr(study, name)
        if not values or len(set(values)) != len(values):
            raise ValueError(f"{name} in {path} must be a list of different values, but saw {list(values)}")


def check_keys(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in given:
        if key not in known:
            raise ValueError(f"{where} has a key {key!r} that means nothing: {did_you_mean(key, known)}")


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def of_kind(value: Any, kind: type, name: str) -> Any:
    words = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "a table"}
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{name} must be {words[kind]}, but saw {str(value)[:40]!r}")
    return value


def radius(value: Any) -> str:
    """Text such as 8/255, or a number."""
    return f"{value!r}" if type(value) in (int, float) else str(of_kind(value, str, "eps"))


class Row(NamedTuple):
    """What one audit found under one condition."""

    cell: Cell
    condition: str
    images: int
    overall: float
    worst: float
    worst_class: str
    gap: float
    folder: str


def rows_of(cell: Cell, evidence: Evidence, folder: str) -> list[Row]:
    frame, found = evidence.frame(), []
    for number, condition in enumerate(frame.conditions):
        accuracy = frame.accuracy[number]
        worst = int(frame.worst[number])
        found.append(
            Row(
                cell,
                condition,
                int(frame.n[number].sum()),
                float(frame.overall[number]),
                float(accuracy[worst]),
                frame.names[worst],
                float(frame.gap[number]),
                folder,
            )
        )
    return found


def table_csv(rows: Sequence[Row]) -> str:
    """One line per training and condition; fractions. Text that a spreadsheet would take for a formula is quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*Cell._fields, *Row._fields[1:]])
    for row in rows:
        values = [*row.cell, *row[1:]]
        writer.writerow([f"{v:.6f}" if isinstance(v, float) else inert(v) if isinstance(v, str) else v for v in values])
    return out.getvalue()


def inert(text: str) -> str:
    return f"'{text}" if text[:1] in "=+-@\t\r" else text


class Place(NamedTuple):
    """A method at one radius, over its seeds."""

    model: str
    method: str
    eps: str
    rows: tuple[Row, ...]

    def mean(self, what: str) -> float:
        return statistics.fmean(getattr(row, what) for row in self.rows)

    def spread(self, what: str) -> float:
        return statistics.stdev(getattr(row, what) for row in self.rows) if len(self.rows) > 1 else math.nan


def leaderboard(rows: Sequence[Row], condition: str) -> list[Place]:
    """Under one condition, the highest worst class first."""
    cells = {row.cell[:3]: None for row in rows}
    places = [Place(*c, tuple(r for r in rows if r.cell[:3] == c and r.condition == condition)) for c in cells]
    return sorted((place for place in places if place.rows), key=lambda place: -place.mean("worst"))


def hardest(rows: Sequence[Row]) -> str:
    """The condition with the lowest accuracy over all trainings."""
    conditions = {row.condition: None for row in rows}
    return min(conditions, key=lambda c: statistics.fmean(row.overall for row in rows if row.condition == c))


STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
body{color:#1a1a1a;background:#fff}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.25rem .8rem;text-align:right;border-bottom:1px solid #ddd}
th:nth-child(-n+3),td:nth-child(-n+3){text-align:left}caption{text-align:left;font-weight:600;padding:.5rem 0}
@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}th,td{border-color:#444}a{color:#9cf}}"""


def page(study: Study, rows: Sequence[Row]) -> str:
    """One table per radius, best worst class first; everything that is not ours is escaped."""
    condition = hardest(rows)
    parts = [f"<h1>{html.escape(study.title)}</h1>"]
    parts.append(
        f"<p>Data: {html.escape(study.data)}. Sorted by the accuracy of the worst class under "
        f"<b>{html.escape(condition)}</b>, mean over {len(study.seeds)} seeds; ± is the standard deviation over seeds. "
        "The lowest of many classes is partly bad luck: differences within the spread mean little.</p>"
    )
    for eps in study.eps:
        places = [place for place in leaderboard(rows, condition) if place.eps == eps]
        lines = "".join(line(place, rows) for place in places)
        parts.append(
            f"<table><caption>eps {html.escape(eps)}</caption><thead><tr><th>model<th>method<th>worst class"
            "<th>worst %<th>average %<th>gap<th>clean %<th>audits</tr></thead>"
            f"<tbody>{lines}</tbody></table>"
        )
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(study.title)}</title>'
    meta = '<meta name="viewport" content="width=device-width"><meta http-equiv="Content-Security-Policy" '
    meta += "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    return f"{head}{meta}<style>{STYLE}</style><body>{''.join(parts)}</body></html>\n"


def line(place: Place, rows: Sequence[Row]) -> str:
    clean = [r.overall for r in rows if r.cell[:3] == place[:3] and r.condition == "clean"]
    worst = ", ".join(sorted({row.worst_class for row in place.rows}))
    links = " ".join(f'<a href="{html.escape(row.folder)}">{row.cell.seed}</a>' for row in place.rows)
    cells = [html.escape(place.model), html.escape(place.method), html.escape(worst)]
    cells += [percent(place, "worst"), percent(place, "overall"), percent(place, "gap")]
    cells += [f"{100 * statistics.fmean(clean):.1f}" if clean else "–", links]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def percent(place: Place, what: str) -> str:
    spread = place.spread(what)
    return f"{100 * place.mean(what):.1f}" + ("" if math.isnan(spread) else f" ± {100 * spread:.1f}")
