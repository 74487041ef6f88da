"""Evidence -> the table and the sentences a person reads in the terminal."""

from rich import box
from rich.table import Table
from rich.text import Text

from leastwise.evidence import Evidence
from leastwise.frame import ClassFrame
from leastwise.statistics import Paired, paired, wilson


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def span(low: float, high: float) -> str:
    return f"[{percent(low)}, {percent(high)}]"


def class_table(evidence: Evidence, title: str) -> Table:
    """Accuracy of every class under every condition in percent, with 95 % Wilson intervals; the worst is marked."""
    frame = evidence.frame()
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("class", overflow="fold")
    for name in frame.conditions:
        table.add_column(name, justify="right", no_wrap=True)
    low, high = wilson(frame.correct.numpy(), frame.n.numpy())
    worst = frame.worst.tolist()
    for c, name in enumerate(frame.names):
        cells = []
        for row in range(len(frame.conditions)):
            if frame.n[row, c] == 0:
                cells.append(Text("no images", style="dim"))
                continue
            text = f"{percent(frame.accuracy[row, c])} {span(low[row, c], high[row, c]):>14}"
            cells.append(Text(text, style="bold red" if c == worst[row] else ""))
        table.add_row(Text(name), *cells)
    table.add_section()
    table.add_row("overall", *map(percent, frame.overall.tolist()))
    table.add_row("worst class", *(Text(worst_cell(frame, row), style="bold red") for row in range(len(worst))))
    table.add_row("CV (points²)", *(f"{1e4 * v:.1f}" for v in frame.variance.tolist()))
    table.add_row("MCD (points)", *map(percent, frame.gap.tolist()))
    return table


def worst_cell(frame: ClassFrame, row: int) -> str:
    """The worst class by name, or how many classes share the last place."""
    lowest = frame.accuracy[row, frame.worst[row]]
    last = (frame.accuracy[row] == lowest).nonzero().squeeze(1).tolist()
    return f"{frame.names[last[0]] if len(last) == 1 else f'{len(last)} classes'} {percent(lowest)}"


def headline(evidence: Evidence) -> str:
    """Which class an attacker would pick, under the condition with the lowest worst class."""
    frame = evidence.frame()
    at_worst = frame.accuracy.gather(1, frame.worst[:, None]).squeeze(1)
    row = int(at_worst.argmin())
    c = int(frame.worst[row])
    low, high = wilson(frame.correct[row].numpy(), frame.n[row].numpy())
    return (
        f"An attacker would pick {frame.names[c]}: {percent(frame.accuracy[row, c])} % {span(low[c], high[c])} "
        f"under {frame.conditions[row]}, against {percent(frame.overall[row])} % overall."
    )


def compared(a: Evidence, b: Evidence, condition: str, cls: int | None = None) -> Paired:
    """B against A on the same images, of one class or of all."""
    if a.ids.tolist() != b.ids.tolist():
        raise ValueError("models can be paired only on the same images: audit both on the same data")
    rows = slice(None) if cls is None else a.labels == cls
    return paired(a.correct(condition)[rows], b.correct(condition)[rows])


def what_changed(a: Evidence, b: Evidence, names: tuple[str, str], condition: str) -> str:
    """One sentence on B against A from the paired comparison: overall, clean, and the two ends among the classes."""

    def points(p: Paired) -> str:
        return f"{100 * p.difference:+.1f} points {span(p.low, p.high)}"

    present = sorted(set(a.labels.tolist()))
    by_class = {a.names[c]: compared(a, b, condition, c) for c in present}
    least = min(by_class, key=lambda name: by_class[name].difference)
    most = max(by_class, key=lambda name: by_class[name].difference)
    whole = compared(a, b, condition)
    return (
        f"On the same {whole.n:,} images {names[1]} changes accuracy under {condition} by {points(whole)} against "
        f"{names[0]}, and clean accuracy by {points(compared(a, b, 'clean'))}; class by class the change under "
        f"{condition} runs from {points(by_class[least])} for {least} to {points(by_class[most])} for {most}."
    )
