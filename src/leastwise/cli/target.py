"""What verbs that attack a classifier have in common: which classifier, on which images, how far, how computed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import tyro
from rich.console import Console

from leastwise.cli.options import Keep, Norm, chosen_device, loaded, sized, threat_of, use_data_dir
from leastwise.core.parsing import parse_numbers

if TYPE_CHECKING:
    from leastwise.attacks.naming import Threat
    from leastwise.audit.auditor import Auditor
    from leastwise.data.dataset import Dataset
    from leastwise.models.classifier import Classifier

Form = Literal["auto", "given", "folded", "channels-last", "folded-channels-last"]


class Ready(NamedTuple):
    """A loaded classifier, its data, and the threat that attacks share."""

    model: "Classifier"
    data: "Dataset"
    threat: "Threat"
    device: str


@dataclass(frozen=True)
class Target:
    """A classifier and the images to attack it on."""

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """path/file.py:function or package.module:function returning a network, a checkpoint, .pt2, .onnx, …"""
    data: Annotated[str, tyro.conf.arg(metavar="DATA")] = "fashion-mini"
    """NAME, NAME/SPLIT, an .npz or .npy, or a folder with one sub-folder of images per class"""
    size: int = 0
    """image files only: the side of the square to cut out of each; 0 to take them as they are"""
    data_dir: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where known data sets lie; the variable LEASTWISE_DATA, or the cache, unless given"""
    per_class: int = 0
    """only the first images of each class; 0 for all"""
    only: Annotated[str, tyro.conf.arg(metavar="CLASSES")] = ""
    """only these classes: names or numbers, separated by commas"""
    groups: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """superclasses to report beside the classes: a text file with lines `group: class, class, …`"""
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
    trust: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """allow formats that can run code when they are loaded (.pt2, Hugging Face folders with their own code)"""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """go on although a check before it says the result may mean little; every output repeats the warning"""
    form: Form = "auto"
    """how attacks compute the network: the fastest equivalent form (auto), as it is given, or one of the others"""
    seed: int = 0
    """seed of the attacks' random starts"""
    device: str = "auto"
    """cpu, cuda, …"""
    threads: int = 0
    """processor threads; 0 leaves the choice to torch"""
    batch_size: int = 0
    """images attacked at a time; 0 for as many as a gigabyte holds, at most 1,000"""

    def ready(self, console: Console, eps: str, attack: str, threads: int = 0) -> Ready:
        """Everything loaded; `eps` is one radius. A misspelt name or number is found before the data are read."""
        threat = threat_of(self.norm, eps, self.step, self.keep)
        mean, std = parse_numbers(self.mean, "mean"), parse_numbers(self.std, "std")
        use_data_dir(self.data_dir)
        from leastwise.attacks.registry import split_names
        from leastwise.attacks.surrogate import Surrogate, make_surrogate
        from leastwise.data.classes import read_groups
        from leastwise.jobs.train import subset
        from leastwise.models.load.dispatch import load_model

        split_names(attack)
        data = subset(loaded(console, sized(self.data, self.size)), self.per_class or None)
        if self.only:
            data = chosen(data, [class_of(name.strip(), data.names) for name in self.only.split(",")], self.model)
        if self.groups:
            data = data.with_groups(read_groups(Path(self.groups), data.names))
        device = chosen_device(self.device, threads or self.threads)

        def classifier(name: str) -> "Classifier":
            return load_model(
                name, data.shape, data.names, arch=self.arch or None, mean=mean, std=std, trust=self.trust
            )

        def other(name: str) -> Surrogate:
            return make_surrogate(name, classifier(name).to(device))

        return Ready(classifier(self.model), data, replace(threat, load=other), device)

    @property
    def about(self) -> dict[str, str]:
        """What a reader of the results wants to know and the recipe has only digests of."""
        return {"model": self.model, "data": self.data} | ({"arch": self.arch} if self.arch else {})


def chosen(data: "Dataset", classes: Sequence[int | str], model: str) -> "Dataset":
    """Images of some classes. For a checkpoint that was trained on just these they are the only classes there are."""
    from leastwise.models.load.checkpoint import read_own_classes

    some = data.only(classes)
    own = read_own_classes(Path(model)) if Path(model).is_file() else ()
    return data.keep(own) if set(own) == {data.names[data.index(c)] for c in classes} else some


def class_of(text: str, names: Sequence[str]) -> int | str:
    """A class by its name, or else by its number."""
    return int(text) if text.isdecimal() and text not in names else text


def echo(console: Console, target: Target, auditor: "Auditor", data: "Dataset") -> None:
    """Say what was understood, with every default resolved, and what a reader should know."""
    from leastwise.report.terminal.screen import say

    c, h, w = data.shape
    conditions = auditor.recipe.conditions
    width = max(len(condition) for condition, _ in conditions)
    lines = [f"model  {target.model}", *(f"       {note}" for note in auditor.model.notes)]
    lines += [f"data   {target.data}: {len(data):,} images of {c}x{h}x{w}, {data.k} classes"]
    lines += [f"       {note}" for note in data.notes]
    lines += [f"attack {condition:{width}}  {attack}" for condition, attack in conditions]
    lines += [f"warning: {warning}" for warning in auditor.warnings]
    for line in lines:
        say(console, line)
