"""`leastwise report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from leastwise.report.terminal.screen import Screen, say


@dataclass(frozen=True)
class Report:
    """Make one self-contained HTML page of one or more audits, or export one as a table.

    The ending of --out decides: .html is the page; .csv and .parquet hold one row per image and condition; .md and
    .tex the table of classes.
    """

    results: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="DIR")]
    """folders that `leastwise audit` wrote; the first is what the others are compared with"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE", aliases=["-o"])] = Path("report.html")
    """where the page or table goes"""
    names: Annotated[str, tyro.conf.arg(metavar="A,B,…")] = ""
    """what to call the models; as they were typed, or as their folders, unless given"""
    title: str = "Class-wise robustness audit"
    """title of the page"""

    def run(self) -> None:
        from leastwise.core.files import write_atomic
        from leastwise.report.export import table_latex, table_markdown, write_csv, write_parquet
        from leastwise.report.page.page import make_page
        from leastwise.report.results import open_results
        from leastwise.report.terminal.table import headline

        if not self.results:
            raise ValueError("a report needs at least one folder that `leastwise audit` wrote: give its name")
        names = [name.strip() for name in self.names.split(",")] if self.names else []
        models = open_results(self.results, names)
        kind = self.out.suffix.lower()
        tables = {".md": table_markdown, ".tex": table_latex}
        exports = {".csv": write_csv, ".parquet": write_parquet}
        if kind in (".html", ".htm"):
            write_atomic(self.out, make_page(models, self.title).encode())
        elif kind not in tables | exports:
            raise ValueError(f"--out must end in .html, .csv, .parquet, .md or .tex, but saw {self.out}")
        elif len(models) > 1:
            raise ValueError(f"a {kind} file holds one audit, but saw {len(models)}: give them one by one")
        elif kind in exports:
            exports[kind](models[0].evidence, self.out)
        else:
            write_atomic(self.out, tables[kind](models[0].evidence).encode())
        console = Screen()
        for model in models:
            say(console, f"{model.name}: {headline(model.evidence)}")
        say(console, f"Report: {self.out} ({self.out.stat().st_size / 1e3:,.0f} kB)")
