"""Counts over all fault tests: what was done to runs, models and files, and what was lost or wrong by it."""

from collections import Counter

import pytest

COUNTS = {
    "faults": "faults injected",
    "lost": "shards lost",
    "twice": "shards counted twice",
    "identical": "results identical to the undisturbed run",
    "different": "results that differ",
    "edited": "edits to a model between two runs, or between kill and resume, all noticed",
    "wrong_models": "wrong models audited",
    "refused": "of these refused",
    "warned": "of these warned of by name",
    "right": "of these right all the same",
    "silently_wrong": "of these silently wrong",
    "sound_models": "sound but unusual models audited",
    "alarms": "of these with a false alarm",
    "mutants": "files given to readers",
}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    total: Counter[str] = Counter()
    for report in (*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])):
        for name, value in report.user_properties:
            if name in COUNTS and report.when == "call":
                total[name] += value
    if total:
        terminalreporter.section("faults")
        for name, text in COUNTS.items():
            terminalreporter.write_line(f"{text}: {total[name]}")
