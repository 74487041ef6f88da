"""From evidence to what people and programs read."""

from leastwise.report.live import progress, steps, transfer
from leastwise.report.summary import summary
from leastwise.report.table import compared, headline, print_classes, say, what_changed

__all__ = ["compared", "headline", "print_classes", "progress", "say", "steps", "summary", "transfer", "what_changed"]
