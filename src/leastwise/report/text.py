"""Numbers as people read them: fractions go in, percent comes out."""


def percent(value: float) -> str:
    """A fraction in percent with one digit, without the sign: headers and sentences say it."""
    return f"{100 * value:.1f}"


def span(low: float, high: float) -> str:
    """An interval in percent."""
    return f"[{percent(low)}, {percent(high)}]"
