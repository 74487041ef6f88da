"""The page: explained models -> what the template shows of each, and of all together."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from leastwise.report.charts.bars import Spec
from leastwise.report.explain.agreement import compare_facts
from leastwise.report.explain.facts import ExplainFacts, with_nans
from leastwise.report.explain.figures import (
    COSINES,
    class_figures,
    map_figures,
    ranking_figure,
    square_figure,
    weakest_classes,
)
from leastwise.report.explain.sentences import explain_sentences, format_signed
from leastwise.report.figures import Figure
from leastwise.report.html import number_figures, render_page

ROWS = 40  # rows of the table
NO_ATTACK = "They were not explained under the same attack: name one with --condition to compare that too."


def explain_page(models: Mapping[str, ExplainFacts], title: str = "Why classes are weak") -> str:
    """The page of one or several explained models."""
    specs: list[Spec] = []
    together = describe_models_agreement(models, specs, NO_ATTACK) if len(models) > 1 else None
    parts = [{"name": name, "part": describe_explained(made, specs)} for name, made in models.items()]
    return render_page("explain.html.j2", {"title": title, "models": parts, "across": together}, specs=specs)


def describe_models_agreement(
    models: Mapping[str, ExplainFacts], specs: list[Any], otherwise: str = ""
) -> dict[str, Any]:
    """Whether models of the same classes find the same ones hard; `otherwise` is said if they share no attack."""
    found = compare_facts(models)
    names = found["models"]
    figures, said = [], []
    for kind in ("natural", "attacked"):
        if found[kind] is None:
            said += [otherwise] if otherwise else []
            continue
        what = "without attack" if kind == "natural" else f"under {found[kind]['conditions'][0]}"
        cosine, p = (np.array([with_nans(row) for row in found[kind][name]]) for name in ("cosine", "p"))
        figures.append(square_figure(names, cosine, f"Cosines of deviations, {what}", style=COSINES))
        for i, j in zip(*np.triu_indices(len(names), 1), strict=True):
            if not np.isnan(cosine[i, j]):
                said.append(f"{names[i]} and {names[j]}, {what}: {format_signed(cosine[i, j])} (p = {p[i, j]:.2g}).")
    first = next(iter(models.values()))
    for name, shares in found["drop_share"].items():
        title = f"Share of the fall from {names[0]} to {name}, clean"
        made: Figure | None = ranking_figure(first, shares, title, up="share, %")
        figures += [made] if made is not None else []
    return {"sentences": said, "figures": number_figures(figures, specs)}


def describe_explained(made: ExplainFacts, specs: list[Any]) -> dict[str, Any]:
    """What the template shows of one model."""
    columns, rows = reason_table(made)
    k = sum(1 for n in made["images"] if n)
    notes = [
        "Hints, not causes: several candidates were looked at, and one may be high by chance. Candidates from the same "
        "images are measured on one half of them, accuracy under attack on the other. Intervals of rank correlations "
        "are over classes."
    ]
    if k > ROWS:
        notes.append(f"The table has the {ROWS} weakest of {k:,} classes; explain.json has all.")
    if made["features"] is None:
        notes.append("Similarity and variance of features need the network itself: `leastwise explain MODEL`.")
    return {
        "sentences": explain_sentences(made),
        "figures": number_figures(class_figures(made), specs),
        "wide": number_figures(map_figures(made), specs),
        "columns": columns,
        "rows": rows,
        "sheets": [made["sheet"]] if made.get("sheet") else [],
        "notes": notes,
    }


def reason_table(made: ExplainFacts) -> tuple[list[str], list[list[str]]]:
    """Class by class, weakest first."""
    condition, base, own = made["condition"], made["clean"], made["features"]
    columns = [
        "class",
        f"{condition}, %",
        f"{base}, %",
        "mistakes that end here, %",
        "share of the fall, %",
        "entropy",
        "CVC",
    ]
    columns += ["most similar class", "cosine", "variance"] if own else []
    rows = []
    for c in weakest_classes(made)[:ROWS]:
        row = [made["classes"][c]]
        row += [format_number(made["accuracy"][name][c], 100.0, 1) for name in (condition, base)]
        row.append(format_number(made["in_flow"][c], 100.0, 1))
        row.append(format_number(made["drop_share"][c] if made["drop_share"] is not None else None, 100.0, 1))
        row += [format_number(made["entropy"][base][c], 1.0, 3), format_number(made["cvc"][base][c], 1.0, 4)]
        if own:
            row += [
                own["most_similar"][c],
                format_number(own["similarity"][c], 1.0, 3),
                format_number(own["variance"][c], 1.0, 4),
            ]
        rows.append(row)
    return columns, rows


def format_number(value: float | None, times: float, digits: int) -> str:
    """A number of the table, with a true minus sign; a dash if it is missing."""
    return "–" if value is None else f"{times * value:.{digits}f}".replace("-", "−")
