"""Counts of every class while a network is trained: what each epoch saw, as a table and as numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leastwise.core.counts import Tally
from leastwise.core.text import escape_unprintable, percent
from leastwise.training.base import Epoch, Seen

LINES = 10  # of a repr
SIDES = ("train", "record", "valid", "averaged", "test")


@dataclass(frozen=True, eq=False)
class EpochCounts:
    """What an epoch saw, without what nobody draws: counts by side and condition, such as ("valid", "robust")."""

    number: int
    loss: float
    tallies: Mapping[tuple[str, str], Tally]

    @classmethod
    def of(cls, seen: Epoch) -> "EpochCounts":
        """The counts of an epoch, of all sides that were looked at."""
        sides = {side: part for side in SIDES if (part := getattr(seen, side)) is not None}
        found = {key: tally for side, part in sides.items() for key, tally in side_tallies(side, part).items()}
        return cls(seen.number, seen.loss, found)

    @property
    def main(self) -> tuple[str, str]:
        """What a table shows first: under attack before clean, validation images before those trained on."""
        return max(self.tallies, key=lambda key: (key[1] != "clean", SIDES.index(key[0])))


def side_tallies(side: str, seen: Seen) -> dict[tuple[str, str], Tally]:
    """Clean counts, and those under attack: on training images they are of the attack as it trained."""
    both = {"clean": seen.clean, "attacked" if side == "train" else "robust": seen.robust}
    return {(side, kind): tally for kind, tally in both.items() if int(tally.n.sum())}


class ClassMeter:
    """Counts by class: of the epoch that runs, and of every epoch before.

    A `MethodStep` has one as `meter`. Printed, it is a table of the last epoch with the worst class marked.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.running = Seen.empty(len(self.names))  # of the epoch that has not ended, in this process
        self.history: list[EpochCounts] = []

    def see(self, seen: Seen) -> None:
        """Add a batch."""
        self.running = self.running + seen

    def end_epoch(self, seen: Epoch) -> None:
        """Keep what an epoch saw, and begin the next."""
        self.history.append(EpochCounts.of(seen))
        self.running = Seen.empty(len(self.names))

    @property
    def last(self) -> EpochCounts:
        """The last epoch that ended; before that, what was seen so far."""
        if self.history:
            return self.history[-1]
        return EpochCounts(0, float("nan"), side_tallies("train", self.running))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each epoch, side, condition and class: n, correct and accuracy."""
        return [
            {"epoch": one.number, "images": side, "condition": kind, "class": name, "n": n, "correct": correct}
            | {"accuracy": correct / n if n else float("nan")}
            for one in self.history
            for (side, kind), tally in one.tallies.items()
            for name, n, correct in zip(self.names, tally.n.tolist(), tally.correct.tolist(), strict=True)
        ]

    def __repr__(self) -> str:
        last = self.last
        if not last.tallies:
            return f"ClassMeter of {len(self.names)} classes: nothing was seen yet"
        side, kind = last.main
        tally = last.tallies[side, kind]
        order = sorted((a, i) for i, a in enumerate(tally.accuracy.tolist()) if a == a)
        head = f"epoch {last.number}, {side} images, {kind}: {percent(tally.overall)} %"
        shown = order if len(order) < LINES else order[: LINES - 2]
        wide = max(len(escape_unprintable(self.names[i])) for _, i in shown)
        lines = [
            f"  {escape_unprintable(self.names[i]):{wide}} {percent(a):>5} % of {int(tally.n[i]):,}"
            + (" <- worst" if i == order[0][1] else "")
            for a, i in shown
        ]
        rest = len(order) - len(shown)
        return "\n".join([head, *lines, *([f"  and {rest} more classes"] if rest else [])])

    def state_dict(self) -> dict[str, Any]:
        """All of it as tensors and plain values."""
        held = [
            {"number": one.number, "loss": one.loss}
            | {f"{side}/{kind}": [t.n, t.correct] for (side, kind), t in one.tallies.items()}
            for one in self.history
        ]
        return {"running": self.running.tensors(), "history": held}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """What `state_dict` was made from."""
        running = Seen.from_tensors(state["running"])
        if running.n.shape != (len(self.names),):
            raise ValueError(f"it is of {len(running.n)} classes, and there are {len(self.names)}")
        self.running = running
        self.history = [
            EpochCounts(
                int(one["number"]),
                float(one["loss"]),
                {split_key(key): Tally(*held) for key, held in one.items() if "/" in key},
            )
            for one in state["history"]
        ]


def split_key(key: str) -> tuple[str, str]:
    """A side and a condition from the name of both."""
    side, _, kind = key.partition("/")
    return side, kind
