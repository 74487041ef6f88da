"""`leastwise compare`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from leastwise.cli.options import refuse_to_replace
from leastwise.core.text import Screen, say


@dataclass(frozen=True)
class Compare:
    """Compare models class by class on the same images, with paired tests.

    Several trainings of one method are separated by commas: `leastwise compare A1,A2,A3 B1,B2,B3` tells the spread
    over trainings from the noise of the test images.
    """

    results: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="DIR[,DIR…]")]
    """folders that `leastwise audit` wrote; the first is what the others are compared with"""
    condition: str = ""
    """compare under this condition; the strongest that all results share, unless given"""
    names: Annotated[str, tyro.conf.arg(metavar="A,B,…")] = ""
    """what to call them; as they were typed, or as their folders, unless given"""
    margin: Annotated[str, tyro.conf.arg(metavar="POINTS")] = ""
    """say which classes are shown to have lost less than this, such as 3%"""
    out: Annotated[str, tyro.conf.arg(metavar="FILE", aliases=["-o"])] = ""
    """a .json file for everything that is shown"""

    def run(self) -> None:
        from leastwise.core.files import write_json
        from leastwise.core.text import parse_share
        from leastwise.report.compare import choose_condition, compare_sides
        from leastwise.report.sides import open_sides
        from leastwise.report.terminal.comparison import print_comparison

        if self.out and Path(self.out).suffix != ".json":
            raise ValueError(f"--out must end in .json, but saw {self.out}: `leastwise report A B` makes a page")
        if self.out:
            refuse_to_replace(Path(self.out), "changes", "a comparison")
        names = [name.strip() for name in self.names.split(",")] if self.names else []
        found = open_sides(self.results, names)
        margin = parse_share(self.margin, "a margin") if self.margin else None
        if margin is not None and not 0 < margin < 1:
            raise ValueError(f"a margin lies between 0 and 100 %, and {self.margin} does not: 3 points are 3% or 0.03")
        made = compare_sides(found, choose_condition(found, self.condition), margin=margin)
        console = Screen()
        print_comparison(console, made)
        if self.out:
            write_json(Path(self.out), made)
            say(console, f"Comparison: {self.out}")
