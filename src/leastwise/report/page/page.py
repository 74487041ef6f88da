"""One or more audits -> one HTML file that needs no network: the page people read, send and print."""

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from leastwise.audit.evidence import Evidence
from leastwise.audit.masking import cautions, check_remarks
from leastwise.core.files import write_atomic
from leastwise.core.text import percent, span
from leastwise.report.class_changes import different_attacks, list_changes, same_images
from leastwise.report.condition_stats import (
    ConditionStats,
    certainty_sentences,
    compute_stats,
    find_attackers_pick,
    make_curves,
    naive_sentence,
    side_sentences,
)
from leastwise.report.explain.facts import collect_facts
from leastwise.report.export import table_csv, table_latex, table_markdown, write_csv, write_parquet
from leastwise.report.html import number_figures, render_page
from leastwise.report.page.citations import find_row, find_works, make_bibtex
from leastwise.report.results import AuditedModel
from leastwise.report.terminal.view import what_changed
from leastwise.statistics.accuracy import CONFIDENCE, wilson_interval

CLEAN = "clean"
PICTURES = (".pdf", ".svg", ".png")
FEW_MODELS = 3  # of which all pairs are compared


def make_page(models: Sequence[AuditedModel], title: str = "Class-wise robustness audit") -> str:
    """The page of one model, or of several side by side; of more than three the first is compared with the others."""
    if not models:
        raise ValueError("a page needs at least one audit, but saw none: give the folder of a result")
    if len({model.name for model in models}) != len(models):
        raise ValueError(f"every model needs its own name, but saw {', '.join(m.name for m in models)}: rename one")
    if any(not model.evidence.conditions or not len(model.evidence.ids) for model in models):
        raise ValueError("evidence without images or conditions has nothing to show: audit again")
    specs: list[Any] = []
    exports: list[dict[str, str]] = []
    comparisons = compare_models(models, specs)
    made = {model.name: model.explained or collect_facts(model.evidence) for model in models}
    alike = agreement_section(made, specs)
    views = [describe_model(model, made[model.name], specs=specs, exports=exports) for model in models]
    conditions = list(dict.fromkeys(name for model in models for name in model.evidence.conditions))
    works = find_works(conditions, bool(comparisons))
    return render_page(
        "page.html.j2",
        {
            "title": title,
            "models": views,
            "comparisons": comparisons,
            "agreement": alike,
            "unpaired": [m.name for m in models[1:] if not same_images(models[0].evidence, m.evidence)],
            "methods": [(name, find_row(name)) for name in conditions],
            "works": works,
            "bibtex": make_bibtex(works),
            "confidence": f"{100 * CONFIDENCE:g} %",
        },
        specs=specs,
        exports=exports,
    )


def write_report(models: Sequence[AuditedModel], file: Path, title: str) -> None:
    """Write the page or a picture of several models, or a table of one: the ending of the file decides."""
    kind = file.suffix.lower()
    tables = {".md": table_markdown, ".tex": table_latex}
    exports = {".csv": write_csv, ".parquet": write_parquet}
    if kind in (".html", ".htm"):
        write_atomic(file, make_page(models, title).encode())
    elif kind in PICTURES:
        from leastwise.report.picture import write_picture_of

        write_picture_of(models, file)
    elif kind not in tables | exports:
        raise ValueError(
            f"--out must end in .html, .pdf, .svg, .png, .csv, .parquet, .md or .tex, but saw {file}: rename it"
        )
    elif len(models) > 1:
        raise ValueError(f"a {kind} file holds one audit, but saw {len(models)}: give them one by one")
    elif kind in exports:
        exports[kind](models[0].evidence, file)
    else:
        write_atomic(file, tables[kind](models[0].evidence).encode())


def describe_model(
    model: AuditedModel, made: Mapping[str, Any] | None, *, specs: list[Any], exports: list[dict[str, str]]
) -> dict[str, Any]:
    """Everything the template shows of one model."""
    from leastwise.report.explain.page import describe_explained
    from leastwise.report.figures import (
        END,
        MANY,
        accuracy_figures,
        confusion_figure,
        curve_figure,
        deviation_figures,
        group_figures,
        order_figures,
        rank_figures,
        reachability_figures,
        top_pairs,
        weakest_first,
    )

    evidence = model.evidence
    chosen = find_attackers_pick(evidence)
    found = {name: compute_stats(evidence, name) for name in evidence.conditions}
    order = weakest_first(evidence, chosen.condition)
    many = len(order) > MANY
    deviating = [name for name in dict.fromkeys((CLEAN, chosen.condition)) if name in evidence.conditions]
    checked = [f"Check: {said}." for said in check_remarks(evidence)]
    exports.append({"csv": table_csv(evidence), "latex": table_latex(evidence), "markdown": table_markdown(evidence)})
    return {
        "name": model.name,
        "pick": chosen,
        "naive": naive_sentence(chosen),
        "notes": (*certainty_sentences(found[chosen.condition]), *side_sentences(evidence), *checked),
        "k": len(order),
        "n": len(evidence.ids),
        "many": many,
        "end": END,
        "glance": glance_rows(evidence, found),
        "bars": number_figures(accuracy_figures(evidence, order), specs),
        "curves_of_ranks": number_figures(rank_figures(evidence), specs) if many else [],
        "ranks": number_figures(order_figures(found, chosen.condition), specs),
        "groups": number_figures(group_figures(evidence, chosen.condition), specs) if evidence.groups else [],
        "deviations": number_figures(deviation_figures(evidence, deviating, order), specs),
        "confusion": number_figures([confusion_figure(evidence, chosen.condition)], specs),
        "pairs": [
            (pair.true, pair.predicted, pair.count, pair.n, percent(pair.count / pair.n))
            for pair in top_pairs(evidence, chosen.condition)
        ],
        "reach": number_figures(reachability_figures(evidence), specs),
        "curve": number_figures([curve_figure(evidence, one) for one in make_curves(evidence)], specs),
        "explained": None if made is None else describe_explained(made, specs),
        "warnings": cautions(evidence),
        "conditions": list(evidence.conditions),
        "rows": class_rows(evidence, order),
        "grouped": bool(evidence.groups),
        "provenance": provenance_rows(model),
        "recipe": json.dumps(json.loads(evidence.recipe), indent=1, sort_keys=True, ensure_ascii=False),
    }


