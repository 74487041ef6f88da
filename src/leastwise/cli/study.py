"""`leastwise study`."""

import itertools
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from leastwise.cli.options import ExecutorOptions, use_data_dir
from leastwise.cli.train import Train
from leastwise.core.text import Screen

if TYPE_CHECKING:
    from rich.console import Console

    from leastwise.jobs.job import AuditJob, Job
    from leastwise.jobs.schedule import JobListener, JobRunner
    from leastwise.jobs.study import StudyCell, StudyPlan
    from leastwise.report.study import StudyRow

VARIED = ("method", "model", "eps", "seed", "data")  # what the grid itself says
OWN = ("device", "threads", "track", "tensorboard", "fresh", "out", "data_dir", "size")  # what the command says
AUDIT = {"per_class": int, "step": str, "norm": str, "keep": str, "batch_size": int, "seed": int}


@dataclass(frozen=True)
class Study:
    """Train and audit every method × eps × seed × model of a file, and rank them by their worst class.

    What is finished under --out is used again; the same command goes on after an interruption.
    """

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="STUDY.toml")]
    """title, data, models, methods, eps, seeds, attack; under [train] and [audit] options that all share"""
    where: tyro.conf.OmitArgPrefixes[ExecutorOptions] = ExecutorOptions()
    data_dir: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where known data sets lie; the variable LEASTWISE_DATA, or the cache, unless given"""
    device: str = "auto"
    """cpu, cuda, xpu, …; auto: the accelerator that torch finds, if there is one"""
    threads: int = 0
    """processor threads of each process; 0 leaves the choice to torch, or is 1 with --engine dask"""
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """only say what would be trained and audited"""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where everything goes; results/study-NAME unless given"""

    def run(self) -> None:
        from leastwise.jobs.study import read_study

        self.where.check()
        plan = read_study(self.file)
        use_data_dir(self.data_dir)
        from leastwise.models.preflight import choose_device

        device = choose_device(self.device, self.where.threads(self.threads))
        jobs = {cell: audit_job(plan, cell) for cell in plan.cells}
        out = Path(self.out or f"results/study-{self.file.stem}")
        console = Screen()
        from leastwise.core.files import write_atomic
        from leastwise.core.text import say
        from leastwise.report.study import make_study_page, study_csv

        trainings = {job.model for job in jobs.values()}
        say(console, f"{plan.title}: {len(trainings)} trainings and {len(set(jobs.values()))} audits")
        if self.dry_run:
            for cell in jobs:
                say(console, f"  {cell}")
            return
        from leastwise.core.recipe import recipe_key
        from leastwise.jobs.schedule import JobRunner
        from leastwise.jobs.store import RESULTS, Store

        places: dict[Any, Path] = {job: out / f"audit-{recipe_key(job)[:8]}" for job in jobs.values()}
        places |= {job.model: out / f"train-{recipe_key(job.model)[:8]}" for job in jobs.values()}
        store = Store(out, places=places, also=(RESULTS,))
        with self.where.open_executor() as executor:
            rows = carry_out(
                console, jobs, out, runner=JobRunner(store, device, self.where.threads(self.threads), executor)
            )
        write_atomic(out / "study.csv", study_csv(rows).encode())
        write_atomic(out / "index.html", make_study_page(plan, rows).encode())
        print_places(console, plan, rows)
        say(console, f"Table: {out / 'study.csv'}; page: {out / 'index.html'}")


def audit_job(plan: "StudyPlan", cell: "StudyCell") -> "AuditJob":
    """The audit of a cell, with the training it needs."""
    from leastwise.attacks.registry import make_attacks
    from leastwise.jobs.images import ImageSet
    from leastwise.jobs.job import AuditJob
    from leastwise.jobs.study import check_keys, of_kind

    check_keys(plan.audit, tuple(AUDIT), "[audit]")
    chosen = {name: of_kind(value, AUDIT[name], f"audit.{name}") for name, value in plan.audit.items()}
    from leastwise.attacks.registry import make_threat

    threat = make_threat(
        chosen.get("norm", "linf"), cell.eps, chosen.get("step", ""), keep=chosen.get("keep", "fooled")
    )
    training = replace(
        shared_options(plan), method=cell.method, model=cell.model, eps=cell.eps, seed=cell.seed, data=plan.data
    ).job()
    conditions = make_attacks(plan.attack, threat)
    per_class = chosen.get("per_class") or None
    images = ImageSet(plan.data, per_class=per_class)
    return AuditJob(training, images, conditions, chosen.get("seed", 0), batch_size=chosen.get("batch_size", 0))


