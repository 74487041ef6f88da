"""Evidence -> the table and the sentences a person reads in the terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from leastwise.audit.evidence import Evidence
from leastwise.audit.masking import cautions
from leastwise.core.counts import ClassFrame
from leastwise.core.text import percent, say, span
from leastwise.report.class_changes import compare_pair
from leastwise.report.condition_stats import find_attackers_pick, lowest_accuracy
from leastwise.statistics.intervals import CONFIDENCE, wilson_interval
from leastwise.statistics.paired import PairedComparison
from leastwise.statistics.worst_class import estimate_worst

NAME_WIDTH = 20  # longer class names are folded
CELL_WIDTH = 22  # "100.0 [98.1, 100.0]" and the space around it


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
