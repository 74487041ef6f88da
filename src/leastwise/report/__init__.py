"""From evidence to what people and programs read."""

from leastwise.report.compare import comparison, print_comparison, sides, strongest
from leastwise.report.costs import read_costs
from leastwise.report.explaining import explain_page, explain_text, sheet
from leastwise.report.export import table_csv, table_latex, table_markdown, write_csv, write_parquet
from leastwise.report.fairness import fairness, game_line
from leastwise.report.findings import finding, remarks, told
from leastwise.report.live import progress, steps, transfer
from leastwise.report.page import Audited, page
from leastwise.report.racing import race_sentence, racing
from leastwise.report.reasons import FILE as EXPLAIN
from leastwise.report.reasons import across, beside, carried, homed, overfitted, reasons, usual
from leastwise.report.results import facts, measured, opened, opened_all, told_apart
from leastwise.report.summary import summary
from leastwise.report.table import compared, headline, pick, print_classes, say, what_changed

__all__ = [
    "EXPLAIN",
    "Audited",
    "across",
    "beside",
    "carried",
    "compared",
    "comparison",
    "explain_page",
    "explain_text",
    "facts",
    "fairness",
    "finding",
    "game_line",
    "headline",
    "homed",
    "measured",
    "opened",
    "opened_all",
    "overfitted",
    "page",
    "pick",
    "print_classes",
    "print_comparison",
    "progress",
    "race_sentence",
    "racing",
    "read_costs",
    "reasons",
    "remarks",
    "say",
    "sheet",
    "sides",
    "steps",
    "strongest",
    "summary",
    "table_csv",
    "table_latex",
    "table_markdown",
    "told",
    "told_apart",
    "transfer",
    "usual",
    "what_changed",
    "write_csv",
    "write_parquet",
]
