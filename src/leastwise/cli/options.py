"""Options and helpers that several verbs share: what is attacked, who computes, threats, devices, data."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import tyro
from rich.console import Console

from leastwise.attacks.choices import Keep, Norm
from leastwise.core.text import parse_numbers, parse_seconds

if TYPE_CHECKING:
    from leastwise.attacks.naming import Threat
    from leastwise.audit.auditor import Auditor, Conditions
    from leastwise.data.dataset import Dataset
    from leastwise.jobs.executor import Executor
    from leastwise.models.classifier import Classifier


def use_data_dir(folder: str) -> None:
    """`--data-dir DIR` is short for LEASTWISE_DATA=DIR."""
    if folder:
        os.environ["LEASTWISE_DATA"] = folder


def load_data(console: Console, spec: str, split: str = "test", *, size: int = 0) -> "Dataset":
    """The data set, with progress while image files are examined for the first time; `--size 64` is short for @64."""
    from leastwise.data.loading import load, with_size
    from leastwise.report.terminal.view import steps

    with steps(console, "examining images") as watch:
        return load(with_size(spec, size), split, watch)


FormName = Literal["auto", "given", "folded", "channels-last", "folded-channels-last"]


class LoadedTarget(NamedTuple):
    """A loaded classifier, its data, and the threat that attacks share."""

    model: "Classifier"
    data: "Dataset"
    threat: "Threat"
    device: str


@dataclass(frozen=True)
class TargetOptions:
    """A classifier and the images to attack it on."""

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """path/file.py:function or package.module:function returning a network, a checkpoint, the folder of a training,
    .onnx, .pt2, TorchScript, hf:NAME, timm:NAME, torchvision:NAME, robustbench:NAME, …"""
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
    map: Annotated[str, tyro.conf.arg(metavar="A=B,…")] = ""
    """classes that data and model call otherwise: car=automobile says that the model's automobile is the data's car"""
    trust: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """allow what can run code when it is loaded (TorchScript, .pt2, pickled networks, folders with their own code)"""
    no_resize: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """give images to the model as they are, also where it says that it resizes them"""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """go on although a check before it says the result may mean little; every output repeats the warning"""
    form: FormName = "auto"
    """how attacks compute the network: the fastest equivalent form (auto), as it is given, or one of the others"""
    seed: int = 0
    """seed of the attacks' random starts"""
    device: str = "auto"
    """cpu, cuda, xpu, …; auto: the accelerator that torch finds, if there is one"""
    threads: int = 0
    """processor threads; 0 leaves the choice to torch"""
    batch_size: int = 0
    """images attacked at a time; 0 for 16 to 500 by the size of the network's tensors"""

    def ready(self, console: Console, eps: str, attack: str, *, threads: int = 0) -> LoadedTarget:
        """Everything loaded; `eps` is one radius. A misspelt name or number is found before the data are read."""
        from leastwise.attacks.registry import make_threat
        from leastwise.models.preflight import choose_device

        threat = make_threat(self.norm, eps, self.step, keep=self.keep)
        mean, std = parse_numbers(self.mean, "mean"), parse_numbers(self.std, "std")
        use_data_dir(self.data_dir)
        from leastwise.attacks.registry import split_names
        from leastwise.attacks.surrogate import Surrogate, make_surrogate
        from leastwise.core.text import say
        from leastwise.data.classes import read_groups
        from leastwise.models.load.dispatch import load_model
        from leastwise.models.output_check import parse_map

        split_names(attack)
        mapping = parse_map(self.map)
        # Reading, a first pass and the checks may take a minute: say what is being done before they begin.
        say(console, f"reading {self.data} and {self.model}, and checking them")
        data = self.load_data(console, mean=mean, std=std)
        if self.per_class:
            data = data.take(self.per_class)
        if self.only:
            data = keep_classes_of(
                data, [parse_class(name.strip(), data.names) for name in self.only.split(",")], self.model
            )
        if self.groups:
            data = data.with_groups(read_groups(Path(self.groups), data.names))
        device = choose_device(self.device, threads or self.threads)

        def classifier(name: str) -> "Classifier":
            return load_model(
                name,
                data.shape,
                data.names,
                arch=self.arch or None,
                mean=mean,
                std=std,
                trust=self.trust,
                mapping=mapping,
                resize=not self.no_resize,
            )

        def other(name: str) -> Surrogate:
            return make_surrogate(name, classifier(name).to(device))

        return LoadedTarget(classifier(self.model), data, replace(threat, load=other), device)

    def load_data(self, console: Console, *, mean: Sequence[float], std: Sequence[float]) -> "Dataset":
        """The data; photographs of many sizes are cut to what the model says it takes, unless the user says a size."""
        from leastwise.core.text import say
        from leastwise.data.readers.image_folder import MixedSizes
        from leastwise.models.load.dispatch import load_model, read_side

        try:
            return load_data(console, self.data, size=self.size)
        except MixedSizes:
            place, _, name = self.model.rpartition(":")
            if place.endswith(".py") or name.isidentifier():  # a function that would be called twice
                raise
            side = read_side(load_model(self.model, arch=self.arch or None, mean=mean, std=std, trust=self.trust))
            if side is None:
                raise
            say(console, f"the images have several sizes: squares of {side} pixels, which the model takes, are cut out")
            return load_data(console, self.data, size=side)

    def make_auditor(
        self, loaded: "LoadedTarget", conditions: "Conditions", *, shard: int = 0, images: bool = False
    ) -> "Auditor":
        """The auditor of what was loaded, under some conditions, with the settings of the command."""
        from leastwise.audit.auditor import make_auditor

        return make_auditor(
            loaded.model,
            loaded.data,
            conditions,
            seed=self.seed,
            batch_size=self.batch_size,
            device=loaded.device,
            force=self.force,
            shard=shard,
            images=images,
        )

    @property
    def about(self) -> dict[str, str]:
        """What a reader of the results wants to know and the recipe has only digests of."""
        return {"model": self.model, "data": self.data} | ({"arch": self.arch} if self.arch else {})


