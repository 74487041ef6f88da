"""Text from strangers where it meets a terminal, LaTeX, Markdown, CSV or HTML: shown there, never obeyed.

Class names, file names, notes in checkpoints and names of conditions are written by whoever made a file. Each of the
five readers obeys something else, so each has its own function here, and every one of them begins by making characters
that command visible. Nothing else in the package escapes.
"""

import re
import unicodedata

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
