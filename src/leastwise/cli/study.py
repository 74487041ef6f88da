"""`leastwise study`."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from leastwise.cli.options import chosen_device, threat_of, use_data_dir
from leastwise.cli.train import Train
from leastwise.cli.where import Where
from leastwise.report.terminal.screen import Screen

if TYPE_CHECKING:
    from rich.console import Console

    from leastwise.jobs.executor import Hands
    from leastwise.jobs.folder import Event
    from leastwise.jobs.job import Audit as AuditJob
    from leastwise.jobs.study import Cell
    from leastwise.jobs.study import Study as Plan
    from leastwise.report.study import StudyRow

VARIED = ("method", "model", "eps", "seed", "data")  # what the grid itself says
OWN = ("device", "threads", "tensorboard", "fresh", "out", "data_dir", "size")  # what the command says
AUDIT = {"per_class": int, "step": str, "norm": str, "keep": str, "batch_size": int, "seed": int}


@dataclass(frozen=True)
class Study:
    """Train and audit every method × eps × seed × model of a file, and rank them by their worst class.

    What is finished under --out is used again; the same command goes on after an interruption.
    """

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="STUDY.toml")]
    """title, data, models, methods, eps, seeds, attack; under [train] and [audit] options that all share"""
    where: tyro.conf.OmitArgPrefixes[Where] = Where()
    data_dir: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where known data sets lie; the variable LEASTWISE_DATA, or the cache, unless given"""
    device: str = "auto"
    """cpu, cuda, …"""
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
        device = chosen_device(self.device, self.where.threads(self.threads))
        jobs = {cell: audit_job(plan, cell) for cell in plan.cells}
        out = Path(self.out or f"results/study-{self.file.stem}")
        console = Screen()
        from leastwise.core.files import write_atomic
        from leastwise.report.study import make_study_page, study_csv
        from leastwise.report.terminal.screen import say

        trainings = {job.model for job in jobs.values()}
        say(console, f"{plan.title}: {len(trainings)} trainings and {len(set(jobs.values()))} audits")
        if self.dry_run:
            for cell in jobs:
                say(console, f"  {cell}")
            return
        with self.where.hands() as hands:
            rows = carried_out(console, jobs, out, device, self.where.threads(self.threads), hands)
        write_atomic(out / "study.csv", study_csv(rows).encode())
        write_atomic(out / "index.html", make_study_page(plan, rows).encode())
        print_places(console, plan, rows)
        say(console, f"Table: {out / 'study.csv'}; page: {out / 'index.html'}")


def audit_job(plan: "Plan", cell: "Cell") -> "AuditJob":
    """The audit of a cell, with the training it needs."""
    from leastwise.attacks.registry import make_attacks
    from leastwise.jobs.job import Audit
    from leastwise.jobs.study import check_keys, of_kind

    check_keys(plan.audit, tuple(AUDIT), "[audit]")
    chosen = {name: of_kind(value, AUDIT[name], f"audit.{name}") for name, value in plan.audit.items()}
    threat = threat_of(chosen.get("norm", "linf"), cell.eps, chosen.get("step", ""), chosen.get("keep", "fooled"))
    training = replace(
        shared_options(plan), method=cell.method, model=cell.model, eps=cell.eps, seed=cell.seed, data=plan.data
    ).job()
    conditions = make_attacks(plan.attack, threat)
    per_class = chosen.get("per_class") or None
    return Audit(training, plan.data, conditions, chosen.get("seed", 0), per_class, chosen.get("batch_size", 0))


def shared_options(plan: "Plan") -> Train:
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


def carried_out(
    console: "Console", jobs: "dict[Cell, AuditJob]", out: Path, device: str, threads: int, hands: "Hands"
) -> "list[StudyRow]":
    """Trainings first, side by side on a cluster; then the audits, whose shards are spread over it."""
    from leastwise.audit.evidence_file import load_evidence
    from leastwise.core.files import write_json
    from leastwise.core.recipe import recipe_key
    from leastwise.jobs.errands import Errand, train_all, training_errand
    from leastwise.jobs.folder import SUMMARY, Watch
    from leastwise.jobs.make import task as task_of_engine
    from leastwise.report.results import read_run_facts
    from leastwise.report.study import make_rows
    from leastwise.report.summary import summarise
    from leastwise.report.terminal.progress import progress
    from leastwise.report.terminal.screen import say
    from leastwise.training.base import Epoch

    labels = {job.model: str(cell) for cell, job in jobs.items()}
    places = {job.model: out / f"train-{recipe_key(job.model)[:8]}" for job in jobs.values()}
    errands = {training_errand(job, folder, device, threads): labels[job] for job, folder in places.items()}

    def watching(errand: Errand) -> Watch:
        def told(event: "Event") -> None:
            if isinstance(event, Epoch):
                say(console, f"  {errands[errand]}: epoch {event.number}/{event.of}, loss {event.loss:.3f}")

        return told

    for number, errand in enumerate(train_all(tuple(errands), hands, watching), 1):
        say(console, f"trained {number} of {len(errands)}: {errands[errand]}")
    rows: list[StudyRow] = []
    for cell, job in jobs.items():
        folder = out / f"audit-{recipe_key(job)[:8]}"
        task = task_of_engine(job, folder, places[job.model], device)
        if not task.finished:
            with progress(console, f"audit {cell}", task.names) as watch:
                task.run(watch, hands=hands)
        found = load_evidence(folder)
        write_json(folder / SUMMARY, summarise(found, read_run_facts(folder)))
        rows += make_rows(cell, found, folder.name)
    return rows


def print_places(console: "Console", plan: "Plan", rows: "list[StudyRow]") -> None:
    from leastwise.report.study import hardest_condition, rank_methods
    from leastwise.report.terminal.screen import say

    condition = hardest_condition(rows)
    for place in rank_methods(rows, condition):
        worst, overall = 100 * place.mean("worst"), 100 * place.mean("overall")
        say(
            console,
            f"{place.model} {place.method} eps {place.eps}: worst class {worst:.1f} %, average {overall:.1f} % "
            f"under {condition}, mean of {len(plan.seeds)} seeds",
        )
