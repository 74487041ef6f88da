"""The search for a network whose worst class is better: on validation images, within a budget, and resumable.

What depends on the clock (how long fine-tunings are, which ones are made longer) is written down when it is decided,
so that the same command goes on with the same candidates.
"""

import copy
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leastwise.core.files import write_json
from leastwise.core.noise import Noise
from leastwise.jobs.folder import CLOCK, Clock
from leastwise.jobs.lift.candidate import (
    FIRST_PART,
    CandidateBits,
    LiftMaterial,
    Show,
    make_candidate,
    measure,
    split_parts,
)
from leastwise.jobs.lift.ways import (
    SoupWay,
    TuneWay,
    Way,
    lengthen,
    list_edits,
    list_head_trainings,
    list_tunings,
)
from leastwise.models.classifier import Classifier
from leastwise.statistics.lift import LiftAim, find_pareto, is_hopeless, pick_best, score_classes
from leastwise.statistics.spread import homogeneity
from leastwise.training.step import MethodLoss

GIVEN = ""  # the name of the network as it is
EVEN = 0.05  # classes that differ by less than chance makes likely are left alone
SHORT_SHARE, LONG_SHARE = 0.3, 0.35  # of the budget, for all short fine-tunings and for the longer ones
FEWEST, MOST_EPOCHS, LONGER = 100, 12, 2  # images of each class, epochs, fine-tunings that are made longer
PASSES = {"first": 1 / FIRST_PART, "rest": 1 - 1 / FIRST_PART}
DECISIONS = "decisions.json"


@dataclass(frozen=True)
class Tried:
    """A candidate as it was measured on validation images."""

    name: str
    average: float
    clean: float
    score: float
    seconds: float
    dropped: bool  # whether it was given up after the first part of the images


