"""The verbs: each is a value made of its settings, with `run()`.

torch is imported inside `run`, so that asking a verb for help does not wait for it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from leastwise.attacks import Threat
    from leastwise.audit import Conditions
    from leastwise.data import Dataset

# Spelled out again here, because their homes import torch.
Keep = Literal["fooled", "last"]
Norm = Literal["linf", "l2"]
Kind = Literal["all", "attacks", "data", "methods", "models"]


class Screen(Console):
    """A console that lets the front door answer when the reader of our output goes away."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@dataclass(frozen=True)
class Demo:
    """Train a standard and a PGD-AT network on the embedded data, audit both, and say what changed.

    Work that is finished under --out is used again; --fresh does it anew.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results/demo")
    """where evidence and summaries go"""
    seed: int = 0
    """another seed gives other networks"""
    fresh: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """forget what an earlier demo left in --out"""
    device: str = "auto"
    """cpu, cuda, …"""
    threads: int = 0
    """processor threads; 0 leaves the choice to torch"""

    def run(self) -> None:
        from leastwise.demo import demo

        demo(Screen(), self.out, self.seed, chosen_device(self.device, self.threads), self.fresh)


@dataclass(frozen=True)
class Audit:
    """Attack a classifier and report every class, with intervals."""

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """path/file.py:function or package.module:function returning a torch.nn.Module, or a checkpoint file"""
    data: Annotated[str, tyro.conf.arg(metavar="DATA")] = "fashion-mini"
    """NAME, NAME/SPLIT, or the path of an .npz with images and labels"""
    attack: Annotated[str, tyro.conf.arg(metavar="LIST")] = "clean,pgd20,tpgd20"
    """names separated by commas; `leastwise list attacks` shows them"""
    eps: Annotated[str, tyro.conf.arg(metavar="EPS")] = "8/255"
    """how far an attack may go, in pixel units of [0, 1]"""
    step: Annotated[str, tyro.conf.arg(metavar="STEP")] = ""
    """step size of iterative attacks; eps/4 unless given"""
    norm: Norm = "linf"
    """how the distance is measured"""
    keep: Keep = "fooled"
    """count an image as lost at any misclassified iterate (fooled), or at the last one only (last)"""
    arch: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """architecture of a bare state dict; `leastwise list models` shows them"""
    mean: Annotated[str, tyro.conf.arg(metavar="A,B,C")] = ""
    """normalisation that goes inside the model: means per channel"""
    std: Annotated[str, tyro.conf.arg(metavar="A,B,C")] = ""
    """normalisation that goes inside the model: standard deviations per channel"""
    per_class: int = 0
    """audit only the first images of each class; 0 for all"""
    seed: int = 0
    """seed of the attacks' random starts"""
    device: str = "auto"
    """cpu, cuda, …"""
    threads: int = 0
    """processor threads; 0 leaves the choice to torch"""
    batch_size: int = 200
    """images attacked at a time"""
    fresh: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """do it anew, and replace what --out holds"""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where evidence and summary go; results/audit-KEY unless given"""

    def run(self) -> None:
        threat = threat_of(self.norm, self.eps, self.step, self.keep)
        mean, std = numbers(self.mean, "mean"), numbers(self.std, "std")
        from leastwise import engine, evidence, report
        from leastwise.attacks import named_all
        from leastwise.audit import auditor as make_auditor
        from leastwise.data import load
        from leastwise.models import resolve
        from leastwise.store import write_json

        conditions = named_all(self.attack, threat)
        data = engine.subset(load(self.data, split="test"), self.per_class or None)
        model = resolve(self.model, data.shape, data.names, self.arch or None, mean, std)
        device = chosen_device(self.device, self.threads)
        auditor = make_auditor(model, data, conditions, self.seed, self.batch_size, device)
        task = engine.audit_task(auditor, data, Path(self.out or f"results/audit-{auditor.key[:8]}"))
        console = Screen()
        echo(console, self.model, self.data, data, conditions)
        if task.finished and not self.fresh:
            report.say(console, f"done before, in {task.folder} (--fresh does it anew)")
        else:
            with report.progress(console, "audit", data.names) as watch:
                task.run(watch, self.fresh)
        found = evidence.load(task.folder)
        write_json(task.folder / engine.SUMMARY, report.summary(found))
        report.print_classes(console, found, self.model)
        report.say(console, f"\n{report.headline(found)}")
        report.say(console, f"Evidence and summary: {task.folder}")


@dataclass(frozen=True)
class Train:
    """Train a network and write a checkpoint that `leastwise audit` takes.

    An interrupted training goes on behind its last finished epoch when the same command is given again.
    """

    method: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="METHOD")]
    """standard, pgd-at or trades; `leastwise list methods` shows their equations"""
    data: Annotated[str, tyro.conf.arg(metavar="DATA")] = "fashion-mini"
    """NAME, NAME/SPLIT, or the path of an .npz with images and labels"""
    model: Annotated[str, tyro.conf.arg(metavar="ARCH")] = "small"
    """architecture; `leastwise list models` shows them"""
    eps: Annotated[str, tyro.conf.arg(metavar="EPS")] = "8/255"
    """radius of the training attack, in pixel units of [0, 1]"""
    step: Annotated[str, tyro.conf.arg(metavar="STEP")] = ""
    """its step size; eps/4 unless given"""
    steps: int = 10
    """its number of steps"""
    norm: Norm = "linf"
    """how the distance is measured"""
    epochs: int = 10
    """passes over the data"""
    batch_size: int = 128
    """images per update"""
    rate: float = 0.2
    """highest learning rate of the one-cycle schedule"""
    mean: Annotated[str, tyro.conf.arg(metavar="A,B,C")] = ""
    """normalisation that goes inside the model: means per channel"""
    std: Annotated[str, tyro.conf.arg(metavar="A,B,C")] = ""
    """normalisation that goes inside the model: standard deviations per channel"""
    per_class: int = 0
    """train on only the first images of each class; 0 for all"""
    seed: int = 0
    """seed of initial weights, order and attacks"""
    device: str = "auto"
    """cpu, cuda, …"""
    threads: int = 0
    """processor threads; 0 leaves the choice to torch"""
    fresh: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """do it anew, and replace what --out holds"""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where the checkpoint goes; results/train-KEY unless given"""

    def run(self) -> None:
        threat = threat_of(self.norm, self.eps, self.step)
        mean, std = numbers(self.mean, "mean"), numbers(self.std, "std")
        from leastwise import engine, report
        from leastwise.objectives import OneCycle, method
        from leastwise.plan import Train as Job
        from leastwise.recipe import key
        from leastwise.train import Training

        objective = method(self.method).make(threat.ball, threat.step, self.steps)
        training = Training(objective, self.epochs, self.batch_size, OneCycle(self.rate), seed=self.seed)
        job = Job(self.data, self.model, training, self.per_class or None, mean, std)
        device = chosen_device(self.device, self.threads)
        task = engine.task(job, Path(self.out or f"results/train-{key(job)[:8]}"), device=device)
        console = Screen()
        report.say(console, f"objective  {objective}")
        if task.finished and not self.fresh:
            report.say(console, f"done before, in {task.folder} (--fresh does it anew)")
        else:
            with report.progress(console, f"train {self.method}", task.names) as watch:
                task.run(watch, self.fresh)
        report.say(console, f"Checkpoint: {task.folder / task.result}")


