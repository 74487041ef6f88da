"""Numbers as people write them on a command line and in names."""

import re

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
