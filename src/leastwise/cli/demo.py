"""`leastwise demo`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from leastwise.core.text import Screen


@dataclass(frozen=True)
class Demo:
    """Train a standard, a PGD-AT and a fairer network on the embedded data, audit them, and say what changed.

    Work that is finished under --out is used again; --fresh does it anew.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results/demo")
    """where evidence and summaries go"""
    seed: int = 0
    """another seed gives other networks"""
    fresh: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """forget what an earlier demo left in --out"""
    device: str = "auto"
    """cpu, cuda, xpu, …; auto: the accelerator that torch finds, if there is one"""
    threads: int = 0
    """processor threads; 0 leaves the choice to torch"""

    def run(self) -> None:
        from leastwise.cli.demo_story import demo
        from leastwise.models.preflight import choose_device

        demo(Screen(), self.out, self.seed, device=choose_device(self.device, self.threads), fresh=self.fresh)
