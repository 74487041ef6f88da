"""From evidence to what people and programs read."""

from leastwise.report.live import progress
from leastwise.report.summary import FILE, summary
from leastwise.report.table import class_table, compared, headline, what_changed

__all__ = ["FILE", "class_table", "compared", "headline", "progress", "summary", "what_changed"]
