"""The language of gates: `worst(pgd20) >= 0.25`, `accuracy(cat, pgd20) >= 20%`. Parsed, never run as code.

    term      = measure "(" argument { "," argument } ")" comparison number
    measure   = "worst" | "overall" | "macro" | "gap" | "cv" (condition) | "accuracy" (class, condition)
              | "drop" (condition, base)
    number    = fraction, or percent with "%"; cv is in fractions squared (200 percent² are 0.02)

An argument with a comma, a bracket or spaces at its ends stands in single or double quotes.
"""

import re
from dataclasses import dataclass

ARGUMENTS = {
    "worst": ("condition",),
    "overall": ("condition",),
    "macro": ("condition",),
    "gap": ("condition",),
    "cv": ("condition",),
    "accuracy": ("class", "condition"),
    "drop": ("condition", "base"),
}
# What a measure can be, as a fraction; the variance of numbers between 0 and 1 is at most 1/4.
RANGES = {"drop": (-1.0, 1.0), "cv": (0.0, 0.25)}
RANGE_EXAMPLES = {"cv": "0.02 for 200 percent²", "drop": "0.03 or 3%"}
COMPARISONS = (">=", "<=", ">", "<")
EXAMPLE = "worst(pgd20) >= 0.25"

OPENING = re.compile(r"\s*(\w+)\s*\(")
QUOTED = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)')\s*(?=[,)])""")
BARE = re.compile(r"""\s*([^,()"']+?)\s*(?=[,)])""")
LIMIT = re.compile(r"\s*(>=|<=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(%?)\s*")


@dataclass(frozen=True)
class GateTerm:
    """One demand. `name` is the class of an accuracy and the base of a drop, else empty."""

    text: str
    measure: str
    condition: str
    name: str
    comparison: str
    threshold: float


def parse_term(text: str) -> GateTerm:
    """A term, or a ValueError that says where it stopped making sense."""
    opening = OPENING.match(text)
    if not opening:
        raise ValueError(f"the gate {text!r} does not begin with a measure and a bracket: write it like {EXAMPLE!r}")
    measure = opening[1]
    if measure not in ARGUMENTS:
        raise ValueError(f"the gate {text!r} asks for {measure!r}, which is unknown: use one of {', '.join(ARGUMENTS)}")
    arguments, at = parse_arguments(text, opening.end())
    wanted = ARGUMENTS[measure]
    if len(arguments) != len(wanted):
        raise ValueError(
            f"the gate {text!r} gives {measure} {len(arguments)} arguments, not {len(wanted)}: "
            f"write {measure}({', '.join(wanted)})"
        )
    limit = LIMIT.fullmatch(text, at)
    if not limit:
        raise ValueError(
            f"the gate {text!r} has {text[at:].strip()!r} after its bracket where a comparison belongs: "
            f"end it with one of {' '.join(COMPARISONS)} and a number"
        )
    given = dict(zip(wanted, arguments, strict=True))
    threshold = float(limit[2]) / (100 if limit[3] else 1)
    least, most = RANGES.get(measure, (0.0, 1.0))
    if not least <= threshold <= most:
        raise ValueError(
            f"the gate {text!r} has the limit {threshold:g}, which {measure} never crosses: write a number from "
            f"{least:g} to {most:g}, such as {RANGE_EXAMPLES.get(measure, '0.25 or 25%')}"
        )
    name = given.get("class", given.get("base", ""))
    return GateTerm(text.strip(), measure, given["condition"], name, limit[1], threshold)


def parse_arguments(text: str, at: int) -> tuple[list[str], int]:
    """The arguments that begin at `at`, and the place behind the closing bracket."""
    found: list[str] = []
    while True:
        match = QUOTED.match(text, at) or BARE.match(text, at)
        if not match:
            raise ValueError(
                f"the gate {text!r} has no readable argument at {text[at : at + 20].strip()!r}: close the bracket, "
                f"and put names with commas or brackets in quotes"
            )
        found.append(next(group for group in match.groups() if group is not None))
        at = match.end() + 1
        if text[match.end()] == ")":
            return found, at
