"""Text for people: the screen that verbs write to, plain sentences on it, and numbers in them."""

from rich.console import Console
from rich.text import Text


class Screen(Console):
    """A console that lets the front door answer when the reader of our output goes away."""

    def on_broken_pipe(self) -> None:
        """Let the front door answer, where rich would exit by itself."""
        raise BrokenPipeError


def say(console: Console, text: str, style: str = "") -> None:
    """Write text as it is: no markup, no colours guessed, lines broken by the terminal only."""
    console.print(Text(text, style=style), soft_wrap=True)


def percent(value: float) -> str:
    """A fraction in percent with one digit, without the sign: headers and sentences say it."""
    return f"{100 * value:.1f}"


def span(low: float, high: float) -> str:
    """An interval in percent."""
    return f"[{percent(low)}, {percent(high)}]"
