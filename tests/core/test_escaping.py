"""Text of strangers in five places: what the reader of each place sees is the text, and nothing of it is obeyed."""

import csv
import html
import io
import re
import unicodedata
from html.parser import HTMLParser

import markdown
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.table import Table
from rich.text import Text

from leastwise.core.text import (
    Screen,
    csv_text,
    escape_csv,
    escape_html,
    escape_latex,
    escape_markdown,
    escape_unprintable,
    say,
)
from leastwise.report.html import show_in_html

# Letters of any kind, and words that mean something to one of the readers.
WORDS = (
    *(
        "\x1b[2J",
        "\x1b]8;;http://e.org\x07",
        "\x9b31m",
        "\r",
        "\n",
        "\t",
        "\x00",
        "\x7f",
        "\x85",
        "\u202e",
        "\u2028",
        "\ufeff",
    ),
    *("\udc80", "\U000e0041", "[red]", "[link=x]", "[/]", "![x](http://e.org/a.png)", "[a](javascript:alert(1))"),
    *("<script>", "<img src=x onerror=alert(1)>", "</td>", "&lt;", "&#91;", "https://e.org", "www.e.org", "a@b.org"),
    *("javascript:", "`", "``", "*", "**", "_", "~~", "|", "\\", "\\|", "$x$", "$$", "[^1]", "[[", "]]", "- ", "# "),
    *(
        "=1+1",
        "＝1+1",
        ";=cmd|'/C calc'!A0",
        "+1",
        "-1",
        "@SUM(1)",
        "﹢1",
        "\t=1",
        '"=1',
        "'=1",
        ",=1",
        " =1",
        "\u3000=1",
    ),
    *(
        "\\input{x}",
        "\\end{tabular}",
        "^^5c",
        "%",
        "#1",
        "{",
        "}",
        "~",
        "cat",
        "T-shirt/top",
        "é",
        "猫",
        "👩‍🚀",
        "7.5",
        " ",
    ),
)
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=6).map("".join)
MANY = settings(max_examples=200, deadline=None, derandomize=True)


def commands(text: str) -> list[str]:
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in "\u202e\u2066\u200b\ufeff"]


def test_a_terminal_shows_what_it_must_not_obey() -> None:
    assert escape_unprintable("a\x1b[31m\n\u202eb\udc80é") == "a\\x1b[31m\\n\\u202eb\\udc80é"
    assert escape_unprintable("T-shirt/top 猫 👩‍🚀 אב") == "T-shirt/top 猫 👩‍🚀 אב"


@MANY
@given(TEXTS)
def test_no_command_reaches_the_screen(text: str) -> None:
    """Through sentences, tables and styled text, on a terminal; rich's own colours are taken away first."""
    shown = io.StringIO()
    screen = Screen(file=shown, force_terminal=True, color_system="truecolor", width=400, legacy_windows=False)
    table = Table(text.replace("[", "\\["))
    table.add_column(Text(text))
    table.add_row(Text(text, style="bold red"), Text(text))
    say(screen, f"\nmodel {text}", style="yellow")
    screen.print(table)
    screen.print(Text(text))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue())
    assert commands(plain.replace("\n", "")) == []


@MANY
@given(TEXTS)
def test_a_sentence_is_one_line(text: str) -> None:
    shown = io.StringIO()
    say(Screen(file=shown, width=400), f"note: {text}")
    assert shown.getvalue().count("\n") == 1 and escape_unprintable(text).rstrip() in shown.getvalue()


def words_of(rendered: str) -> str:
    """The visible text of a cell that a Markdown reader made, without the space of no width that breaks links."""
    return html.unescape(re.sub(r"<[^>]*>", "", rendered)).replace("\u200b", "")


def squeeze(text: str) -> str:
    return " ".join(text.split())


@MANY
@given(TEXTS)
def test_markdown_readers_show_the_text_and_no_markup(text: str) -> None:
    table = f"| {escape_markdown(text)} | x |\n| --- | --- |\n| {escape_markdown(text)} | y |\n"
    readers = (
        MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render,
        lambda source: markdown.markdown(source, extensions=["tables"]),
    )
    for read in readers:
        page = read(table)
        allowed = {"table", "thead", "tbody", "tr", "th", "td"}
        assert {tag.lower() for tag in re.findall(r"<\s*/?\s*([a-zA-Z]+)", page)} <= allowed, page
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", page, re.S)
        assert [squeeze(words_of(cell)) for cell in cells] == [squeeze(escape_unprintable(text)), "x"] * 1 + [
            squeeze(escape_unprintable(text)),
            "y",
        ], page
        # What readers link without any markup: addresses, and people.
        bare = html.unescape(re.sub(r"<[^>]*>", "", page))
        assert not re.search(r"://|www\.\w|@\w|\w\.[^\W\d_]", bare), page


SPLITTERS = (",", ";", "\t", "|")


@MANY
@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_no_spreadsheet_finds_a_formula(cells: list[str]) -> None:
    """Read by our separator and by others, with and without regard to quotes; only apostrophes are added."""
    written = csv_text([cells])
    (row,) = list(csv.reader(io.StringIO(written)))
    assert [cell.replace("'", "") for cell in row] == [escape_unprintable(cell).replace("'", "") for cell in cells]
    found = [cell for sign in SPLITTERS for line in csv.reader(io.StringIO(written), delimiter=sign) for cell in line]
    found += [cell for sign in SPLITTERS for cell in written.rstrip("\n").split(sign)]
    for cell in found:
        bare = unicodedata.normalize("NFKC", cell).strip().strip('"').strip()
        first = re.split("[,;|]", bare)[0].strip('" ')  # a row that begins with a number, read by another separator
        assert not bare.startswith(tuple("=+-@\t\r")) or is_number(first), (cell, written)


def is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text) is not None


@pytest.mark.parametrize("cell", ["-3", "0.5", "1e-07", "+2"])
def test_numbers_stay_numbers(cell: str) -> None:
    assert escape_csv(cell) == cell


def test_formulas_behind_other_separators_are_disarmed() -> None:
    assert escape_csv("a;=1+1") == "a;'=1+1" and escape_csv("＝1+1") == "'＝1+1"
    assert escape_csv('a|"@SUM(1)') == "a|\"'@SUM(1)" and escape_csv("\t=1") == "\\t=1"
    assert escape_csv(" =1") == " '=1" and escape_csv("T-shirt = top") == "T-shirt = top"


@MANY
@given(TEXTS)
def test_latex_has_no_command_of_theirs(text: str) -> None:
    made = escape_latex(text)
    for known in (r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}", r"\textless{}", r"\textgreater{}",
                  r"\textbar{}", r"\textquotedbl{}", r"\&", r"\%", r"\$", r"\#", r"\_", r"\{", r"\}"):  # fmt: skip
        made = made.replace(known, "")
    assert not set(made.removeprefix("{}")) & set("\\&%$#_{}~^") and commands(made) == []
    assert not escape_latex(text).startswith(("[", "*"))


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words = ""
        self.title: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.title = dict(attrs).get("title")

    def handle_data(self, data: str) -> None:
        self.words += data


@MANY
@given(TEXTS)
def test_html_has_no_tag_of_theirs(text: str) -> None:
    page = Page()
    page.feed(f'<p title="{escape_html(text)}">{escape_html(text)}</p>')
    page.close()
    shown = "\n".join(map(escape_unprintable, text.split("\n")))
    assert page.tags == ["p"] and page.words == shown == page.title
    assert str(show_in_html(text)) == escape_html(text) and commands(escape_html(text).replace("\n", "")) == []
