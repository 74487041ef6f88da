"""Text for people: the screen that verbs write to, plain sentences on it, and numbers in them."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from leastwise.core.escaping import escape_lines, escape_unprintable


class Screen(Console):
    """A console that shows what strangers wrote without obeying it, whatever it is asked to print.

    It lets the front door answer when the reader of our output goes away.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What rich would write; control characters in text are shown, and only rich's own commands command."""
        for segment in super().render(renderable, options):
            clean = segment.control or segment.text.isprintable()
            yield segment if clean else segment._replace(text=escape_lines(segment.text))

    def on_broken_pipe(self) -> None:
        """Let the front door answer, where rich would exit by itself."""
        raise BrokenPipeError


def say(console: Console, text: str, style: str = "") -> None:
    """Write text as it is: no markup, no colours guessed, lines broken by the terminal only.

    An empty line may come first. Line breaks inside come from names and notes of others, who could write lines in our
    name with them.
    """
    words = text.lstrip("\n")
    before = text[: len(text) - len(words)]
    console.print(Text(before + escape_unprintable(words), style=style), soft_wrap=True)


def percent(value: float) -> str:
    """A fraction in percent with one digit, without the sign: headers and sentences say it."""
    return f"{100 * value:.1f}"


def span(low: float, high: float) -> str:
    """An interval in percent."""
    return f"[{percent(low)}, {percent(high)}]"