@dataclass(frozen=True)
class List:
    """Show what has a name: attacks, data sets, training methods, models."""

    kind: Annotated[tyro.conf.Positional[Kind], tyro.conf.arg(metavar="KIND")] = "all"
    """attacks, data, methods, models, or all"""

    def run(self) -> None:
        from leastwise.attacks import TABLE
        from leastwise.data import SOURCES
        from leastwise.models import ARCHITECTURES
        from leastwise.objectives import METHODS

        tables: dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]] = {
            "attacks": (
                ("name", "what it does", "paper", "cost per image"),
                [(r.spelling, r.about, r.paper, r.cost) for r in TABLE],
            ),
            "data": (
                ("name", "splits", "what it is"),
                [(name, ", ".join(s.splits), s.about) for name, s in SOURCES.items()],
            ),
            "methods": (
                ("name", "loss per example", "paper"),
                [(name, m.equation, m.paper) for name, m in METHODS.items()],
            ),
            "models": (("name", "what it is"), [(name, a.about) for name, a in ARCHITECTURES.items()]),
        }
        console = Screen()
        for kind, (columns, rows) in tables.items():
            if self.kind in ("all", kind):
                table = Table(*columns, title=kind, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
                for row in rows:
                    table.add_row(*map(Text, row))
                console.print(table)


COMMANDS: dict[str, type[Demo] | type[Audit] | type[Train] | type[List]] = {
    "demo": Demo,
    "audit": Audit,
    "train": Train,
    "list": List,
}


def echo(console: Console, model: str, name: str, data: "Dataset", conditions: "Conditions") -> None:
    """Say what was understood, with every default resolved."""
    from leastwise import report

    c, h, w = data.shape
    lines = [f"model  {model}", f"data   {name}: {len(data):,} images of {c}x{h}x{w}, {data.k} classes"]
    width = max(len(condition) for condition, _ in conditions)
    lines += [f"attack {condition:{width}}  {attack}" for condition, attack in conditions]
    for line in lines:
        report.say(console, line)


def number(text: str, name: str) -> float:
    """`0.1`, `8/255`."""
    above, slash, below = text.partition("/")
    try:
        return float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{name} must be a number such as 0.1 or 8/255, but saw {text!r}") from None


def numbers(text: str, name: str) -> tuple[float, ...]:
    """`0.49,0.48,0.45`; nothing for an empty text."""
    return tuple(number(part, name) for part in text.split(",")) if text else ()


def threat_of(norm: str, eps: str, step: str, keep: Keep = "fooled") -> "Threat":
    """The radius, step and counting rule that all attacks of a command share."""
    from leastwise.attacks import Threat
    from leastwise.balls import L2, Linf

    radius = number(eps, "eps")
    if norm == "linf" and radius > 1:
        raise ValueError(f"eps is in pixel units and images span [0, 1], but saw {radius:g}: write {radius:g}/255")
    ball = Linf(radius) if norm == "linf" else L2(radius)
    return Threat(ball, number(step, "step") if step else radius / 4, keep)


def chosen_device(device: str, threads: int) -> str:
    """Set the threads and name the device: an accelerator if there is one and nothing else was asked for."""
    import torch

    if threads < 0:
        raise ValueError(f"threads must be 1 or more, but saw {threads}")
    if threads:
        torch.set_num_threads(threads)
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"the device {device!r} cannot be used ({str(error).splitlines()[0]}): try cpu") from None
    return device