def agreement_section(made: Mapping[str, Mapping[str, Any] | None], specs: list[Any]) -> dict[str, Any] | None:
    """Whether the models find the same classes hard; nothing of one model, or of models of different classes."""
    from leastwise.report.explain.page import describe_models_agreement

    known = {name: one for name, one in made.items() if one is not None}
    if len(known) < 2 or len({tuple(one["classes"]) for one in known.values()}) > 1:
        return None
    return describe_models_agreement(known, specs)


def corrected_worst(found: ConditionStats) -> str:
    """The worst class without the bad luck of being picked as the lowest."""
    return f"{percent(found.worst.corrected)} {span(found.worst.low, found.worst.high)}"


def glance_rows(evidence: Evidence, found: Mapping[str, ConditionStats]) -> list[dict[str, str]]:
    """A row per condition: the numbers papers print, and the same without noise."""
    frame = evidence.frame()
    low, high = wilson_interval(frame.correct.sum(1).numpy(), frame.n.sum(1).numpy())
    class_low, class_high = wilson_interval(frame.correct.numpy(), frame.n.numpy())
    rows = []
    for m, name in enumerate(frame.conditions):
        worst = int(frame.worst[m])
        ties = int((frame.accuracy[m] == frame.accuracy[m, worst]).sum())
        one = found[name]
        rows.append(
            {
                "condition": name,
                "overall": percent(float(frame.overall[m])),
                "overall_span": span(low[m], high[m]),
                "worst": frame.names[worst] if ties == 1 else f"{ties} classes",
                "accuracy": percent(float(frame.accuracy[m, worst])),
                "accuracy_span": span(class_low[m, worst], class_high[m, worst]),
                "corrected": corrected_worst(one),
                "cv": f"{1e4 * float(frame.variance[m]):.1f}",
                "spread": ""
                if one.spread.used < 2
                else f"{1e4 * one.spread.debiased:.1f} [{1e4 * one.spread_low:.1f}, {1e4 * one.spread_high:.1f}]",
                "gap": percent(float(frame.gap[m])),
            }
        )
    return rows


def class_rows(evidence: Evidence, order: Sequence[int]) -> list[dict[str, Any]]:
    """The class table, weakest class first."""
    frame = evidence.frame()
    low, high = wilson_interval(frame.correct.numpy(), frame.n.numpy())
    accuracy, lowest = frame.accuracy.tolist(), [float(a.min()) for a in frame.accuracy.nan_to_num(nan=2.0)]
    group_of = {c: name for name, classes in reversed(evidence.groups) for c in classes}
    return [
        {
            "name": evidence.names[c],
            "group": group_of.get(c, "–"),
            "n": int(frame.n[0, c]),
            "cells": [
                (percent(accuracy[m][c]), span(low[m, c], high[m, c]), accuracy[m][c] == lowest[m])
                for m in range(len(frame.conditions))
            ],
        }
        for c in order
    ]


def provenance_rows(model: AuditedModel) -> list[tuple[str, str]]:
    """What determined a result and what it cost, as names and values."""
    evidence = model.evidence
    recipe = json.loads(evidence.recipe)
    passes = [f"{name}: {r.forwards:,} forward, {r.backwards:,} backward" for name, r in evidence.conditions.items()]
    passes += [f"check of survivors: {c.forwards:,} forward, {c.backwards:,} backward" for c in evidence.checks]
    rows = [("key of the recipe", evidence.key), ("images", f"{len(evidence.ids):,}")]
    rows += [(f"digest of the {name}", str(recipe[name])) for name in ("model", "data") if name in recipe]
    rows += [("seed", str(recipe["seed"]))] if "seed" in recipe else []
    rows += [("passes of single images", "; ".join(passes))]
    return rows + [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in model.run.items()]


def compare_models(models: Sequence[AuditedModel], specs: list[Any]) -> list[dict[str, Any]]:
    """Every pair of a few models, of many the first with each other, where both saw the same images."""
    from leastwise.report.figures import change_figure

    made: list[dict[str, Any]] = []
    pairs = combinations(models, 2) if len(models) <= FEW_MODELS else ((models[0], other) for other in models[1:])
    for first, other in pairs:
        if not same_images(first.evidence, other.evidence):
            continue
        apart = different_attacks(first.evidence, other.evidence)
        common = [n for n in first.evidence.conditions if n in other.evidence.conditions and n not in apart]
        condition = find_attackers_pick(first.evidence).condition
        condition = condition if condition in common else common[-1] if common else ""
        names = (first.name, other.name)
        left_out = [
            f"{name} stands for different attacks ({what}) and is not compared." for name, what in apart.items()
        ]
        if not condition:
            if left_out:
                made.append({"names": names, "sentence": " ".join(left_out), "figures": []})
            continue
        shown = [name for name in dict.fromkeys((CLEAN, condition)) if name in common]
        found = [change_figure(list_changes(first.evidence, other.evidence, name), name, names) for name in shown]
        sentence = what_changed(first.evidence, other.evidence, names, condition=condition) if CLEAN in common else ""
        said = " ".join([sentence, *left_out]).strip()
        made.append({"names": names, "sentence": said, "figures": number_figures(found, specs)})
    return made
