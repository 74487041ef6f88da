"""Text from people and for people: numbers as they write them, what they may have meant, an error in one line."""

import csv
import difflib
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

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


# Characters that turn the direction of the text around them, or that nobody sees: names that look alike would differ.
# Joiners (U+200C, U+200D) stay, for scripts and emoji need them.
UNSEEN = frozenset(
    map(
        chr,
        (
            *(0x061C, 0x180E, 0x200B, 0x200E, 0x200F, 0xFEFF),
            *range(0x202A, 0x202F),
            *range(0x2060, 0x2070),
            *range(0xFFF9, 0xFFFC),
            *range(0xE0000, 0xE0080),
        ),
    )
)
LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}
# Backslashes where every reader of Markdown knows them, entities for the rest.
MARKDOWN = {letter: f"\\{letter}" for letter in "\\`*_|"} | {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "[": "&#91;",
    "]": "&#93;",
    "~": "&#126;",
    "$": "&#36;",
}
# Where readers make a link, or call somebody, out of plain text: a space of no width stands between.
LINKED = re.compile(r"(?<=@)(?=\S)|(?<=:)(?=//)|(?<=\.)(?=[^\W\d_])")
NO_WIDTH = "&#8203;"
FORMULA = "=+-@"  # what a spreadsheet would run when it opens a CSV file
SEPARATORS = ",;|"  # spreadsheets of some countries divide by another one than ours
HTML = {"&": "&amp;", ">": "&gt;", "<": "&lt;", "'": "&#39;", '"': "&#34;"}


def escape_unprintable(text: str) -> str:
    """The text as a terminal can show it, in one line.

    A file name that is not UTF-8 holds halves of characters, which can be neither printed nor hashed. What commands the
    terminal, breaks the line or turns the direction of the text is shown, not obeyed.
    """
    if text.isascii() and text.isprintable():
        return text
    whole = text.encode("utf-8", "backslashreplace").decode()
    return "".join(c.encode("unicode_escape").decode() if is_command(c) else c for c in whole)


def is_command(character: str) -> bool:
    """Whether a character does something to the text around it rather than being seen."""
    return unicodedata.category(character) in ("Cc", "Zl", "Zp") or character in UNSEEN


def escape_lines(text: str) -> str:
    """The same of several lines, which stay lines."""
    return "\n".join(map(escape_unprintable, text.split("\n")))


def escape_latex(text: str) -> str:
    """Text that LaTeX sets as it is."""
    escaped = "".join(LATEX.get(letter, letter) for letter in escape_unprintable(text))
    # At the start of a row, these would be read as an argument of the line break before it.
    return f"{{}}{escaped}" if escaped.startswith(("[", "*")) else escaped


def escape_markdown(text: str) -> str:
    """Text that no Markdown reader takes for markup, for a link, or for another cell."""
    parts = LINKED.split(escape_unprintable(text))
    return NO_WIDTH.join("".join(MARKDOWN.get(letter, letter) for letter in part) for part in parts)


def escape_csv(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula, whichever separator it divides by; numbers stay as they are.

    An apostrophe goes before what begins like a formula at the start of the cell or behind a separator. Full-width and
    other forms of the signs count, because some spreadsheets take them for the plain ones.
    """
    if is_number(cell):
        return cell
    made, begins = [], True
    for letter in escape_unprintable(cell):
        if begins and any(sign in FORMULA for sign in unicodedata.normalize("NFKC", letter)):
            made.append("'")
        made.append(letter)
        begins = letter in SEPARATORS or (begins and (letter.isspace() or letter in "\"'"))
    return "".join(made)


def csv_text(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a CSV file that no spreadsheet takes for formulas."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([[escape_csv(cell) for cell in row] for row in rows])
    return out.getvalue()


def is_number(cell: str) -> bool:
    """Whether a cell is a number as programs write them."""
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and cell == cell.strip()


def escape_html(text: str) -> str:
    """Text inside an element or an attribute of a page; several lines stay lines."""
    return "".join(HTML.get(letter, letter) for letter in escape_lines(text))


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


def points(value: float) -> str:
    """A change in percentage points with its sign and one digit."""
    return f"{100 * value:+.1f}"


def span(low: float, high: float) -> str:
    """An interval in percent."""
    return f"[{percent(low)}, {percent(high)}]"
