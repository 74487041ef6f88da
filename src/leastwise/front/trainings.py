"""`lw.train`: the training of the command line, from Python objects to a network with its record of every class."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leastwise.front.meter import ClassMeter
from leastwise.front.words import in_python_words

if TYPE_CHECKING:
    from leastwise.attacks.choices import Norm
    from leastwise.jobs.settings import TrainSettings
    from leastwise.models.classifier import Classifier


@in_python_words
def train(
    method: str,
    data: Any = "fashion-mini",
    *,
    model: str = "small",
    eps: float | int | str = "8/255",
    norm: "Norm" = "linf",
    steps: int = 5,
    fair: "str | Sequence[str]" = "",
    epochs: int = 12,
    batch_size: int = 128,
    rate: float | None = None,
    average: str = "",
    augment: str = "auto",
    start: str | Path = "",
    set: "Mapping[str, Any] | None" = None,
    seed: int = 0,
    out: str | Path | None = None,
    device: str = "auto",
    threads: int = 0,
    fresh: bool = False,
    progress: bool = True,
    **more: Any,
) -> "TrainedNetwork":
    """Train a network while watching every class, as `leastwise train` does.

    `data` is a name, a path, or whatever `lw.data` takes; such images are written into the cache once, by their
    content. `fair` names class-wise policies, `set={"beta": 4, "cfa.lambda1": 0.3}` changes settings of parts, and
    every other setting of `leastwise train --help` may be given by its name. An interrupted training goes on; one that
    was done is read. Without `out=` it lies in `results/train-KEY`. For a loop of your own see `lw.TRADES` and others.

    >>> import leastwise as lw
    >>> lw.train("pdg-at")
    Traceback (most recent call last):
    ValueError: there is no method 'pdg-at': did you mean pgd-at?
    """
    from leastwise.jobs.settings import TrainSettings

    named = {name: value for name, value in locals().items() if name in TrainSettings.__dataclass_fields__}
    settings = read_settings(named | more, data)
    place = None if out is None else Path(out)
    return carry_out(settings, place, device=device, threads=threads, fresh=fresh, progress=progress)


def read_settings(given: Mapping[str, Any], data: Any) -> "TrainSettings":
    """Settings of Python as the words that the command line has for them."""
    from leastwise.core.text import did_you_mean
    from leastwise.front.conditions import spell_radii
    from leastwise.jobs.settings import TrainSettings

    known = TrainSettings.__dataclass_fields__
    for name in given:
        if name not in known:
            raise ValueError(f"a training has no setting {name!r}: {did_you_mean(name, known)}")
    words = {name: value for name, value in given.items() if name != "set"}
    for name in ("fair", "only", "mean", "std", "test_at"):
        value = words.get(name, "")
        words[name] = value if isinstance(value, str) else ",".join(str(one) for one in value)
    for name in ("start", "teacher", "extra", "awp", "attack_steps"):
        words[name] = str(words.get(name) or "")
    words["eps"] = spell_radii(words["eps"])[0]
    told = {} if given.get("set") is None else dict(given["set"])
    words["set"] = tuple(f"{name}={value}" for name, value in told.items())
    words["data"] = data if isinstance(data, str) else str(data) if isinstance(data, Path) else keep_images(data)
    return TrainSettings(**words)


def keep_images(given: Any) -> str:
    """Images of a Python object as a file of the cache, named by their content; its path."""
    from leastwise.data.cache import cache_root
    from leastwise.data.dataset import Dataset
    from leastwise.data.readers.arrays import save_npz
    from leastwise.front.datasets import data as read_data

    found: Dataset = read_data(given, split="train")
    file = cache_root() / "given" / f"{found.digest()[:16]}.npz"
    if not file.is_file():
        save_npz(file, found)
    return str(file)


def carry_out(
    settings: "TrainSettings", out: Path | None, *, device: str, threads: int, fresh: bool, progress: bool
) -> "TrainedNetwork":
    """Train, or find it done, and say what is doubtful."""
    from leastwise.core.recipe import recipe_key
    from leastwise.core.text import say
    from leastwise.front.progress import open_screen
    from leastwise.jobs.store import RESULTS
    from leastwise.jobs.train_task import prepare_training
    from leastwise.models.preflight import choose_device
    from leastwise.report.terminal.view import progress as show_progress

    screen, job = open_screen(progress), settings.job()
    place = RESULTS / f"train-{recipe_key(job)[:8]}" if out is None else out
    task = prepare_training(job, place, device=choose_device(device, threads), threads=threads)
    notes = [*task.course.data.notes, *filter(None, [settings.doubt_start(task)])]
    for note in notes:
        say(screen, f"warning: {note}")
    if task.finished and not fresh:
        say(screen, f"done before, in {place} (fresh=True does it anew)")
    else:
        with show_progress(screen, f"train {settings.method}", task.names) as listen:
            task.run(listen, fresh=fresh)
    for said in task.doubts:
        say(screen, f"warning: {said}")
    return TrainedNetwork(place, settings.method, task.names, task.doubts)


@dataclass(frozen=True, repr=False)
class TrainedNetwork:
    """A finished training: its folder, its network, and what every epoch saw of every class."""

    folder: Path
    method: str
    names: tuple[str, ...]
    doubts: tuple[str, ...] = ()

    @property
    def weights(self) -> Path:
        """The checkpoint that counts."""
        from leastwise.training.resume import MODEL

        return self.folder / MODEL

    @property
    def model(self) -> "Classifier":
        """The network, ready to be audited."""
        from leastwise.models.load.checkpoint import load_checkpoint

        return load_checkpoint(self.weights)

    @property
    def epochs(self) -> list[dict[str, Any]]:
        """The lines of `epochs.jsonl`."""
        from leastwise.training.resume import EPOCHS

        return [json.loads(line) for line in (self.folder / EPOCHS).read_text("utf-8").splitlines()]

    @property
    def meter(self) -> ClassMeter:
        """What every epoch saw, as the meter of a loop of your own has it."""
        return ClassMeter.read(self.epochs, self.names)

    def to_pandas(self) -> Any:
        """A row for each epoch, set of images, condition and class: n, correct, accuracy."""
        from leastwise.report.notebook import make_frame

        return make_frame(self.meter.rows())

    def __repr__(self) -> str:
        lines = [
            f"Training by {self.method}, {len(self.epochs)} epochs, in {self.folder}",
            *repr(self.meter).splitlines(),
        ]
        return "\n".join([*lines, *(f"warning: {said}" for said in self.doubts)][:10])
