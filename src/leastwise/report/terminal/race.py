"""A race as it happens, and its answer."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from leastwise.core.text import percent, say
from leastwise.jobs.events import JobEvent, Ready
from leastwise.report.terminal.view import LINE_EVERY
from leastwise.statistics.race import Round

FEW = 10  # classes that a sentence names


@contextmanager
def show_race(console: Console, names: Sequence[str]) -> Iterator[Callable[[JobEvent], None]]:
    """A listener that says who leaves the race, and in between how many are in it. Nobody knows how long it takes."""
    said = time.monotonic()
    with console.status("race: preparing the model") as status:

        def watch(event: JobEvent) -> None:
            nonlocal said
            if isinstance(event, Ready):
                say(console, f"race: attacks use the model {event.prepared}")
            if not isinstance(event, Round):
                return
            for text in leaving_lines(event, names):
                say(console, text)
            standing = f"race: {event.spent:,} images attacked, {len(event.contenders)} classes are open"
            status.update(standing)
            if not console.is_terminal and time.monotonic() - said >= LINE_EVERY:
                say(console, standing)
                said = time.monotonic()

        yield watch


def leaving_lines(found: Round, names: Sequence[str]) -> list[str]:
    """Which classes left the race in this round, and what beat them to the last place or which side they are on."""

    def seen(c: int) -> str:
        return f"{names[c]}, {found.survived[c]} of {found.attacked[c]} attacked survived"

    left = [
        f"{seen(c)}: better than {names[by]}, {found.survived[by]} of {found.attacked[by]}" for c, by in found.dropped
    ]
    left += [f"{seen(c)}: {'below' if low else 'at or above'} the threshold" for c, low in found.settled]
    return [f"{found.spent:6,} attacked: {text}" for text in left]


def race_sentence(found: Mapping[str, Any]) -> str:
    """The answer to the question that was asked, how sure it is, and what it cost."""
    finite = found["question"] == "this-test-set"
    where = "on this test set" if finite else "in the population"
    price = f"{found['attacked']:,} of {found['images']:,} images were attacked"
    sure = f"{100 * found['confidence']:g} % confidence"
    if found["threshold"] is not None:
        return threshold_sentence(found, f"{where} under {found['condition']}, at {sure}; {price}.")
    told = list_names([describe_class(found, name) for name in found["named"] or found["contenders"]])
    count = "worst class" if found["top"] == 1 else f"{found['top']} worst classes"
    if found["named"]:
        verb = "is" if found["top"] == 1 else "are"
        return f"The {count} {where} under {found['condition']} {verb} {told}, at {sure}; {price}."
    if found["tied"]:
        return f"Equal {where} under {found['condition']}: {told} share the last place, at {sure}; {price}."
    return f"Undecided among {told} as the {count} {where} at {sure}: {price}, and no more can decide it."


def threshold_sentence(found: Mapping[str, Any], ending: str) -> str:
    """Which classes lie below a threshold and which do not, and of which nobody can say."""
    at = f"{100 * found['threshold']:g} %"
    parts = [
        f"{text} {list_names([describe_class(found, name) for name in found[part]])}"
        for part, text in (("below", f"below {at}:"), ("above", f"at {at} or above:"), ("contenders", "undecided:"))
        if found[part]
    ]
    said = "; ".join(parts)
    return f"{said[:1].upper()}{said[1:]}; {ending}"


def describe_class(found: Mapping[str, Any], name: str) -> str:
    """A class with the accuracy that its attacked images let expect."""
    at = found["classes"].index(name)
    images, right, seen, attacked, survived = (
        found["by_class"][part][at] for part in ("images", "right_before", "seen", "attacked", "survived")
    )
    if found["question"] != "this-test-set":
        return f"{name} ({percent(survived / seen)} % of {seen})" if seen else name
    if right and not attacked:
        return name
    share = right / images * (survived / attacked if attacked else 0.0)
    return f"{name} ({'' if attacked == right else 'about '}{percent(share)} %)"


def list_names(told: Sequence[str]) -> str:
    return ", ".join(told[:FEW]) + (", …" if len(told) > FEW else "")
