"""`lw.lift`: make the worst class of a trained network better, and prove it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leastwise.core.text import escape_html
from leastwise.front.progress import open_screen
from leastwise.front.words import in_python_words

if TYPE_CHECKING:
    from leastwise.attacks.choices import Norm
    from leastwise.data.dataset import Dataset
    from leastwise.jobs.events import JobEventListener
    from leastwise.models.classifier import Classifier
    from leastwise.statistics.lift import LiftAim

SHOWN = 10  # lines of a repr


@dataclass(frozen=True)
class LiftAnswer:
    """What a lift found: `outcome` in words, `lifted`, all numbers in `told`, and the networks in `folder`."""

    outcome: str
    told: Mapping[str, Any]
    folder: Path

    @property
    def lifted(self) -> bool:
        return self.outcome == "lifted"

    def model(self) -> "Classifier":
        """The lifted network."""
        from leastwise.jobs.lift.lift import LIFTED
        from leastwise.models.load.checkpoint import load_checkpoint

        if not self.lifted:
            raise ValueError(f"there is no lifted network, for the outcome is {self.outcome!r}")
        return load_checkpoint(self.folder / LIFTED)

    def __repr__(self) -> str:
        from leastwise.report.terminal.lift import verdict_sentence

        return verdict_sentence(self.told)

    def _repr_html_(self) -> str:
        from leastwise.report.terminal.lift import lift_lines

        return f"<pre>{escape_html(chr(10).join(lift_lines(self.told)))}</pre>"


@in_python_words
def lift(
    model: Any,
    train: Any,
    test: Any = None,
    *,
    valid: Any = None,
    eps: float | str = "8/255",
    norm: "Norm" = "linf",
    attack: str = "pgd20+mm3",
    verify: str | None = "autoattack",
    verify_per_class: int = 50,
    aim: "LiftAim" = "worst",
    give_up: float = 1.0,
    budget: str = "30m",
    out: str | Path = "results/lift",
    seed: int = 0,
    device: str = "auto",
    threads: int = 0,
    fresh: bool = False,
    progress: bool = True,
) -> LiftAnswer:
    """Try edits and fine-tunings on validation images, and judge the best once on test images.

    `train` and `test` are what `lw.data` takes; of a known name, or a folder with both parts, `test` is found. `valid`
    are images to choose by, a part of `train` unless given. `give_up` is in points of the average accuracy under
    attack, `budget` the time of the search, such as "30m". Everything lies in `out`: an interrupted lift goes on.
    `leastwise lift --help` and the guide say what is tried.
    """
    settings = dict(locals())
    return LiftRequest(**settings).run()


@dataclass(frozen=True)
class LiftRequest:
    """The settings of a lift."""

    model: Any
    train: Any
    test: Any
    valid: Any
    eps: float | str
    norm: str
    attack: str
    verify: str | None
    verify_per_class: int
    aim: "LiftAim"
    give_up: float
    budget: str
    out: str | Path
    seed: int
    device: str
    threads: int
    fresh: bool
    progress: bool

    def run(self) -> LiftAnswer:
        """Search and judge; what was done before is found."""
        from leastwise.attacks.registry import make_attack, make_threat
        from leastwise.core.text import parse_seconds, say
        from leastwise.front.models import model as read_model
        from leastwise.jobs.lift.candidate import LiftMaterial, attack_for_edits
        from leastwise.jobs.lift.lift import LiftOptions
        from leastwise.jobs.lift.lift import lift as search_and_judge
        from leastwise.models.preflight import choose_device
        from leastwise.report.terminal.view import progress as show_progress

        seconds = parse_seconds(self.budget, "budget=")
        if not seconds:
            raise ValueError("a search needs a budget of time: give budget=, such as '30m'")
        threat = make_threat(self.norm, self.eps)
        feared = make_attack(self.attack, threat)
        stronger = None if self.verify is None else make_attack(self.verify, threat)
        screen = open_screen(self.progress)
        some, chosen_by, last = read_images(self.train, self.test, self.valid, seed=self.seed)
        device = choose_device(self.device, self.threads)
        network = read_model(self.model, last).to(device)

        @contextmanager
        def show(label: str) -> "Iterator[JobEventListener]":
            with show_progress(screen, label, last.names) as listen:
                yield listen

        edits = attack_for_edits(threat.ball)
        material = LiftMaterial(
            network, some, chosen_by, feared, edits, Path(self.out), self.seed, device, self.threads
        )
        options = LiftOptions(self.aim, self.give_up / 100, seconds, stronger, self.verify_per_class)
        told = search_and_judge(
            material, last, options, show=show, tell=lambda said: say(screen, said), fresh=self.fresh
        )
        return LiftAnswer(told.outcome, told.told, told.folder)


def read_images(train: Any, test: Any, valid: Any, *, seed: int) -> "tuple[Dataset, Dataset, Dataset]":
    """Images to train on, to choose by, and to look at once."""
    from leastwise.front.datasets import data
    from leastwise.jobs.lift.candidate import hold_out

    if test is None and not isinstance(train, str | Path):
        raise ValueError("a lift is judged on test images: give them as the third argument")
    last = data(train if test is None else test)
    some = data(train, split="train")
    if valid is not None:
        return some, data(valid), last
    return *hold_out(some, seed), last
