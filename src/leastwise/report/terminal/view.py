"""What a person sees in the terminal: how far work is, and then what an audit found.

Progress is always visible: a bar in a terminal, plain lines elsewhere.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from rich import box
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
from rich.table import Table
from rich.text import Text

from leastwise.audit.evidence import Evidence
from leastwise.audit.masking import cautions
from leastwise.core.counts import ClassFrame, Tally
from leastwise.core.text import percent, say, span
from leastwise.jobs.events import AtMost, JobEvent, Meanwhile, Planned, Ready
from leastwise.report.class_changes import compare_pair
from leastwise.report.condition_stats import find_attackers_pick, lowest_accuracy
from leastwise.statistics.accuracy import CONFIDENCE, PairedComparison, wilson_interval
from leastwise.statistics.race import Round
from leastwise.statistics.worst_class import estimate_worst
from leastwise.training.base import Epoch, Seen
from leastwise.training.loop import StepProgress

LINE_EVERY = 5.0  # seconds between plain lines
WARM_UP = 2.0  # seconds before the time left is worth saying
NAME_WIDTH = 20  # longer class names are folded
CELL_WIDTH = 22  # "100.0 [98.1, 100.0]" and the space around it

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


# What an audit found.


def print_classes(console: Console, evidence: Evidence, title: str) -> None:
    """The class table, in as many pieces as the terminal is too narrow for."""
    widest = min(NAME_WIDTH, max(len(name) for name in (*evidence.names, "CV (points²)")))
    fit = max(1, (console.width - widest) // CELL_WIDTH)
    conditions = list(evidence.conditions)
    say(console, f"\n{title}: accuracy in % [95 % interval]", style="bold")
    for first in range(0, len(conditions), fit):
        if first:
            console.print()
        console.print(class_table(evidence, conditions[first : first + fit]))
    for name in conditions:
        for number, member in enumerate(evidence.members(name)):
            frame = ClassFrame.of({name: evidence.against(name, number)}, evidence.names)
            say(console, f"{name}, {member}: {percent(frame.overall[0].item())}, worst {worst_cell(frame, 0)}")
    for warning in cautions(evidence):
        say(console, f"warning: {warning}", style="yellow")


def class_table(evidence: Evidence, conditions: Sequence[str]) -> Table:
    """Accuracy of every class in percent, with 95 % Wilson intervals of each by itself; the worst class is marked.

    Below stands the worst class without the bad luck of being picked as the lowest, and then as it was measured.
    """
    frame = ClassFrame.of({name: evidence.tally(name) for name in conditions}, evidence.names)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("class", overflow="fold", max_width=NAME_WIDTH)
    for name in frame.conditions:
        table.add_column(Text(name), justify="right", no_wrap=True)
    accuracy, lowest = frame.accuracy.tolist(), lowest_accuracy(frame)
    low, high = wilson_interval(frame.correct.numpy(), frame.n.numpy())
    for c, name in enumerate(frame.names):
        cells = []
        for row in range(len(frame.conditions)):
            if frame.n[row, c] == 0:
                cells.append(Text("no images", style="dim"))
                continue
            cell = f"{percent(accuracy[row][c])} {span(low[row, c], high[row, c]):>13}"
            cells.append(Text(cell, style="bold red" if accuracy[row][c] == lowest[row] else ""))
        table.add_row(Text(name), *cells)
    if evidence.groups:
        table.add_section()
    for name, classes in evidence.groups:
        n, correct = (counts[:, list(classes)].sum(1).numpy() for counts in (frame.n, frame.correct))
        low, high = wilson_interval(correct, n)
        cells = [
            Text(f"{percent(c / m)} {span(lo, hi):>13}" if m else "no images")
            for c, m, lo, hi in zip(correct, n, low, high, strict=True)
        ]
        table.add_row(Text(name, style="italic"), *cells)
    table.add_section()
    table.add_row("overall", *map(percent, frame.overall.tolist()))
    table.add_row("worst class", *(Text(cell, style="bold red") for cell in corrected_cells(frame)))
    table.add_row("as measured", *(Text(worst_cell(frame, row)) for row in range(len(lowest))))
    table.add_row("CV (points²)", *(f"{1e4 * v:.1f}" for v in frame.variance.tolist()))
    table.add_row("MCD (points)", *map(percent, frame.gap.tolist()))
    return table


def corrected_cells(frame: ClassFrame) -> list[str]:
    """The lowest true accuracy with its interval, by condition."""
    rows = zip(frame.correct.numpy(), frame.n.numpy(), strict=True)
    found = [estimate_worst(correct, n) for correct, n in rows]
    return [f"{percent(one.corrected)} {span(one.low, one.high):>13}" for one in found]


def worst_cell(frame: ClassFrame, row: int) -> str:
    """The worst class by name, or how many classes share the last place."""
    lowest = lowest_accuracy(frame)[row]
    ties = int((frame.accuracy[row] == lowest).sum())
    return f"{frame.names[int(frame.worst[row])] if ties == 1 else f'{ties} classes'} {percent(lowest)}"


def headline(evidence: Evidence) -> str:
    """Which class an attacker would pick, under the condition with the lowest worst class."""
    found = find_attackers_pick(evidence)
    picked = found.picked if found.ties == 1 else f"any of {found.ties} classes"
    accuracy = found.accuracy if found.ties == 1 else found.measured
    return (
        f"An attacker would pick {picked}: {accuracy} % {found.interval} "
        f"under {found.condition}, against {found.overall} % overall."
    )


def game_line(block: Mapping[str, Any]) -> str:
    """The game in a sentence."""
    pick, pair = block["class"], block.get("pair")
    said = f"an attacker who picks the class gains {pick['cost']:.3f} [{pick['low']:.3f}, {pick['high']:.3f}] with "
    said += str(pick["source"])
    if pair:
        said += f"; who picks a pair, {pair['cost']:.3f} [{pair['low']:.3f}, {pair['high']:.3f}] by turning "
        said += f"{pair['source']} into {pair['target']}"
    return said


def what_changed(a: Evidence, b: Evidence, names: tuple[str, str], *, condition: str) -> str:
    """One sentence on B against A from the paired comparison: overall, clean, and the two ends among the classes."""

    def points(p: PairedComparison) -> str:
        return f"{100 * p.difference:+.1f} points {span(p.low, p.high)}"

    present = sorted(set(a.labels.tolist()))
    # The ends were picked among all classes, so their intervals are those that hold for all classes together.
    together = 1 - (1 - CONFIDENCE) / len(present)
    by_class = {a.names[c]: compare_pair(a, b, condition, cls=c, confidence=together) for c in present}
    least = min(by_class, key=lambda name: by_class[name].difference)
    most = max(by_class, key=lambda name: by_class[name].difference)
    whole = compare_pair(a, b, condition)
    return (
        f"On the same {whole.n:,} images {names[1]} changes accuracy under {condition} by {points(whole)} against "
        f"{names[0]}, and clean accuracy by {points(compare_pair(a, b, 'clean'))}; class by class the change under "
        f"{condition} runs from {points(by_class[least])} for {least} to {points(by_class[most])} for {most} "
        f"(intervals that hold for all classes together)."
    )
