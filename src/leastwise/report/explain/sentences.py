"""The sentences: explain.json -> what a person reads of one model, on a page and in a terminal."""

from collections.abc import Sequence

import numpy as np

from leastwise.core.text import percent, span
from leastwise.report.explain.facts import ExplainFacts, with_nans

LARGEST = 30  # classes up to which communities are named


def explain_lines(name: str, made: ExplainFacts) -> list[str]:
    """A few lines for the terminal."""
    return [name, *(f"  {line}" for line in explain_sentences(made))]


def explain_sentences(made: ExplainFacts) -> list[str]:
    """What may make the classes weak: mistakes, what goes with accuracy, who falls, homing and overfitting."""
    condition = made["condition"]
    said = confusion_sentences(made)
    for name, r in made["predicts"].items():
        if r["rho"] is not None:
            rho, low, high = (format_signed(r[part]) for part in ("rho", "low", "high"))
            said.append(f"Classes by {name} and by accuracy under {condition}: rank correlation {rho} [{low}, {high}].")
    if top := made["drop_top"]:
        fall = f"the fall from {made['clean']} to {condition}"
        share = f"{percent(top['value'])} % {span(top['low'], top['high'])}"
        said.append(f"{' and '.join(top['classes'])} carry {share} of {fall}.")
    if made["homing"] is not None and made["homing"]["share"] is not None:
        said.append(homing_sentence(made["homing"]))
    if made["overfitting"] is not None:
        said += overfitting_sentences(made["overfitting"], made["classes"])
    return said


def confusion_sentences(made: ExplainFacts) -> list[str]:
    """Where mistakes end, whether they are mutual, and whether they stay inside superclasses."""
    said = [] if made["attractor"] is None else [attractor_sentence(made)]
    mutual = made["symmetry"]
    if mutual["score"] is not None:
        score, meaning = format_signed(mutual["score"]), "1 if i is taken for j as often as j for i"
        if mutual["p"] is None:
            said.append(f"The symmetry of confusions is {score}, {meaning}; with so many classes it was not tested.")
        else:
            word = "is" if mutual["p"] <= 0.05 else "was not shown to be"
            said.append(f"Confusion {word} mutual: its symmetry is {score} (p = {mutual['p']:.2g}), {meaning}.")
    inside, communities = made["inside"], made["communities"]
    if inside is not None and inside["share"] is not None:
        share, chance = percent(inside["share"]), percent(inside["expected"])
        said.append(f"{share} % of the mistakes stay inside a superclass; {chance} % would by chance.")
    if communities is not None and communities["agreement"] is not None:
        agreement = format_signed(communities["agreement"])
        said.append(
            f"Classes that are confused with each other agree with the superclasses by {agreement} (adjusted Rand "
            "index: 1 the same, 0 as by chance)."
        )
        if len(made["classes"]) <= LARGEST:
            parts = "; ".join(", ".join(part) for part in communities["found"] if len(part) > 1)
            said.append(f"They are: {parts}." if parts else "No two classes belong together more than others.")
    return said


def overfitting_sentences(over: ExplainFacts, names: Sequence[str]) -> list[str]:
    """Which class lost most after the best epoch; nothing if no class has two epochs to compare."""
    lost = with_nans(over["lost"])
    if np.isnan(lost).all():
        return []
    worst = int(np.nanargmax(lost))
    kind = "Robust overfitting" if over["kind"] == "robust" else "Overfitting without attack"
    return [
        f"{kind} ({over['images']} images): from epoch {over['best_epoch']} to the last, {names[worst]} lost most, "
        f"{percent(float(lost[worst]))} points; the mean class lost {percent(float(np.nanmean(lost)))}."
    ]


def attractor_sentence(made: ExplainFacts) -> str:
    """Where most mistakes end, and who shares that place."""
    share = max(v for v in made["in_flow"] if v is not None)
    first = [name for name, v in zip(made["classes"], made["in_flow"], strict=True) if v == share]
    if len(first) == 1:
        return f"More mistakes under {made['condition']} end in {first[0]} than in any other class: {percent(share)} %."
    some = f"{', '.join(first[:-1])} and {first[-1]}" if len(first) <= 3 else f"each of {len(first)} classes"
    return f"Mistakes under {made['condition']} end most often in {some}: {percent(share)} % in each."


def homing_sentence(homing: ExplainFacts) -> str:
    """How many misclassified images come right when the class they are taken for was never trained on."""
    gain = homing["gain"]
    more = ""
    if gain["value"] is not None:
        span = f"[{100 * gain['low']:+.1f}, {100 * gain['high']:+.1f}]"
        more = f", {100 * gain['value']:+.1f} points {span} more than without another class".replace("-", "−")
    home = percent(homing["share"])
    return f"Of the misclassified images {home} % come home when the class they are taken for is removed{more}."


def format_signed(value: float) -> str:
    """Two digits with a true minus sign."""
    return f"{value:.2f}".replace("-", "−")
