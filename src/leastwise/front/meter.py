"""Counts of every class while a network is trained: what each epoch saw, as a table, a chart and a frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leastwise.core.counts import ClassFrame, Tally
from leastwise.core.losses import ce
from leastwise.core.text import did_you_mean, escape_unprintable, percent
from leastwise.training.base import Epoch, Seen, Terms
from leastwise.training.distributed import find_ranks

if TYPE_CHECKING:
    import altair as alt

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

    def frame(self, names: tuple[str, ...]) -> ClassFrame:
        """The counts as a table, a row for each side and condition."""
        return ClassFrame.of({f"{side} {kind}": tally for (side, kind), tally in self.tallies.items()}, names)

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

    A `MethodStep` has one as `meter`; of your own, give `update` the labels and logits of each batch. Printed, it is a
    table of the last epoch with the worst class marked, in a notebook the whole class table.

    >>> import leastwise as lw, torch
    >>> meter = lw.ClassMeter(["cat", "dog"])
    >>> meter.update(torch.tensor([0, 1, 1]), clean=torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 1.0]]))
    >>> _ = meter.end_epoch()
    >>> meter
    epoch 1, train images, clean: 66.7 %
      dog  50.0 % of 2 <- worst
      cat 100.0 % of 1
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.running = Seen.empty(len(self.names))  # of the epoch that has not ended, in this process
        self.history: list[EpochCounts] = []

    @classmethod
    def read(cls, lines: Sequence[Mapping[str, Any]], names: Sequence[str]) -> "ClassMeter":
        """The meter of a training, from the lines of its `epochs.jsonl`."""
        made = cls(names)
        made.history = [EpochCounts(int(one["epoch"]), float(one["loss"]), read_tallies(one)) for one in lines]
        return made

    def see(self, seen: Seen) -> None:
        """Add a batch."""
        self.running = self.running + seen

    def update(self, y: Tensor, *, clean: Tensor | None = None, attacked: Tensor | None = None) -> None:
        """Count a batch by its labels and logits: of the clean images, of the attacked ones, or of both."""
        main = clean if attacked is None else attacked
        if main is None:
            raise ValueError("a meter counts logits: give clean=… or attacked=…, or both")
        if main.shape != (len(y), len(self.names)):
            seen = f"{list(main.shape)} for {len(y)} labels"
            raise ValueError(f"logits need a number for each of {len(self.names)} classes, but saw {seen}")
        self.see(Seen.of(Terms(ce(main, y), clean, attacked), y, len(self.names)))

    def end_epoch(self, seen: Epoch | None = None) -> Epoch:
        """Keep what an epoch saw, and begin the next. Without one it is what was counted, over all processes."""
        if seen is None:
            number = len(self.history) + 1
            seen = Epoch(number, number, float("nan"), find_ranks().total(self.running))
        self.history.append(EpochCounts.of(seen))
        self.running = Seen.empty(len(self.names))
        return seen

    @property
    def last(self) -> EpochCounts:
        """The last epoch that ended; before that, what was seen so far."""
        if self.history:
            return self.history[-1]
        return EpochCounts(0, float("nan"), side_tallies("train", self.running))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each epoch, side, condition and class: counts, accuracy and its 95 % interval as fractions."""
        from leastwise.report.notebook import class_rows

        return [
            {"epoch": one.number, "images": side, **row, "condition": kind}
            for one in self.history
            for (side, kind), tally in one.tallies.items()
            for row in class_rows(ClassFrame.of({kind: tally}, self.names))
        ]

    def to_pandas(self) -> Any:
        """A tidy frame: what `rows` gives."""
        from leastwise.report.notebook import make_frame

        return make_frame(self.rows())

    def plot(self, kind: str = "epochs") -> "alt.TopLevelMixin":
        """A chart in the width of a column of a paper; `.save("x.pdf")` writes it (.svg, .png and .html, too).

        "epochs" has a line for each class, of many for the weakest at the end, and one for the average; "classes" has
        bars of the last epoch. Both are of what the table shows first.
        """
        from leastwise.report.picture import draw_classes, draw_epochs

        if kind not in ("epochs", "classes"):
            raise ValueError(f"there is no plot {kind!r}: {did_you_mean(kind, ('epochs', 'classes'))}")
        if not self.history:
            raise ValueError("nothing can be drawn yet: end an epoch first")
        main, last = self.last.main, self.last
        what = f"{main[0]} images, {main[1]}"
        if kind == "classes":
            return draw_classes(self.names, last.tallies[main], f"{what}, epoch {last.number}")
        seen = {one.number: one.tallies[main] for one in self.history if main in one.tallies}
        return draw_epochs(self.names, seen, what)

    def _repr_html_(self) -> str:
        from leastwise.report.notebook import class_table_html

        last = self.last
        if not last.tallies:
            return "<p>nothing was seen yet</p>"
        when = f"after epoch {last.number}" if self.history else "so far"
        said = f"accuracy in % [95 % interval] of each class {when}; attacked: as it was trained on"
        return class_table_html(last.frame(self.names), caption=said)

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


def read_tallies(line: Mapping[str, Any]) -> dict[tuple[str, str], Tally]:
    """The counts in a line of `epochs.jsonl`, without those of nobody."""
    sides = {"train": {kind: line[kind] for kind in ("clean", "attacked")}}
    sides |= {"record": {"robust": line["robust"]}} if "robust" in line else {}
    sides |= {side: line[side] for side in SIDES if side in line}
    return {
        (side, kind): Tally(torch.tensor(held[kind]["n"]), torch.tensor(held[kind]["correct"]))
        for side, held in sides.items()
        for kind in ("clean", "attacked", "robust")
        if kind in held and sum(held[kind]["n"])
    }