def keep_classes_of(data: "Dataset", classes: Sequence[int | str], model: str) -> "Dataset":
    """Images of some classes. For a checkpoint that was trained on just these they are the only classes there are."""
    from leastwise.models.load.checkpoint import read_own_classes

    some = data.only(classes)
    own = read_own_classes(Path(model)) if Path(model).is_file() else ()
    return data.keep(own) if set(own) == {data.names[data.index(c)] for c in classes} else some


def refuse_to_replace(file: Path, key: str, what: str) -> None:
    """Refuse to write over a file that is not of the kind that would be written: of those, one more is quickly made."""
    if not file.exists():
        return
    try:
        held = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        held = None
    if not isinstance(held, dict) or key not in held:
        raise ValueError(f"{file} holds something else than {what}: choose another name with --out")


def parse_class(text: str, names: Sequence[str]) -> int | str:
    """A class by its name, or else by its number."""
    return int(text) if text.isdecimal() and text not in names else text


def echo(console: Console, target: TargetOptions, auditor: "Auditor", *, data: "Dataset") -> None:
    """Say what was understood, with every default resolved, and what a reader should know."""
    from leastwise.core.text import say

    c, h, w = data.shape
    conditions = auditor.recipe.conditions
    width = max(len(condition) for condition, _ in conditions)
    lines = [f"model  {target.model}", *(f"       {note}" for note in auditor.model.notes)]
    lines += [f"data   {target.data}: {len(data):,} images of {c}x{h}x{w}, {data.k} classes"]
    lines += [f"       {note}" for note in data.notes]
    lines += [f"attack {condition:{width}}  {attack}" for condition, attack in conditions]
    lines += [f"warning: {warning}" for warning in auditor.warnings if warning not in data.notes]
    for line in lines:
        say(console, line)


@dataclass(frozen=True)
class ExecutorOptions:
    """Who computes: this process, or the workers of a cluster."""

    engine: Literal["local", "dask"] = "local"
    """this process (local), or the workers of a Dask cluster (dask; needs leastwise[cluster])"""
    scheduler: Annotated[str, tyro.conf.arg(metavar="ADDRESS")] = ""
    """dask: the cluster to use, such as tls://machine:8786; without it, workers are started on this machine"""
    workers: int = 0
    """dask, without --scheduler: how many processes to start here, with one thread each; 0 for one per processor"""
    tls: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """dask: a folder with cert.pem, key.pem and, if wanted, ca.pem"""
    plain_tcp: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """dask: allow an unencrypted address off this machine, on a network that is yours alone"""
    shard_limit: Annotated[str, tyro.conf.arg(metavar="TIME")] = ""
    """dask: a shard that takes longer, such as 30m, is given to another worker; twenty times what it should take, and
    ten minutes at least, unless given"""

    @property
    def apart(self) -> bool:
        return self.engine != "local"

    def threads(self, wanted: int) -> int:
        """Of each process: workers share a machine, so one unless more were asked for."""
        return wanted or (1 if self.apart else 0)

    def check(self) -> None:
        """Find a mistake before anything is loaded."""
        given = [name for name in ("scheduler", "workers", "tls", "shard_limit") if getattr(self, name)]
        if given and not self.apart:
            raise ValueError(f"--{given[0].replace('_', '-')} needs --engine dask")
        parse_seconds(self.shard_limit, "--shard-limit")
        if self.workers < 0:
            raise ValueError(f"--workers must be 1 or more, or 0 for one per processor, but saw {self.workers}")
        if self.scheduler and self.workers:
            raise ValueError("--workers starts processes here, --scheduler uses those of a cluster: give one of them")

    @contextmanager
    def open_executor(self) -> Iterator["Executor"]:
        """The executor; a cluster that was started here ends with this."""
        from leastwise.jobs.executor import LOCAL

        if not self.apart:
            yield LOCAL
            return
        try:
            from leastwise.jobs.dask.cluster import connect_cluster, processors
        except ImportError:
            raise ValueError("Dask is not installed: pip install 'leastwise[cluster]'") from None
        folder = Path(self.tls) if self.tls else None
        count = 0 if self.scheduler else self.workers or processors()
        limit = parse_seconds(self.shard_limit, "--shard-limit")
        with connect_cluster(self.scheduler, count, folder, plain=self.plain_tcp, limit=limit) as executor:
            yield executor
