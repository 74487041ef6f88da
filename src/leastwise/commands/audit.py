"""`leastwise audit`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from leastwise.commands.shared import (
    Keep,
    Norm,
    Screen,
    chosen_device,
    loaded,
    sized,
    threat_of,
    use_data_dir,
)
from leastwise.notation import numbers, seconds

if TYPE_CHECKING:
    from leastwise.audit import Auditor
    from leastwise.data import Dataset
    from leastwise.models import Classifier

Form = Literal["auto", "given", "folded", "channels-last", "folded-channels-last"]


@dataclass(frozen=True)
class Audit:
    """Attack a classifier and report every class, with intervals."""

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """path/file.py:function or package.module:function returning a network, a checkpoint, .pt2, .onnx, …"""
    data: Annotated[str, tyro.conf.arg(metavar="DATA")] = "fashion-mini"
    """NAME, NAME/SPLIT, an .npz or .npy, or a folder with one sub-folder of images per class"""
    size: int = 0
    """image files only: the side of the square to cut out of each; 0 to take them as they are"""
    data_dir: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where known data sets lie; the variable LEASTWISE_DATA, or the cache, unless given"""
    attack: Annotated[str, tyro.conf.arg(metavar="LIST")] = "clean,pgd20,tpgd20"
    """names separated by commas; `leastwise list attacks` shows them"""
    eps: Annotated[str, tyro.conf.arg(metavar="EPS")] = "8/255"
    """how far an attack may go, in pixel units of [0, 1]; several, separated by commas, make a security curve"""
    step: Annotated[str, tyro.conf.arg(metavar="STEP")] = ""
    """step size of iterative attacks; eps/4 unless given"""
    norm: Norm = "linf"
    """how the distance is measured (cwinf needs linf, cwl2 and ddn need l2)"""
    keep: Keep = "fooled"
    """count an image as lost at any misclassified iterate (fooled), or at the last one only (last)"""
    arch: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """architecture of a bare state dict; `leastwise list models` shows them"""
    mean: Annotated[str, tyro.conf.arg(metavar="A,B,C")] = ""
    """normalisation that goes inside the model: means per channel"""
    std: Annotated[str, tyro.conf.arg(metavar="A,B,C")] = ""
    """normalisation that goes inside the model: standard deviations per channel"""
    groups: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """superclasses to report beside the classes: a text file with lines `group: class, class, …`"""
    trust: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """allow formats that can run code when they are loaded (.pt2, Hugging Face folders with their own code)"""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """audit although a check before it says the result may mean little; every output repeats the warning"""
    form: Form = "auto"
    """how attacks compute the network: the fastest equivalent form (auto), as it is given, or one of the others"""
    per_class: int = 0
    """audit only the first images of each class; 0 for all"""
    only: Annotated[str, tyro.conf.arg(metavar="CLASSES")] = ""
    """audit only these classes: names or numbers, separated by commas"""
    time_budget: Annotated[str, tyro.conf.arg(metavar="TIME")] = ""
    """90s, 20m, 2h: audit as many images, drawn at random, as fit, and say how many were left out"""
    seed: int = 0
    """seed of the attacks' random starts"""
    device: str = "auto"
    """cpu, cuda, …"""
    threads: int = 0
    """processor threads; 0 leaves the choice to torch"""
    batch_size: int = 0
    """images attacked at a time; 0 for as many as a gigabyte holds, at most 1,000"""
    save_adversarial: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """keep the attacked images, bit by bit, and say how many attacks survive in 8 bits"""
    shard: int = 0
    """images between two commits to disk, from where an interrupted audit goes on; 0 for ten batches, at most 1,000"""
    fresh: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """do it anew, and replace what --out holds"""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where evidence and summary go; results/audit-KEY unless given"""

    def run(self) -> None:
        radii = [radius.strip() for radius in self.eps.split(",")]
        threat, *_ = (threat_of(self.norm, radius, self.step, self.keep) for radius in radii)
        mean, std = numbers(self.mean, "mean"), numbers(self.std, "std")
        budget = seconds(self.time_budget)
        use_data_dir(self.data_dir)
        from leastwise import engine, evidence, report
        from leastwise.attacks import Surrogate, listed, named_all, over_radii, surrogate
        from leastwise.audit import auditor as make_auditor
        from leastwise.data import read_groups
        from leastwise.models import resolve
        from leastwise.models.prepare import FORMS
        from leastwise.store import write_json

        console = Screen()
        listed(self.attack)  # a misspelt name is found before the data are read
        data = engine.subset(loaded(console, sized(self.data, self.size)), self.per_class or None)
        if self.only:
            data = data.only([class_of(name.strip(), data.names) for name in self.only.split(",")])
        if self.groups:
            data = data.grouped(read_groups(Path(self.groups), data.names))
        device = chosen_device(self.device, self.threads)

        def classifier(name: str) -> "Classifier":
            return resolve(name, data.shape, data.names, self.arch or None, mean, std, trust=self.trust)

        def other(name: str) -> Surrogate:
            return surrogate(name, classifier(name).to(device))

        model = classifier(self.model)
        threat = replace(threat, load=other)
        conditions = named_all(over_radii(self.attack, radii, threat), threat)
        auditor = make_auditor(
            model, data, conditions, self.seed, self.batch_size, device, self.force, self.shard, self.save_adversarial
        )
        folder = Path(self.out or f"results/audit-{auditor.key[:8]}")
        task = engine.audit_task(auditor, data, folder, FORMS.get(self.form), budget)
        echo(console, self.model, self.data, auditor, data)
        if task.finished and not self.fresh:
            report.say(console, f"done before, in {task.folder} (--fresh does it anew)")
        else:
            with report.progress(console, "audit", data.names) as watch:
                task.run(watch, self.fresh)
        # The classes may have been grouped otherwise since the evidence was made.
        found = replace(evidence.load(task.folder), groups=data.groups)
        write_json(task.folder / engine.SUMMARY, report.summary(found))
        report.print_classes(console, found, self.model)
        report.say(console, f"\n{report.headline(found)}")
        report.say(console, f"Evidence and summary: {task.folder}")


def class_of(text: str, names: Sequence[str]) -> int | str:
    """A class by its name, or else by its number."""
    return int(text) if text.isdecimal() and text not in names else text


def echo(console: Console, model: str, name: str, auditor: "Auditor", data: "Dataset") -> None:
    """Say what was understood, with every default resolved, and what a reader should know."""
    from leastwise import report

    c, h, w = data.shape
    conditions = auditor.recipe.conditions
    width = max(len(condition) for condition, _ in conditions)
    lines = [f"model  {model}", *(f"       {note}" for note in auditor.model.notes)]
    lines += [f"data   {name}: {len(data):,} images of {c}x{h}x{w}, {data.k} classes"]
    lines += [f"       {note}" for note in data.notes]
    lines += [f"attack {condition:{width}}  {attack}" for condition, attack in conditions]
    lines += [f"warning: {warning}" for warning in auditor.warnings]
    for line in lines:
        report.say(console, line)