@dataclass(eq=False)
class Search:
    """A search under way. `decisions` are what depended on the clock; `made` and `seen` are by the names of ways."""

    material: LiftMaterial
    aim: LiftAim
    give_up: float
    budget: float  # seconds
    show: Show
    clock: Clock = CLOCK
    tell: Callable[[str], None] = lambda said: None
    decisions: dict[str, Any] = field(default_factory=dict)
    made: dict[str, Classifier] = field(default_factory=dict)
    seen: dict[str, CandidateBits] = field(default_factory=dict)
    tried: dict[str, Tried] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)  # ways that cannot be gone with this network, and why

    def __post_init__(self) -> None:
        file = self.material.folder / DECISIONS
        if file.is_file():
            self.decisions = json.loads(file.read_text("utf-8"))
        self.parts = split_parts(self.material.valid)
        self.made[GIVEN] = self.material.model

    def decide(self, name: str, decide: Callable[[], Any]) -> Any:
        """What was decided before, or is now, and written down."""
        if name not in self.decisions:
            self.decisions[name] = decide()
            write_json(self.material.folder / DECISIONS, self.decisions)
        return self.decisions[name]

    @property
    def spent(self) -> float:
        """Seconds of all that was tried, in this run and in those before it."""
        return sum(one.seconds for one in self.tried.values())

    def run(self) -> str:
        """Try everything that fits into the budget; the name of the best way, or of the network as it is."""
        self.try_network(GIVEN)
        if self.is_even():
            return GIVEN
        for way in list_edits():
            self.try_way(way)
        for tuning in self.choose_short():
            self.try_way(tuning)
        for head in list_head_trainings() if self.decisions.get("short") else []:
            self.try_way(head)
        longer = self.choose_long()
        for tuning in longer:
            self.try_way(tuning)
        if longer or self.decisions.get("short"):
            self.finish_tunings()
        return self.pick()

    def is_even(self) -> bool:
        """Whether the classes of the network as it is cannot be told apart."""
        labels, hit = self.seen[GIVEN].labels, self.seen[GIVEN].robust
        n = np.bincount(labels, minlength=self.seen[GIVEN].k)
        right = np.bincount(labels[hit], minlength=len(n))
        return homogeneity(right[n > 0], n[n > 0]) > EVEN

    def try_way(self, way: Way) -> None:
        """Make a candidate and measure it; one that cannot be made for this network is told and left out."""
        begun = self.clock.seconds()
        try:
            self.made[way.name] = make_candidate(way, self.material, self.made, show=self.show)
        except ValueError as error:
            self.left_out[way.name] = str(error)
            self.tell(f"{way.name} is left out: {error}")
            return
        self.try_network(way.name, self.clock.seconds() - begun)

    def try_network(self, name: str, before: float = 0.0) -> None:
        """Measure a network, on the rest of the images only if it is not hopeless on the first part."""
        begun, m = self.clock.seconds(), self.material
        shown, found, dropped = name or "the network as it is", None, False
        for part, data in zip(PASSES, self.parts, strict=True):
            with self.show(f"measuring {shown}, {part} images") as listen:
                one = measure(
                    self.made[name], data, m.attack, folder=m.folder / "measured" / f"{name or 'given'}-{part}",
                    listen=listen, seed=m.seed, device=m.device,
                )  # fmt: skip
            found = one if found is None else found.join(one)
            dropped = name != GIVEN and part == "first" and self.is_out(found)
            if dropped:
                break
        assert found is not None, "there are two parts"
        self.seen[name] = found
        taken = self.decide(f"seconds {name}", lambda: before + self.clock.seconds() - begun)
        score = score_classes(found.classes, self.aim)
        self.tried[name] = Tried(name, found.average, found.clean_average, score, taken, dropped)
        self.tell(
            f"{shown}: average {100 * found.average:.1f} %, {self.aim} {100 * score:.1f}"
            + (", given up after the first part of the images" if dropped else "")
        )

    def is_out(self, found: CandidateBits) -> bool:
        """Whether a candidate is surely worse than the best so far, or costs too much of the average."""
        base = self.seen[GIVEN]
        best = self.seen[self.pick()]
        return is_hopeless(found.against(base), best.against(base), give_up=self.give_up)

    def pick(self) -> str:
        """The best of those that were measured on all images."""
        whole = [one for one in self.tried.values() if not one.dropped]
        return whole[pick_best([one.average for one in whole], [one.score for one in whole], self.give_up)].name

    def pareto(self) -> list[str]:
        """The candidates that nobody beats in both average and aim."""
        whole = [one for one in self.tried.values() if not one.dropped]
        best = find_pareto([one.average for one in whole], [one.score for one in whole])
        return [one.name for one, good in zip(whole, best, strict=True) if good]

    def tunings(self) -> list[TuneWay]:
        m = self.material
        return list_tunings(m.model, m.edit_attack.ball, m.train.shape, seed=m.seed)

    def choose_short(self) -> list[TuneWay]:
        """Short fine-tunings on as many images of each class as there is time for; none if there is too little."""
        ways = self.tunings()

        def decide() -> int:
            each = self.seconds_per_image(ways[0]) * self.material.train.k * ways[0].training.epochs * len(ways)
            most = int(self.material.train.counts.max())
            return min(most, int(SHORT_SHARE * self.budget / each))

        per_class = int(self.decide("short", decide))
        if per_class < min(FEWEST, int(self.material.train.counts.max())):
            self.tell(f"no time for fine-tunings: {per_class} images of each class would fit into the budget")
            self.decisions["short"] = 0
            return []
        return [TuneWay(way.name, way.training, per_class) for way in ways]

    def choose_long(self) -> list[TuneWay]:
        """The best of the short fine-tunings, for as many epochs of all images as there is time for."""
        if not self.decisions.get("short"):
            return []
        named = {way.name: way for way in self.tunings()}
        ranked = sorted(
            (one for one in self.tried.values() if one.name in named),
            key=lambda one: (one.average >= self.tried[GIVEN].average - 2 * self.give_up, one.score, one.average),
            reverse=True,
        )

        def decide() -> dict[str, int]:
            left = min(LONG_SHARE * self.budget, self.budget - self.spent)
            epoch = self.seconds_per_image(named["trades"]) * len(self.material.train)
            epochs = min(MOST_EPOCHS, int(left / LONGER / epoch))
            return {one.name: epochs for one in ranked[:LONGER]} if epochs >= 1 else {}

        chosen = dict(self.decide("long", decide))
        return [lengthen(named[name], epochs, self.material.model) for name, epochs in chosen.items()]

    def finish_tunings(self) -> None:
        """Edits of the best fine-tuning, and its means with the network as it is."""
        tuned = [one for one in self.tried.values() if one.name.startswith(("trades", "pgd-")) and not one.dropped]
        if not tuned:
            return
        best = self.decide("finished", lambda: max(tuned, key=lambda one: (one.score, one.average)).name)
        for way in list_edits(best)[:2]:
            self.try_way(way)
        for share in (0.5, 0.75):
            self.try_way(SoupWay(f"soup{round(100 * share)}-{best}", GIVEN, best, share))

    def seconds_per_image(self, way: TuneWay) -> float:
        """By two steps of the plain fine-tuning on a batch, the second of them timed."""
        m, size = self.material, min(way.training.batch_size, len(self.material.train))
        model = copy.deepcopy(m.model).to(m.device).train()
        x, y, ids = (part.to(m.device) for part in m.train.batch(np.arange(size)))
        x = x.to(next(model.parameters()).dtype)
        loss = MethodLoss(model=model, objective=way.training.objective)
        begun = time.monotonic()
        for _ in range(2):
            begun = time.monotonic()
            loss.terms(x, y, Noise(0, ids, "/time"), policies=(), size=size).per_example.mean().backward()  # type: ignore[no-untyped-call]
        return (time.monotonic() - begun) / size
