"""Progress that is always visible: a bar in a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from leastwise.core.counts import Tally
from leastwise.core.text import percent, say
from leastwise.jobs.events import AtMost, JobEvent, Meanwhile, Planned, Ready
from leastwise.statistics.race import Round
from leastwise.training.base import Epoch, Seen
from leastwise.training.loop import StepProgress

LINE_EVERY = 5.0  # seconds between plain lines
WARM_UP = 2.0  # seconds before the time left is worth saying

ShowFraction = Callable[[float, str], None]  # fraction done, and a note


@contextmanager
def progress(console: Console, label: str, names: Sequence[str]) -> Iterator[Callable[[JobEvent], None]]:
    """A listener for the events of a training or an audit that shows how far it is and what it found so far."""
    shown = progress_bar(console, label) if console.is_terminal else progress_lines(console, label)
    with shown as show:

        def watch(event: JobEvent) -> None:
            if isinstance(event, Epoch):
                say(console, f"{label}: {epoch_text(event, names)}")
            elif isinstance(event, Ready):
                say(console, f"{label}: attacks use the model {event.prepared}")
            elif isinstance(event, AtMost):
                if event.seconds is not None:
                    say(console, f"{label}: {duration(event.seconds)} at most; images that fall early take less")
            elif isinstance(event, Planned):
                if plan := plan_text(event):
                    say(console, f"{label}: {plan}")
            elif isinstance(event, Round):
                pass  # a race is shown by `racing`: nobody knows how long it takes
            elif isinstance(event, StepProgress):
                show(event.fraction, f"epoch {event.epoch}")
            elif isinstance(event, Meanwhile):
                show(event.fraction, event.condition)
            else:
                show(event.fraction, f"{event.condition} {tally_text(event.so_far, names)}")

        yield watch


def plan_text(plan: Planned) -> str:
    """What the first of several shards says of the others."""
    if plan.over:
        return "the time budget is shorter than one shard takes, which is the least that an audit attacks"
    if plan.shards == 1:
        return ""
    said = f"{plan.shards} shards take about {duration(plan.seconds)}"
    return said if plan.fit == plan.shards else f"{said}; the time budget is enough for {plan.fit} of them"


def duration(seconds: float) -> str:
    """A time span in a unit that people use."""
    minutes = round(seconds / 60)
    return (
        "1 s"
        if seconds < 1
        else f"{seconds:.0f} s"
        if seconds < 90
        else f"{minutes} min"
        if minutes < 90
        else f"{seconds / 3600:.1f} h"
    )


def epoch_text(seen: Epoch, names: Sequence[str]) -> str:
    """What an epoch saw, in columns: on the training images as they were trained on, and on the validation images."""
    last = len(str(seen.of))
    trained = side_text("train", seen.train, names, attacked="attacked")
    parts = [f"epoch {seen.number:{last}}/{seen.of}", f"loss {seen.loss:6.3f}", trained]
    held = (("valid", seen.valid), ("averaged", seen.averaged), ("test", seen.test))
    return " | ".join((*parts, *(side_text(name, part, names) for name, part in held if part is not None)))


def side_text(label: str, seen: Seen, names: Sequence[str], *, attacked: str = "robust") -> str:
    """Average, worst class and its name, and the spread of the classes (best minus worst), in percent."""
    counts = seen.attacked
    both = f"clean {percent(seen.clean.overall):>5} " if int(seen.clean.n.sum()) and int(seen.robust.n.sum()) else ""
    kind = attacked if int(seen.robust.n.sum()) else "clean"
    present = [(a, name) for a, name in zip(counts.accuracy.tolist(), names, strict=True) if a == a]
    (lowest, worst), (highest, _) = min(present), max(present)
    spread = percent(highest - lowest)
    return f"{label} {both}{kind} {percent(counts.overall):>5}, worst {worst} {percent(lowest)}, spread {spread}"


def tally_text(tally: Tally, names: Sequence[str]) -> str:
    """Accuracy so far, and the worst class."""
    present = [(a, name) for a, name in zip(tally.accuracy.tolist(), names, strict=True) if a == a]
    lowest = min(a for a, _ in present)
    last = [name for a, name in present if a == lowest]
    worst = last[0] if len(last) == 1 else f"{len(last)} classes"
    return f"{percent(tally.overall)} % (worst {worst} {percent(lowest)} %)"


@contextmanager
def progress_bar(console: Console, label: str) -> Iterator[ShowFraction]:
    """A bar with the time left, for a terminal."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
    )
    with Progress(*columns, console=console) as display:
        task = display.add_task(label, total=1.0, note="")
        yield lambda fraction, note: display.update(task, completed=fraction, note=note)


@contextmanager
def progress_lines(console: Console, label: str) -> Iterator[ShowFraction]:
    """A line every few seconds, where no terminal is."""
    first: list[tuple[float, float]] = []  # when, and how far: work that goes on begins in the middle
    said = 0.0

    def show(fraction: float, note: str) -> None:
        nonlocal said
        now = time.monotonic()
        if not first:
            first.append((now, fraction))
        if now - said >= LINE_EVERY or fraction >= 1:
            left = time_left(*first[0], now, fraction=fraction)
            about = "" if left is None else f"about {duration(left)} left, "
            say(console, f"{label}: {100 * fraction:.0f} %, {about}{note}")
            said = now

    yield show


def time_left(begun: float, already: float, now: float, *, fraction: float) -> float | None:
    """Seconds to the end at the pace since `begun`, when `already` was done; None before that means something."""
    if now - begun <= WARM_UP or not already < fraction < 1:
        return None
    return (1 - fraction) * (now - begun) / (fraction - already)


@contextmanager
def steps(console: Console, label: str) -> Iterator[Callable[[int, int], None]]:
    """A listener for (done, total) that shows nothing unless something is counted."""
    shown: list[ShowFraction] = []
    with ExitStack() as stack:

        def watch(done: int, total: int) -> None:
            if not shown:
                shown.append(
                    stack.enter_context((progress_bar if console.is_terminal else progress_lines)(console, label))
                )
            shown[0](done / total, f"{done:,} of {total:,}")

        yield watch


@contextmanager
def transfer(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A listener for (what, bytes done, bytes in all): a bar with speed and time left, or plain lines."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, TimeRemainingColumn(), TimeElapsedColumn(), console=console, transient=True) as display:
        tasks: dict[str, TaskID] = {}
        said = 0.0

        def watch(what: str, done: int, total: int) -> None:
            nonlocal said
            if what not in tasks:
                tasks[what] = display.add_task(what, total=total or None)
            display.update(tasks[what], completed=done)
            now = time.monotonic()
            if not console.is_terminal and (now - said >= LINE_EVERY or (total and done >= total)):
                say(console, f"{what}" + (f": {done / 1e6:,.1f} of {total / 1e6:,.1f} MB" if total else " …"))
                said = now

        yield watch
