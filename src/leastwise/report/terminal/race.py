"""A race as it happens, and its answer."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from leastwise.audit.auditor import Ready
from leastwise.jobs.events import JobEvent
from leastwise.report.terminal.progress import LINE_EVERY
from leastwise.report.text import percent, say
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
            standing = f"race: {event.spent:,} images attacked, {len(event.contenders)} classes may be the worst"
            status.update(standing)
            if not console.is_terminal and time.monotonic() - said >= LINE_EVERY:
                say(console, standing)
                said = time.monotonic()

        yield watch


def leaving_lines(found: Round, names: Sequence[str]) -> list[str]:
    """Which classes left the race in this round, and what beat them to the last place."""

    def seen(c: int) -> str:
        return f"{names[c]} {percent(found.correct[c] / found.n[c])} % of {found.n[c]}"

    return [
        f"{found.spent:6,} attacked: {names[c]} is not the worst ({seen(c)}, against {seen(by)})"
        for c, by in found.dropped
    ]


def race_sentence(found: Mapping[str, Any]) -> str:
    """The answer, and what it cost."""
    of = f"{found['attacked']:,} of {found['images']:,} images were attacked"
    sure = f"{100 * found['confidence']:g} % confidence"
    counts = dict(zip(found["classes"], zip(found["correct"], found["n"], strict=True), strict=True))

    def seen(name: str) -> str:
        correct, n = counts[name]
        return f"{name} ({percent(correct / n)} % of {n})" if n else name

    told = ", ".join(map(seen, found["contenders"][:FEW])) + (", …" if len(found["contenders"]) > FEW else "")
    if found["worst"] is None:
        return f"Undecided among {told} at {sure}: {of}, and there are no more to decide it."
    return f"The worst class under {found['condition']} is {told}, at {sure}; {of}."
