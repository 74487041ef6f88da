"""The story in three minutes: what a standard and an adversarially trained network do, class by class."""

from pathlib import Path

from rich.console import Console

from leastwise import audit as audits
from leastwise import engine, evidence, report
from leastwise.attacks import CE, PGD, Clean, Uniform
from leastwise.balls import Linf
from leastwise.objectives import PGDAT, Objective, OneCycle, Standard
from leastwise.plan import Audit, Job, Train, ordered
from leastwise.recipe import key
from leastwise.store import write_json
from leastwise.train import Training

DATA = "fashion-mini"
ARCH = "small"
EPS = 0.1
ATTACK_STEPS = 3  # while training: enough to resist PGD-20 at this radius
NAMES = ("standard", "pgd-at")


def trainings(seed: int = 0) -> dict[str, Train]:
    """The two networks; only the objective and its number of epochs differ."""
    inner = PGD(Linf(EPS), CE(), step=2.5 * EPS / ATTACK_STEPS, steps=ATTACK_STEPS, start=Uniform())
    objectives: dict[str, tuple[Objective, int]] = {"standard": (Standard(), 5), "pgd-at": (PGDAT(inner), 6)}
    return {
        name: Train(DATA, ARCH, Training(objective, epochs, 100, OneCycle(peak=0.2), seed=seed))
        for name, (objective, epochs) in objectives.items()
    }


def conditions() -> audits.Conditions:
    pgd20 = PGD(Linf(EPS), CE(), step=EPS / 4, steps=20, start=Uniform(), keep="fooled")
    tpgd20 = PGD(Linf(EPS), CE(inverse_temperature=5.0), step=EPS / 4, steps=20, start=Uniform(), keep="fooled")
    return (("clean", Clean()), ("pgd20", pgd20), ("tpgd20", tpgd20))


def demo(console: Console, out: Path, seed: int = 0, device: str = "cpu", fresh: bool = False) -> None:
    """Train and audit both networks under `out`, then say what was found."""
    jobs = {name: Audit(train, DATA, conditions(), seed) for name, train in trainings(seed).items()}
    folders = {job: out / name for name, job in jobs.items()} | {
        job.model: out / name / "training" for name, job in jobs.items()
    }
    labels = {job: f"audit {name}" for name, job in jobs.items()} | {
        job.model: f"train {name}" for name, job in jobs.items()
    }
    for job in ordered(jobs.values()):
        if fresh:
            engine.forget(folders[job])
        execute(console, job, folders, labels[job], device)
    found = {name: evidence.load(folders[job]) for name, job in jobs.items()}
    for name, one in found.items():
        write_json(out / name / report.FILE, report.summary(one))
        report.print_classes(console, one, f"{name}, eps {EPS:g}")
    console.print()
    a, b = (found[name] for name in NAMES)
    for sentence in (report.headline(b), report.what_changed(a, b, NAMES, "pgd20")):
        report.say(console, sentence)
    report.say(console, f"\nEvidence and summaries: {out}/{{{','.join(NAMES)}}}")


def execute(console: Console, job: Job, folders: dict[Job, Path], label: str, device: str) -> None:
    """Run one job with its progress, unless its result is there already."""
    if engine.finished(job, folders[job]):
        report.say(console, f"{label}: done before ({folders[job]}, {key(job)})")
        return
    model = folders[job.model] if isinstance(job, Audit) else None
    with report.progress(console, label) as watch:
        engine.run(job, folders[job], model, device, watch)
