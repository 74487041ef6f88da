"""An audit in two phases, class by class, in the terminal."""

from collections.abc import Mapping
from typing import Any

from leastwise.core.text import percent, span


def phases_lines(told: Mapping[str, Any]) -> tuple[str, ...]:
    """The accuracies of this test set that both phases let expect, their intervals, and what they cost."""
    share = f"{100 * told['passes']['of_a_full_audit']:.0f} %"
    sure = f"{100 * told['confidence']:g} %"
    head = (
        f"{told['condition']} in two phases, {sum(told['drawn']):,} of {sum(told['survivors']):,} survivors tried, "
        f"about {share} of the passes of a full audit; intervals for all classes of this test set together, at {sure}:"
    )
    width = max(len(name) for name in told["classes"])
    rows = [
        f"  {name:{width}}  {percent(accuracy):>5} {span(low, high)}"
        for name, accuracy, low, high in zip(
            *(told[part] for part in ("classes", "accuracy", "low", "high")), strict=True
        )
        if accuracy is not None
    ]
    return (head, *rows)
