"""`leastwise report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from leastwise.core.text import Screen, say


@dataclass(frozen=True)
class Report:
    """Make one self-contained HTML page of one or more audits, or export one as a table.

    The ending of --out decides: .html is the page; .pdf, .svg and .png are one picture for a paper; .csv and .parquet
    hold one row per image and condition; .md and .tex the table of classes.
    """

    results: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="DIR")]
    """folders that `leastwise audit` wrote; the first is what the others are compared with"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE", aliases=["-o"])] = Path("report.html")
    """where the page, picture or table goes"""
    names: Annotated[str, tyro.conf.arg(metavar="A,B,…")] = ""
    """what to call the models; as they were typed, or as their folders, unless given"""
    title: str = "Class-wise robustness audit"
    """title of the page"""

    def run(self) -> None:
        from leastwise.report.page.page import write_report
        from leastwise.report.results import open_results
        from leastwise.report.terminal.view import headline

        if not self.results:
            raise ValueError("a report needs at least one folder that `leastwise audit` wrote: give its name")
        names = [name.strip() for name in self.names.split(",")] if self.names else []
        models = open_results(self.results, names)
        write_report(models, self.out, self.title)
        console = Screen()
        for model in models:
            say(console, f"{model.name}: {headline(model.evidence)}")
        say(console, f"Report: {self.out} ({self.out.stat().st_size / 1e3:,.0f} kB)")
