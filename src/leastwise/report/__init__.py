"""From evidence to what people and programs read."""

from leastwise.report.compare import comparison, print_comparison, sides, strongest
from leastwise.report.costs import read_costs
from leastwise.report.export import table_csv, table_latex, table_markdown, write_csv, write_parquet
from leastwise.report.fairness import fairness, game_line
from leastwise.report.findings import finding, remarks, told
from leastwise.report.live import progress, steps, transfer
from leastwise.report.page import Audited, page
from leastwise.report.racing import race_sentence, racing
from leastwise.report.results import facts, measured, opened, opened_all
from leastwise.report.summary import summary
from leastwise.report.table import compared, headline, pick, print_classes, say, what_changed

__all__ = [
    "Audited",
    "compared",
    "comparison",
    "facts",
    "fairness",
    "finding",
    "game_line",
    "headline",
    "measured",
    "opened",
    "opened_all",
    "page",
    "pick",
    "print_classes",
    "print_comparison",
    "progress",
    "race_sentence",
    "racing",
    "read_costs",
    "remarks",
    "say",
    "sides",
    "steps",
    "strongest",
    "summary",
    "table_csv",
    "table_latex",
    "table_markdown",
    "told",
    "transfer",
    "what_changed",
    "write_csv",
    "write_parquet",
]
