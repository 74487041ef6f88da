"""From evidence to what people and programs read."""

from leastwise.report.live import progress
from leastwise.report.summary import FILE, summary
from leastwise.report.table import compared, headline, print_classes, say, what_changed

__all__ = ["FILE", "compared", "headline", "print_classes", "progress", "say", "summary", "what_changed"]
