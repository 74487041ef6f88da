"""`leastwise reproduce`."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from leastwise.cli.options import ExecutorOptions, use_data_dir
from leastwise.core.text import Screen

if TYPE_CHECKING:
    from rich.console import Console

    from leastwise.papers.estimate import Speed
    from leastwise.papers.exhibit import Exhibit
    from leastwise.papers.recipes import Recipe
    from leastwise.papers.reproduce import RecipeListener
    from leastwise.papers.stored import PaperStore

ScaleName = Literal["smoke", "lite", "full"]
SOME_FAILED = 1
LONG = 30.0  # seconds of a task from which its own progress is shown


@dataclass(frozen=True)
class Reproduce:
    """Make the tables and figures of a paper anew, beside the printed numbers.

    What is finished under --out is used again, and an interrupted run goes on when the same command is given again.
    """

    exhibits: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="PAPER[/EXHIBIT]")] = ()
    """benz2021, tian2021, ahn, tradeoff2022, or an exhibit such as ahn/table1; `leastwise list papers` shows all"""
    where: tyro.conf.OmitArgPrefixes[ExecutorOptions] = ExecutorOptions()
    only: tuple[str, ...] = ()
    """only these rows of the exhibits, by the names that --plan shows; * stands for anything, as in "TRADES*\""""
    scale: ScaleName = "lite"
    """smoke: seconds, shows that everything runs; lite: real data on two cores; full: the paper's setting, for GPUs"""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    """where trainings, audits and pages go, and where finished ones are looked for"""
    plan: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """only show what would be done, what is there already, and about how long the rest takes"""
    next: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """only do the next N trainings and audits that are missing, those that most claims wait for first, and draw
    nothing; of all papers unless some are named. Several processes may do so side by side, each with --threads 1"""
    draw: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """only write the pages, from what is there; other cells say that they were not run"""
    data_dir: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where known data sets lie; the variable LEASTWISE_DATA, or the cache, unless given"""
    device: str = "auto"
    """cpu, cuda, xpu, …; auto: the accelerator that torch finds, if there is one"""
    threads: int = 0
    """processor threads of each process; 0 leaves the choice to torch, or is 1 with --engine dask"""

    def run(self) -> int:
        self.where.check()
        use_data_dir(self.data_dir)
        from leastwise.papers.registry import PAPERS, keep_roles, select_exhibits

        if self.next < 0 or (self.next and (self.plan or self.draw or self.only)):
            raise ValueError("--next takes a number of pieces of work, and goes without --plan, --draw and --only")
        if not self.exhibits and not self.next:
            raise ValueError(f"name a paper, {', '.join(PAPERS)}, or an exhibit: `leastwise list papers` shows all")
        exhibits = tuple({one.id: one for name in self.exhibits for one in select_exhibits(name)}.values())
        wanted = keep_roles(exhibits, self.only)
        threads = self.where.threads(self.threads)
        from leastwise.models.preflight import choose_device

        device = choose_device(self.device, threads)
        if self.next:
            return self.do_next(wanted, device, threads)
        from leastwise.core.files import check_writable
        from leastwise.core.text import say
        from leastwise.papers.estimate import Speed
        from leastwise.papers.exhibit import count_complete
        from leastwise.papers.page import write_page
        from leastwise.papers.recipes import trainings
        from leastwise.papers.reproduce import collect_results, do_work, list_work, recipes_of
        from leastwise.papers.stored import PaperStore

        console = Screen()
        store = PaperStore(self.out, self.scale)
        recipes = tuple(dict.fromkeys(recipe for one in wanted for recipe in recipes_of(one, self.scale)))
        store.adopt((*recipes, *trainings(recipes)))
        work = () if self.draw else list_work(recipes, store)
        speed = Speed(device)
        if not self.draw:
            if self.plan or work:
                show_tree(console, wanted, store)
            say(console, f"exhibits   {count_complete(wanted, self.scale, store.has)}")
            show_work(console, recipes, work, store=store, speed=speed)
        if self.plan:
            return 0
        check_writable(store.root)
        failed: dict[Recipe, str] = {}
        if work:
            with self.where.open_executor() as executor:
                listener = make_listener(console, work, store, speed=speed)
                failed = do_work(work, store, listener, device=device, threads=threads, executor=executor)
            store.remember_keys((*recipes, *trainings(recipes)))
        for found in collect_results(exhibits, store, failed):
            folder = store.root / "pages" / found.paper.id
            written = write_page(
                found.paper, found.exhibits, self.scale, results=found.results, failed=found.failed, folder=folder
            )
            complete = count_complete(found.exhibits, self.scale, found.results.__contains__)
            told = f"{written[0]}, and {len(written) - 1} tables; {complete}"
            say(console, f"{found.paper.id} at scale {self.scale}: {told}")
        if failed:
            say(console, f"{len(failed)} of {len(work)} failed; cells say why, and the same command tries again")
        return SOME_FAILED if failed else 0

    def do_next(self, exhibits: tuple["Exhibit", ...], device: str, threads: int) -> int:
        """The next pieces of work by rank, one after the other; what fails is said, and the next one begun."""
        from leastwise.core.files import check_writable
        from leastwise.core.text import say
        from leastwise.papers.campaign import list_open_work, rank_work
        from leastwise.papers.estimate import Speed
        from leastwise.papers.reproduce import do_work
        from leastwise.papers.stored import PaperStore

        console, speed = Screen(), Speed(device)
        store = PaperStore(self.out, self.scale)
        check_writable(store.root)
        store.remember_keys(rank_work(self.scale, exhibits))
        done, failed = 0, 0
        with self.where.open_executor() as executor:
            for recipe in list_open_work(self.scale, store, exhibits):
                listener = make_listener(console, (recipe,), store, speed=speed)
                problems = do_work((recipe,), store, listener, device=device, threads=threads, executor=executor)
                done, failed = done + 1, failed + len(problems)
                if done == self.next:
                    break
        say(console, f"{done - failed} done, {failed} failed" if done else "nothing is left that can be done here")
        return SOME_FAILED if failed else 0


def show_tree(console: "Console", exhibits: Any, store: "PaperStore") -> None:
    from leastwise.core.text import say
    from leastwise.papers.outline import tree

    for text in tree(exhibits, store):
        say(console, text)
    say(console, "")


def show_work(
    console: "Console",
    recipes: tuple["Recipe", ...],
    work: tuple["Recipe", ...],
    *,
    store: "PaperStore",
    speed: "Speed",
) -> None:
    """What is there, what is left, and about how long that takes."""
    from leastwise import __version__
    from leastwise.core.text import say
    from leastwise.papers.estimate import count_passes
    from leastwise.papers.outline import count_in_words, missing, short
    from leastwise.papers.recipes import trainings
    from leastwise.papers.reproduce import count_versions
    from leastwise.papers.scales import scale

    everything = tuple(dict.fromkeys((*trainings(recipes), *recipes)))
    say(console, f"scale      {store.scale}: {scale(store.scale).about}")
    say(console, f"in all     {count_in_words(everything)}, each once for all exhibits")
    say(console, f"is there   {count_in_words(one for one in everything if store.has(one))}, in {store.root}")
    for version, number in count_versions(everything, store, __version__).items():
        say(console, f"           {number} of them made with leastwise {version}; this is {__version__}")
    if not work:
        say(console, "left       nothing")
        return
    say(
        console,
        f"left       {count_in_words(work)}, at most {short(sum(map(count_passes, work)))} passes of single images",
    )
    likely, most = sum(map(speed.seconds, work)), sum(map(speed.most_seconds, work))
    say(
        console,
        f"takes      about {duration(likely)} on a free processor, by a few steps of each network timed just now;",
    )
    say(console, f"           at most {duration(most)}, if no image left an attack before its end")
    for sentence in missing(work, store):
        say(console, f"warning    {sentence}", style="yellow")


def make_listener(
    console: "Console", work: tuple["Recipe", ...], store: "PaperStore", *, speed: "Speed"
) -> "RecipeListener":
    """Says what is being done and how long the rest takes, corrected by how the estimates did so far."""
    from leastwise.core.text import say
    from leastwise.jobs.events import JobEventListener
    from leastwise.papers.outline import about
    from leastwise.papers.recipes import Measured, Recipe
    from leastwise.papers.reproduce import RecipeListener
    from leastwise.report.terminal.view import progress

    expected = {recipe: speed.seconds(recipe) for recipe in work}
    numbers = {recipe: number for number, recipe in enumerate(work, 1)}
    begun, left = time.monotonic(), set(work)

    def label(recipe: Recipe) -> str:
        kind = "audit" if isinstance(recipe, Measured) else "training"
        return f"{numbers[recipe]}/{len(numbers)} {kind} {store.folder(recipe).name}"

    class ReproduceListener(RecipeListener):
        def during(self, recipe: Recipe, names: Sequence[str]) -> AbstractContextManager[JobEventListener]:
            """Short jobs are told about when they are done."""
            if expected[recipe] < LONG:
                return nullcontext(lambda event: None)
            say(console, f"{label(recipe)}: {about(recipe)}")
            return progress(console, label(recipe), names)

        def after(self, recipe: Recipe, seconds: float, failed: str) -> None:
            left.discard(recipe)
            rest = sum(expected[one] for one in left)
            done = sum(expected.values()) - rest
            remaining = rest * (time.monotonic() - begun) / done
            said = f"failed: {failed}" if failed else f"{seconds:.1f} s"
            more = f"; about {duration(remaining)} left" if left else ""
            say(console, f"{label(recipe)}: {said}{more}", style="yellow" if failed else "")

    return ReproduceListener()


def duration(seconds: float) -> str:
    from leastwise.report.terminal.view import duration

    return duration(seconds)
