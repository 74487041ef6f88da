"""A comparison of models as tables and sentences in the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from leastwise.core.text import percent, say


def print_comparison(console: Console, made: dict[str, Any]) -> None:
    """Show a comparison in the terminal."""
    condition = made["condition"]
    say(console, f"{made['images']:,} images, the same for all models; accuracy in %", style="bold")
    for name, said in made["warnings"].items():
        for one in said:
            say(console, f"warning: {name}: {one}", style="yellow")
    console.print(pareto_table(made))
    several = any(row["trainings"] > 1 for row in made["models"])
    for pair in made["changes"]:
        say(console, f"\n{pair['to']} minus {pair['from']}, in points [95 % interval]", style="bold")
        names = list(pair["conditions"])
        for some in [[name] for name in names] if several else [names]:
            console.print(change_table(made["classes"], {name: pair["conditions"][name] for name in some}, several))
        print_extremes(console, pair)
        print_margin(console, made, pair)
    say(console, "* a difference that chance does not explain, corrected for the number of classes and of models")
    if any(row["dominated"] for row in made["models"]):
        say(
            console,
            "dominated: another model is at least as good in every column but ρ, and better in one beyond chance",
        )
    if several:
        say(
            console,
            "worst class is the lowest mean over the trainings of a side; intervals cover another training and other "
            "test images; sd is the spread over trainings alone, without "
            "the noise of the test set, of the first and of the second side",
        )
    else:
        say(
            console,
            "one training a side: intervals cover other test images and cannot speak of another training; give several "
            "seeds of each, A1,A2 B1,B2",
        )
    for pair in made["agreement"]:
        found = pair["conditions"][condition]
        said = ", ".join(f"{name} {format_value(found[name])}" for name in ("kendall", "spearman", "cosine"))
        say(console, f"class profiles of {' and '.join(pair['models'])} under {condition}: {said}")


EXTREME_NAMES = {
    "worst": "worst class",
    "gap": "best minus worst (MCD)",
    "cv": "variance over classes (CV)",
    "rho": "ρ",
}
IN_POINTS = ("worst", "gap")


def print_extremes(console: Console, pair: Mapping[str, Any]) -> None:
    """A line for each change of worst class, gap, CV and ρ, with intervals that know that classes were picked."""
    for condition, numbers in pair["conditions"].items():
        for name, one in numbers.get("extremes", {}).items():
            times, digits = (100, 1) if name in IN_POINTS else (1, 4 if name == "cv" else 2)
            value, low, high = (
                "∞" if one[end] is None else f"{times * one[end]:+.{digits}f}" for end in ("value", "low", "high")
            )
            star = " *" if one["significant"] else ""
            say(console, f"{EXTREME_NAMES[name]} under {condition}: {value} [{low}, {high}]{star}")


def print_margin(console: Console, made: Mapping[str, Any], pair: Mapping[str, Any]) -> None:
    """Which classes are shown not to have lost a margin."""
    if made["margin"] is None:
        return
    for condition, numbers in pair["conditions"].items():
        rows = [(n, c) for n, c in zip(made["classes"], numbers["classes"], strict=True) if c and "not_worse" in c]
        open_ones = [name for name, one in rows if not one["not_worse"]]
        said = f"shown to have lost less than {100 * made['margin']:g} points under {condition}: "
        said += f"{len(rows) - len(open_ones)} of {len(rows)} classes"
        say(console, said + (f"; not shown for {', '.join(open_ones)}" if open_ones else ""))


def pareto_table(made: dict[str, Any]) -> Table:
    """A row per side: accuracies, worst class, ρ, and whether another side dominates it."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("model", overflow="fold")
    for name in [*made["models"][0]["overall"], "worst class", "ρ", ""]:
        table.add_column(Text(name), justify="right")
    for row in made["models"]:
        name = row["name"] + (f" ({row['trainings']} trainings)" if row["trainings"] > 1 else "")
        cells = [percent(value) for value in row["overall"].values()]
        cells += [f"{row['worst_class']} {percent(row['worst'])}", format_value(row["rho"], sign=True)]
        table.add_row(Text(name), *map(Text, cells), "dominated" if row["dominated"] else "")
    return table


def change_table(classes: Sequence[str], conditions: Mapping[str, Any], several: bool) -> Table:
    """A row per class: its change under each condition, and the spread over trainings if there are several."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("class", overflow="fold", max_width=20)
    for name in conditions:
        table.add_column(Text(name), justify="right", no_wrap=True)
        if several:
            table.add_column("sd over trainings", justify="right", no_wrap=True)
    for i, name in enumerate(classes):
        found = [condition["classes"][i] for condition in conditions.values()]
        if all(one is not None for one in found):
            table.add_row(Text(name), *(cell for one in found for cell in change_cells(one, several)))
    table.add_section()
    whole = [condition["overall"] for condition in conditions.values()]
    table.add_row("overall", *(cell for one in whole for cell in change_cells(one, several)))
    return table


def change_cells(one: dict[str, Any], several: bool) -> list[Text]:
    """The cells of one change: difference, interval, a star if chance does not explain it, and the spread."""
    ends = [one[end] for end in ("low", "high")]
    interval = "–" if None in ends else f"[{100 * ends[0]:+.1f}, {100 * ends[1]:+.1f}]"
    mark = "*" if one["significant"] else " "
    style = "bold" if one["significant"] else ""
    cells = [Text(f"{100 * one['difference']:+.1f} {interval:>15}{mark}", style=style)]
    if several:
        spreads = one.get("training_sd", (None, None))  # two single models have none
        cells.append(Text(" / ".join("–" if sd is None else f"{100 * sd:.1f}" for sd in spreads)))
    return cells


def format_value(value: float | None, sign: bool = False) -> str:
    """Two digits, or a dash for what is missing."""
    return "–" if value is None else f"{value:+.2f}" if sign else f"{value:.2f}"
