"""`leastwise lift`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from leastwise.attacks.choices import Norm
from leastwise.cli.options import load_data, use_data_dir
from leastwise.core.text import Screen, parse_numbers, parse_seconds, parse_share, say

if TYPE_CHECKING:
    from leastwise.data.dataset import Dataset
    from leastwise.jobs.events import JobEventListener


@dataclass(frozen=True)
class Lift:
    """Make the worst class of a trained network better, at a small cost of the average, and prove it.

    Edits of the last layer, fine-tunings and means of networks are tried on validation images, from cheap to dear; the
    best is judged once on test images. Exit 0: lifted; 1: nothing lifts it within the limit; 3: undecided.
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """a checkpoint, the folder of a training, or path/file.py:function returning a network"""
    data: Annotated[str, tyro.conf.arg(metavar="DATA")] = "fashion-mini"
    """the data set, with a training and a test part"""
    valid: Annotated[str, tyro.conf.arg(metavar="DATA")] = ""
    """images to choose by; a part of the training images unless given"""
    data_dir: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where known data sets lie; the variable LEASTWISE_DATA, or the cache, unless given"""
    eps: Annotated[str, tyro.conf.arg(metavar="EPS")] = "8/255"
    """how far the attack may go, in pixel units of [0, 1]"""
    norm: Norm = "linf"
    """how the distance is measured"""
    attack: Annotated[str, tyro.conf.arg(metavar="NAME")] = "pgd20+mm3"
    """what candidates are measured under, after they were made"""
    verify: Annotated[str, tyro.conf.arg(metavar="NAME")] = "autoattack"
    """the stronger attack under which a lift must not vanish; none for none"""
    verify_per_class: int = 50
    """test images of each class that it is verified on"""
    aim: Literal["worst", "cvar10", "gap"] = "worst"
    """what to lift: the worst class, the mean of the lowest tenth of the classes, or minus the gap"""
    give_up: Annotated[str, tyro.conf.arg(metavar="POINTS")] = "1.0"
    """points of the average accuracy under attack that it may cost"""
    budget: Annotated[str, tyro.conf.arg(metavar="TIME")] = "30m"
    """time for the search, such as 30m or 2h"""
    per_class: int = 0
    """look at only the first test images of each class at the end; 0 for all"""
    arch: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """architecture of a bare state dict; `leastwise list models` shows them"""
    mean: Annotated[str, tyro.conf.arg(metavar="A,B,C")] = ""
    """normalisation that goes inside the model: means per channel"""
    std: Annotated[str, tyro.conf.arg(metavar="A,B,C")] = ""
    """normalisation that goes inside the model: standard deviations per channel"""
    seed: int = 0
    """seed of the split, the trainings and the attacks"""
    device: str = "auto"
    """cpu, cuda, xpu, …; auto: the accelerator that torch finds, if there is one"""
    threads: int = 0
    """processor threads; 0 leaves the choice to torch"""
    fresh: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """do it anew, and replace what --out holds"""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = "results/lift"
    """where candidates, measurements, the answer and the lifted network go"""

    def run(self) -> None:
        limit = parse_share(f"{self.give_up.rstrip('%')}%", "--give-up")
        seconds = parse_seconds(self.budget, "--budget")
        if not seconds:
            raise ValueError("a search needs a budget of time: give --budget, such as 30m")
        use_data_dir(self.data_dir)
        from leastwise.attacks.registry import make_attack, make_threat
        from leastwise.jobs.lift.candidate import LiftMaterial, attack_for_edits
        from leastwise.jobs.lift.lift import LiftOptions, lift
        from leastwise.models.load.dispatch import load_model
        from leastwise.models.preflight import choose_device
        from leastwise.report.terminal.lift import lift_lines

        console = Screen()
        threat = make_threat(self.norm, self.eps)
        attack = make_attack(self.attack, threat)
        verify = None if self.verify == "none" else make_attack(self.verify, threat)
        device = choose_device(self.device, self.threads)
        say(console, f"reading {self.data} and {self.model}")
        train, valid, test = self.read_images(console)
        place = Path(self.model)
        file = str(place / "model.pt") if place.is_dir() else self.model
        mean, std = parse_numbers(self.mean, "mean"), parse_numbers(self.std, "std")
        model = load_model(file, test.shape, test.names, arch=self.arch or None, mean=mean, std=std).to(device)
        if not model.gradients:
            raise ValueError(f"{self.model} can only be asked, and a lift changes weights: give the network itself")
        material = LiftMaterial(
            model, train, valid, attack, attack_for_edits(threat.ball), Path(self.out),
            self.seed, device, self.threads,
        )  # fmt: skip
        options = LiftOptions(self.aim, limit, seconds, verify, self.verify_per_class)

        @contextmanager
        def show(label: str) -> "Iterator[JobEventListener]":
            from leastwise.report.terminal.view import progress

            with progress(console, label, test.names) as listen:
                yield listen

        found = lift(material, test, options, show=show, tell=lambda said: say(console, said), fresh=self.fresh)
        for line in lift_lines(found.told):
            say(console, line)
        say(console, f"Answer and networks: {found.folder}")
        if found.exit_code:
            raise SystemExit(found.exit_code)

    def read_images(self, console: Screen) -> "tuple[Dataset, Dataset, Dataset]":
        """Images to train on, to choose by, and to look at once."""
        test = load_data(console, self.data, "test")
        test = test.take(self.per_class) if self.per_class else test
        train = load_data(console, self.data.partition("/")[0], "train")
        if self.valid:
            return train, load_data(console, self.valid, "validation"), test
        from leastwise.jobs.lift.candidate import hold_out

        rest, valid = hold_out(train, self.seed)
        note = f"choosing by {len(valid):,} of the training images, which the network may have been trained on"
        say(console, f"note: {note}; the verdict is about test images")
        return rest, valid, test
