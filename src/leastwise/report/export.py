"""The class table as CSV, LaTeX and Markdown, and the evidence as CSV and parquet.

A table cell is accuracy in percent with its 95 % Wilson interval; a class without images is empty.
"""

import io
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from leastwise.audit.evidence import Evidence
from leastwise.audit.record import SUMS, Record
from leastwise.core.files import write_atomic
from leastwise.core.text import csv_text, escape_latex, escape_markdown, percent, span
from leastwise.statistics.accuracy import wilson_interval


def table_csv(evidence: Evidence) -> str:
    """A row per class; per condition n, correct, accuracy, low and high as fractions with six digits."""
    frame = evidence.frame()
    low, high = wilson_interval(frame.correct.numpy(), frame.n.numpy())
    parts = ("n", "correct", "accuracy", "low", "high")
    rows: list[list[str]] = [["class", *(f"{name}.{part}" for name in frame.conditions for part in parts)]]
    for c, name in enumerate(evidence.names):
        row = [name]
        for m in range(len(frame.conditions)):
            n, correct = int(frame.n[m, c]), int(frame.correct[m, c])
            shown = [f"{v:.6f}" for v in (correct / n, low[m, c], high[m, c])] if n else ["", "", ""]
            row += [str(n), str(correct), *shown]
        rows.append(row)
    return csv_text(rows)


def table_markdown(evidence: Evidence) -> str:
    """The class table for Markdown."""
    header, rows = table_cells(evidence)
    shown = [[escape_markdown(row[0]), *row[1:]] for row in rows]  # the rest are our own numbers
    lines = [[*map(escape_markdown, header)], ["---", *["---:"] * (len(header) - 1)], *shown]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table_latex(evidence: Evidence) -> str:
    """For the booktabs package; the worst class of each condition is bold."""
    header, rows = table_cells(evidence)
    frame = evidence.frame()
    lines = [[escape_latex(cell) for cell in row] for row in rows]
    for m, lowest in enumerate(frame.accuracy.nan_to_num(1.0).amin(1).tolist()):
        for c, accuracy in enumerate(frame.accuracy[m].tolist()):
            if accuracy == lowest:
                lines[c][m + 1] = rf"\textbf{{{lines[c][m + 1]}}}"
    body = "".join(f"{' & '.join(line)} \\\\\n" for line in lines)
    return (
        f"% needs \\usepackage{{booktabs}}; accuracy in percent [95 % Wilson interval]\n"
        f"\\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}\n\\toprule\n"
        f"{' & '.join(map(escape_latex, header))} \\\\\n\\midrule\n{body}\\bottomrule\n\\end{{tabular}}\n"
    )


def table_cells(evidence: Evidence) -> tuple[list[str], list[list[str]]]:
    """A header and a row per class, as people read them; the last row is all images together."""
    frame = evidence.frame()
    low, high = wilson_interval(frame.correct.numpy(), frame.n.numpy())
    accuracy = frame.accuracy.tolist()
    rows = []
    for c, name in enumerate(evidence.names):
        shown = [
            f"{percent(accuracy[m][c])} {span(low[m, c], high[m, c])}" if frame.n[m, c] else ""
            for m in range(len(frame.conditions))
        ]
        rows.append([name, *shown])
    rows.append(["overall", *map(percent, frame.overall.tolist())])
    return ["class", *frame.conditions], rows


PER_EXAMPLE = tuple(f.name for f in fields(Record) if f.name not in SUMS)


def example_columns(evidence: Evidence) -> dict[str, Any]:
    """One row per example and condition: id, label, class, condition, and everything recorded of it."""
    n, k = len(evidence.ids), len(evidence.conditions)
    names = np.array(evidence.names, dtype=object)
    records = list(evidence.conditions.values())
    made: dict[str, Any] = {
        "id": np.tile(evidence.ids, k),
        "label": np.tile(evidence.labels, k),
        "class": np.tile(names[evidence.labels], k),
        "condition": np.repeat(np.array(list(evidence.conditions), dtype=object), n),
        "correct": np.concatenate([evidence.correct(name) for name in evidence.conditions]),
    }
    return made | {name: np.concatenate([getattr(r, name) for r in records]) for name in PER_EXAMPLE}


def write_csv(evidence: Evidence, path: Path) -> None:
    """Floats are written so that reading them gives the same float32."""
    made = example_columns(evidence)
    texts = [
        [str(v) for v in column.tolist()] if column.dtype != np.float32 else list(map(str, column))
        for column in made.values()
    ]
    write_atomic(path, csv_text([list(made), *map(list, zip(*texts, strict=True))]).encode())


def write_parquet(evidence: Evidence, path: Path) -> None:
    """The same columns, with the recipe, its key and the class names in the file's metadata."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise ValueError('parquet needs pyarrow, which is not installed: pip install "leastwise[parquet]"') from None
    table = pa.table({name: pa.array(column) for name, column in example_columns(evidence).items()})
    about = {"leastwise.recipe": evidence.recipe, "leastwise.key": evidence.key}
    out = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(about), out, compression="zstd")
    write_atomic(path, out.getvalue())