def shared_options(plan: "StudyPlan") -> Train:
    """The options of [train], by the names and kinds that `leastwise train` has."""
    from leastwise.jobs.study import check_keys, of_kind

    known = {f.name: f.default for f in fields(Train) if f.name not in (*VARIED, *OWN)}
    for name in plan.train:
        if name in VARIED:
            raise ValueError(f"{name} varies over a study: write it at the top of the file, not under [train]")
    check_keys(plan.train, tuple(known), "[train]")
    chosen: dict[str, Any] = {}
    for name, value in plan.train.items():
        if name == "set":
            chosen[name] = tuple(of_kind(one, str, "train.set") for one in of_list(value))
        elif name == "rate":
            chosen[name] = of_kind(value, float, "train.rate")
        elif isinstance(known[name], str) and type(value) in (int, float):
            chosen[name] = repr(value)
        else:
            chosen[name] = of_kind(value, type(known[name]), f"train.{name}")
    return Train(method="", **chosen)


def of_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def carry_out(
    console: "Console", jobs: "dict[StudyCell, AuditJob]", out: Path, *, runner: "JobRunner"
) -> "list[StudyRow]":
    """Do what is left of the trainings and audits, and collect what all of them found."""
    from leastwise.audit.evidence import load_evidence
    from leastwise.jobs.schedule import execute, schedule
    from leastwise.report.study import make_rows
    from leastwise.report.summary import write_summary

    labels: dict[Any, str] = {job: str(cell) for cell, one in jobs.items() for job in (one.model, one)}
    work = schedule(jobs.values(), runner.store)
    failed = execute(work, runner, make_listener(console, labels, len({job.model for job in jobs.values()})))
    for job, reason in failed.items():
        raise ValueError(f"{labels[job]} could not be done: {reason}")
    rows: list[StudyRow] = []
    for cell, job in jobs.items():
        folder = runner.store.folder(job)
        found = load_evidence(folder)
        write_summary(folder, found)
        rows += make_rows(cell, found, os.path.relpath(folder, out))
    return rows


def make_listener(console: "Console", labels: "Mapping[Job, str]", trainings: int) -> "JobListener":
    """Says which training is at which epoch, and shows the progress of audits."""
    from leastwise.core.text import say
    from leastwise.jobs.events import JobEventListener
    from leastwise.jobs.job import AuditJob, Job
    from leastwise.jobs.schedule import JobListener
    from leastwise.report.terminal.view import progress
    from leastwise.training.base import Epoch

    done = itertools.count(1)

    class StudyListener(JobListener):
        def during(self, job: Job, names: Sequence[str]) -> AbstractContextManager[JobEventListener]:
            def tell_epoch(event: object) -> None:
                if isinstance(event, Epoch):
                    say(console, f"  {labels[job]}: epoch {event.number}/{event.of}, loss {event.loss:.3f}")

            if isinstance(job, AuditJob):
                return progress(console, f"audit {labels[job]}", names)
            return nullcontext(tell_epoch)

        def after(self, job: Job, seconds: float, failed: str) -> None:
            if not isinstance(job, AuditJob) and not failed:
                say(console, f"trained {next(done)} of {trainings}: {labels[job]}")

    return StudyListener()


def print_places(console: "Console", plan: "StudyPlan", rows: "list[StudyRow]") -> None:
    from leastwise.core.text import say
    from leastwise.report.study import hardest_condition, rank_methods

    condition = hardest_condition(rows)
    for place in rank_methods(rows, condition):
        worst, overall = 100 * place.mean("worst"), 100 * place.mean("overall")
        say(
            console,
            f"{place.model} {place.method} eps {place.eps}: worst class {worst:.1f} %, average {overall:.1f} % "
            f"under {condition}, mean of {len(plan.seeds)} seeds",
        )
