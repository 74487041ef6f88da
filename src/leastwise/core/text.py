"""Text from people and for people: numbers as they write them, what they may have meant, an error in one line."""

import difflib
import re
from collections.abc import Iterable, Sequence

from leastwise.core.escaping import escape_unprintable

LIKELY = 0.6  # likeness from which a name is offered for a misspelt one: difflib's own default


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """The end of a refusal: the choice that the word is nearest to, or else all of them."""
    known = list(choices)
    near = nearest_name(word, known)
    return f"did you mean {near}?" if near else f"choose {', '.join(known)}"


def nearest_name(word: str, choices: Iterable[str], likeness: float = LIKELY) -> str | None:
    """The choice most like the word, if any is as like it as `likeness`; 0 always finds one."""
    near = difflib.get_close_matches(word, list(choices), n=1, cutoff=likeness)
    return near[0] if near else None


def name_some(names: Sequence[str], most: int = 3) -> str:
    """The first few names, as a terminal can show them, and a sign that there are more."""
    return ", ".join(map(escape_unprintable, names[:most])) + (" …" if len(names) > most else "")


def one_line(text: object) -> str:
    """The text, or what an error says, with every run of spaces and line breaks as one space."""
    return " ".join(str(text).split())


def first_line(error: BaseException) -> str:
    """The first line of what an error says, which in many libraries is its message; its type if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def error_with_type(error: BaseException) -> str:
    """The type of an error and the first line of what it says: for errors of others, whose words alone say little."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600}


def parse_number(text: str, name: str) -> float:
    """`0.1`, `8/255`."""
    above, slash, below = text.partition("/")
    try:
        return float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{name} must be a number such as 0.1 or 8/255, but saw {text!r}") from None


def parse_numbers(text: str, name: str) -> tuple[float, ...]:
    """`0.49,0.48,0.45`; nothing for an empty text."""
    return tuple(parse_number(part, name) for part in text.split(",")) if text else ()


def parse_seconds(text: str, name: str = "the time budget") -> float | None:
    """`90s`, `20m`, `1.5h`; None for an empty text."""
    if not text:
        return None
    found = re.fullmatch(r"(\d+|\d*\.\d+)\s*(s|m|min|h)", text.strip())
    if found is None or float(found[1]) == 0:
        raise ValueError(f"{name} must be like 90s, 20m or 1.5h, but saw {text!r}")
    return float(found[1]) * UNITS[found[2]]


def parse_share(text: str, what: str = "a share") -> float:
    """`0.03` or `3%` as a fraction."""
    text = text.strip()
    return parse_number(text.removesuffix("%"), what) / (100 if text.endswith("%") else 1)
