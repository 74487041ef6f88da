"""Counts over all fault tests: what was done to the runs, and what they lost by it."""

from collections import Counter

import pytest

COUNTS = {
    "faults": "faults injected",
    "lost": "shards lost",
    "twice": "shards counted twice",
    "identical": "results identical to the undisturbed run",
    "different": "results that differ",
}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    total: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name in COUNTS and report.when == "call":
                total[name] += value
    if total:
        terminalreporter.section("faults")
        for name, text in COUNTS.items():
            terminalreporter.write_line(f"{text}: {total[name]}")
