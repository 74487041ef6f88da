"""`leastwise reproduce`."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from leastwise.cli.options import chosen_device, use_data_dir
from leastwise.cli.where import Where
from leastwise.report.terminal.screen import Screen

if TYPE_CHECKING:
    from rich.console import Console

    from leastwise.papers.estimate import Speed
    from leastwise.papers.recipes import Recipe
    from leastwise.papers.run import Runner

Scale = Literal["smoke", "lite", "full"]
SOME_FAILED = 1
LONG = 30.0  # seconds of a task from which its own progress is shown


@dataclass(frozen=True)
class Reproduce:
    """Make the tables and figures of a paper anew, beside the printed numbers.

    What is finished under --out is used again, and an interrupted run goes on when the same command is given again.
    """

    exhibits: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="PAPER[/EXHIBIT]")]
    """benz2021, tian2021, ahn, tradeoff2022, or an exhibit such as ahn/table1; `leastwise list papers` shows all"""
    where: tyro.conf.OmitArgPrefixes[Where] = Where()
    only: tuple[str, ...] = ()
    """only these rows of the exhibits, by the names that --plan shows; * stands for anything, as in "TRADES*\""""
    scale: Scale = "lite"
    """smoke: seconds, shows that everything runs; lite: real data on two cores; full: the paper's setting, for GPUs"""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    """where trainings, audits and pages go, and where finished ones are looked for"""
    plan: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """only show what would be done, what is there already, and about how long the rest takes"""
    draw: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """only write the pages, from what is there; other cells say that they were not run"""
    data_dir: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where known data sets lie; the variable LEASTWISE_DATA, or the cache, unless given"""
    device: str = "auto"
    """cpu, cuda, …"""
    threads: int = 0
    """processor threads of each process; 0 leaves the choice to torch, or is 1 with --engine dask"""

    def run(self) -> int:
        self.where.check()
        use_data_dir(self.data_dir)
        from leastwise.papers.registry import PAPERS, keep_roles, select_exhibits

        if not self.exhibits:
            raise ValueError(f"name a paper, {', '.join(PAPERS)}, or an exhibit: `leastwise list papers` shows all")
        exhibits = tuple({one.id: one for name in self.exhibits for one in select_exhibits(name)}.values())
        wanted = keep_roles(exhibits, self.only)
        threads = self.where.threads(self.threads)
        device = chosen_device(self.device, threads)
        from leastwise.core.files import check_writable
        from leastwise.papers.estimate import Speed
        from leastwise.papers.page import write_page
        from leastwise.papers.reproduce import drawings, execute, recipes_of, to_do
        from leastwise.papers.run import Runner
        from leastwise.papers.stored import Store
        from leastwise.report.terminal.screen import say

        console = Screen()
        store = Store(self.out, self.scale)
        runner = Runner(store, device, threads)
        recipes = tuple(dict.fromkeys(recipe for one in wanted for recipe in recipes_of(one, self.scale)))
        work = () if self.draw else to_do(recipes, store)
        speed = Speed(device)
        if not self.draw:
            if self.plan or work:
                show_tree(console, wanted, runner)
            show_work(console, recipes, work, runner, speed)
        if self.plan:
            return 0
        check_writable(store.root)
        failed: dict[Recipe, str] = {}
        if work:
            with self.where.hands() as hands:
                failed = execute(work, runner, Telling(console, work, runner, speed), hands)
        for drawn in drawings(exhibits, store, failed):
            folder = store.root / "pages" / drawn.paper.id
            written = write_page(drawn.paper, drawn.exhibits, self.scale, drawn.results, drawn.failed, folder)
            say(console, f"{drawn.paper.id} at scale {self.scale}: {written[0]}, and {len(written) - 1} tables")
        if failed:
            say(console, f"{len(failed)} of {len(work)} failed; cells say why, and the same command tries again")
        return SOME_FAILED if failed else 0


def show_tree(console: "Console", exhibits: Any, runner: "Runner") -> None:
    from leastwise.papers.outline import tree
    from leastwise.report.terminal.screen import say

    for text in tree(exhibits, runner.store):
        say(console, text)
    say(console, "")


def show_work(
    console: "Console", recipes: tuple["Recipe", ...], work: tuple["Recipe", ...], runner: "Runner", speed: "Speed"
) -> None:
    """What is there, what is left, and about how long that takes."""
    from leastwise import __version__
    from leastwise.papers.estimate import count_passes
    from leastwise.papers.outline import counted, missing, short
    from leastwise.papers.recipes import trainings
    from leastwise.papers.reproduce import older
    from leastwise.papers.scales import scale
    from leastwise.report.terminal.screen import say

    store = runner.store
    everything = tuple(dict.fromkeys((*trainings(recipes), *recipes)))
    say(console, f"scale      {store.scale}: {scale(store.scale).about}")
    say(console, f"in all     {counted(everything)}, each once for all exhibits")
    say(console, f"is there   {counted(one for one in everything if store.has(one))}, in {store.root}")
    for version, number in older(everything, store, __version__).items():
        say(console, f"           {number} of them made with leastwise {version}; this is {__version__}")
    if not work:
        say(console, "left       nothing")
        return
    say(console, f"left       {counted(work)}, {short(sum(map(count_passes, work)))} passes of single images")
    seconds = sum(map(speed.seconds, work))
    say(console, f"takes      about {duration(seconds)}, by a few steps of each network timed just now; attacks")
    say(console, "           may end much earlier than they are counted here")
    for sentence in missing(work, runner):
        say(console, f"warning    {sentence}", style="yellow")


class Telling:
    """Says what is being done and how long the rest takes, corrected by how the estimates did so far."""

    def __init__(self, console: "Console", work: tuple["Recipe", ...], runner: "Runner", speed: "Speed") -> None:
        self.console, self.store = console, runner.store
        self.expected = {recipe: speed.seconds(recipe) for recipe in work}
        self.number = {recipe: number for number, recipe in enumerate(work, 1)}
        self.begun, self.done, self.left = time.monotonic(), 0.0, set(work)

    def label(self, recipe: "Recipe") -> str:
        from leastwise.papers.reproduce import kind

        return f"{self.number[recipe]}/{len(self.number)} {kind(recipe)} {self.store.folder(recipe).name}"

    def during(self, recipe: "Recipe", names: Sequence[str]) -> AbstractContextManager[Any]:
        """Short tasks are told about when they are done."""
        from leastwise.papers.outline import about
        from leastwise.report.terminal.progress import progress
        from leastwise.report.terminal.screen import say

        if self.expected[recipe] < LONG:
            return nullcontext(lambda event: None)
        say(self.console, f"{self.label(recipe)}: {about(recipe)}")
        return progress(self.console, self.label(recipe), names)

    def after(self, recipe: "Recipe", seconds: float, failed: str) -> None:
        from leastwise.report.terminal.screen import say

        self.done += self.expected[recipe]
        left = (sum(self.expected.values()) - self.done) * (time.monotonic() - self.begun) / self.done
        said = f"failed: {failed}" if failed else f"{seconds:.1f} s"
        self.left.discard(recipe)
        rest = f"; about {duration(left)} left" if self.left else ""
        say(self.console, f"{self.label(recipe)}: {said}{rest}", style="yellow" if failed else "")


def duration(seconds: float) -> str:
    from leastwise.report.terminal.progress import duration

    return duration(seconds)
