"""`leastwise calibrate`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from leastwise.attacks.choices import Norm
from leastwise.cli.options import load_data, use_data_dir
from leastwise.core.text import Screen, say
from leastwise.training.choices import CalibrationRule

if TYPE_CHECKING:
    from leastwise.attacks.pgd import PGD
    from leastwise.data.dataset import Dataset
    from leastwise.models.classifier import Classifier
    from leastwise.training.calibrate import Calibration, CalibrationTrial


@dataclass(frozen=True)
class Calibrate:
    """Lift the worst class of a trained network without retraining: an offset for the logit of each class.

    The offsets are chosen on one half of images that were neither trained nor tested on, and kept only if they lift the
    worst class of the other half by more than chance; both networks are then attacked on the test set.
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FOLDER")]
    """the folder of a training, or a checkpoint with --valid"""
    data: Annotated[str, tyro.conf.arg(metavar="DATA")] = ""
    """what it was trained on; a training's folder says so itself"""
    valid: Annotated[str, tyro.conf.arg(metavar="DATA")] = ""
    """images to choose on; the validation images of the training unless given"""
    data_dir: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where known data sets lie; the variable LEASTWISE_DATA, or the cache, unless given"""
    eps: Annotated[str, tyro.conf.arg(metavar="EPS")] = "8/255"
    """how far the attack may go, in pixel units of [0, 1]"""
    step: Annotated[str, tyro.conf.arg(metavar="STEP")] = ""
    """its step size; eps/4 unless given"""
    steps: int = 20
    """its number of steps"""
    norm: Norm = "linf"
    """how the distance is measured"""
    rule: CalibrationRule = "sum"
    """what the offsets should lift: the worst class, or the sum of worst class and average"""
    rounds: int = 3
    """how often offsets are chosen, attacked and chosen again"""
    per_class: int = 0
    """test on only the first images of each class; 0 for all"""
    seed: int = 0
    """seed of the attack's random starts"""
    device: str = "auto"
    """cpu, cuda, xpu, …; auto: the accelerator that torch finds, if there is one"""
    threads: int = 0
    """processor threads; 0 leaves the choice to torch"""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = "results/calibrated"
    """where the network with offsets and the numbers go"""

    def run(self) -> None:
        from leastwise.attacks.registry import make_threat

        threat = make_threat(self.norm, self.eps, self.step)
        use_data_dir(self.data_dir)
        from leastwise.attacks.base import Clean
        from leastwise.attacks.goals import CE
        from leastwise.attacks.pgd import PGD
        from leastwise.attacks.threats import Uniform
        from leastwise.core.files import check_writable, write_json
        from leastwise.jobs.audit_task import audit
        from leastwise.models.load.checkpoint import save_checkpoint
        from leastwise.models.load.dispatch import load_model
        from leastwise.models.preflight import choose_device
        from leastwise.report.summary import summarise
        from leastwise.report.terminal.view import print_classes, progress, what_changed
        from leastwise.training.calibrate import with_offsets

        console, out = Screen(), Path(self.out)
        check_writable(out)
        device = choose_device(self.device, self.threads)
        place = Path(self.model)
        recipe = read_recipe(place) if place.is_dir() else None
        name = self.data or (recipe["data"]["name"] if recipe else "")
        if not name:
            raise ValueError(f"{self.model} does not say what it was trained on: give --data")
        valid = self.load_validation(console, name, recipe)
        test = load_data(console, name.partition("/")[0] if recipe else name, "test")
        test = test.take(self.per_class) if self.per_class else test
        model = load_model(place, test.shape, test.names).to(device)
        attack = PGD(threat.ball, CE(), threat.step, self.steps, Uniform())
        say(console, f"choosing on {len(valid):,} validation images under {attack}")
        found, trial = self.choose(console, model, valid, attack=attack, device=device)
        offsets = found.offsets if trial.accepted else found.offsets * 0
        after = with_offsets(model, offsets)
        # Common noise: the two audits differ by the offsets alone.
        conditions = (("clean", Clean()), (f"pgd{self.steps}", attack))
        evidence = {}
        for label, one in (("before", model), ("after", after)):
            with progress(console, f"test {label}", test.names) as listen:
                evidence[label] = audit(one, test, conditions, seed=self.seed, device=device, listen=listen)
            print_classes(console, evidence[label], label)
        saying = what_changed(evidence["before"], evidence["after"], ("before", "after"), condition=f"pgd{self.steps}")
        say(console, f"\n{saying}")
        notes = (*model.notes, self.describe_choice(len(valid), trial.accepted))
        save_checkpoint(out / "model.pt", after.cpu(), test.shape, names=test.names, notes=notes)
        content: dict[str, Any] = {
            "offsets": dict(zip(test.names, offsets.tolist(), strict=True)),
            "accepted": trial.accepted,
            "suggested": dict(zip(test.names, found.offsets.tolist(), strict=True)),
            "lift": {"value": trial.lift.value, "low": trial.lift.low, "high": trial.lift.high, "p": trial.lift.p},
            "other_half": {"before": tally_block(trial.before), "after": tally_block(trial.after)},
            "rule": self.rule,
            "attack": str(attack),
            "validation": {"before": tally_block(found.before), "after": tally_block(found.after)},
            "test": {label: summarise(one) for label, one in evidence.items()},
        }
        write_json(out / "calibration.json", content)
        say(console, f"Checkpoint and numbers: {out}")

    def describe_choice(self, images: int, accepted: bool) -> str:
        """The note that goes with the checkpoint."""
        if not accepted:
            return f"offsets that {images} validation images suggested were refused (leastwise calibrate)"
        return f"logit offsets were chosen on {images} validation images (leastwise calibrate, rule {self.rule})"

    def choose(
        self, console: Screen, model: "Classifier", valid: "Dataset", *, attack: "PGD", device: str
    ) -> "tuple[Calibration, CalibrationTrial]":
        """Offsets chosen on one half of the validation images, and what they do on the other."""
        import numpy as np

        from leastwise.statistics.spread import worst_class
        from leastwise.training.calibrate import choose_offsets, measure_lift, split_halves

        chosen_on, tried_on = split_halves(valid)
        if not len(tried_on):
            raise ValueError(
                "offsets are chosen on one half of the validation images and tested on the other: give more"
            )
        found = choose_offsets(
            model, chosen_on, attack, rule=self.rule, rounds=self.rounds, seed=self.seed, device=device
        )
        weakest = worst_class(np.where(tried_on.counts > 0, found.before.accuracy.numpy(), np.nan))
        trial = measure_lift(
            model, found.offsets, tried_on, attack=attack, weakest=weakest, seed=self.seed, device=device
        )
        say(console, lift_sentence(trial, len(tried_on)))
        return found, trial

    def load_validation(self, console: Screen, name: str, recipe: dict[str, Any] | None) -> "Dataset":
        """The images to choose on: those the training held out, or those the user names."""
        from leastwise.jobs.train_task import keep_classes
        from leastwise.training.recipe import Validation

        if self.valid:
            return load_data(console, self.valid, "validation")
        if recipe is None:
            raise ValueError("choosing on images that were trained or tested on would flatter: give --valid DATA")
        training = recipe["training"]
        held = training["validation"]["per_class"]
        data = load_data(console, name, "train")
        if recipe["data"]["per_class"] is not None:
            data = data.take(recipe["data"]["per_class"])
        data = keep_classes(data, tuple(recipe["only"]))
        count = Validation(held).images(data)
        if not count or training["validation"]["on_test"]:
            raise ValueError("this training held no validation images out: give --valid DATA")
        return data.split(count, training["seed"])[1]


def lift_sentence(trial: "CalibrationTrial", images: int) -> str:
    """What the offsets did to the worst class of images they were not chosen on, and whether they are kept."""
    lift = trial.lift
    said = f"on {images:,} other validation images the worst class changes by {100 * lift.value:+.1f} points "
    said += f"[{100 * lift.low:+.1f}, {100 * lift.high:+.1f}], 5 % of error on each side: "
    return said + ("the offsets are kept" if trial.accepted else "chance explains it, so no offset is used")


def read_recipe(folder: Path) -> dict[str, Any]:
    """What a training wrote down about itself."""
    try:
        found: dict[str, Any] = json.loads((folder / "recipe.json").read_text("utf-8"))["recipe"]
        found["training"]["validation"], found["data"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{folder} is not the folder of a training: give its checkpoint, --data and --valid") from None
    return found


def tally_block(value: Any) -> dict[str, list[int]]:
    """Counts as plain values."""
    return {"n": value.n.tolist(), "correct": value.correct.tolist()}
