"""The story in three minutes: a standard, an adversarially trained and a fairer network, class by class."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from rich.console import Console

from leastwise import engine, evidence, report
from leastwise.attacks import CE, PGD, Threat, Uniform, named_all
from leastwise.balls import Linf
from leastwise.data import DEFAULT
from leastwise.models.prepare import Form
from leastwise.objectives import FAAL, PGDAT, OneCycle, Standard
from leastwise.plan import Audit, Job, Train, ordered
from leastwise.store import write_atomic, write_json
from leastwise.train import Training

ARCH = "small"
EPS = 0.1
NAMES = ("standard", "pgd-at", "faal")


def audits(seed: int = 0, per_class: int | None = None) -> dict[str, Audit]:
    """The three networks and their audits. `per_class` makes a smaller demo of it.

    FAAL (Zhang et al. 2024) weighs the classes of each batch for the worst case near equal weights. Its radius was
    chosen here among 0.1, 0.2 and 0.5 by looking at this test set, so its network is an illustration and no benchmark.
    """
    # Two steps while training are enough to resist twenty at this radius.
    inner = PGD(Linf(EPS), CE(), step=0.7 * EPS, steps=2, start=Uniform())
    plain = Training(Standard(), epochs=5, batch_size=100, schedule=OneCycle(peak=0.2), seed=seed)
    robust = replace(plain, objective=PGDAT(inner))
    trainings = (plain, robust, replace(robust, policies=(FAAL(radius=0.1),)))
    conditions = named_all("clean,pgd20,tpgd20", Threat(Linf(EPS), step=EPS / 4))
    jobs = {}
    for name, training in zip(NAMES, trainings, strict=True):
        # A fixed form: two demos of one seed give the same evidence.
        trained = Train(DEFAULT, ARCH, training, per_class)
        jobs[name] = Audit(trained, DEFAULT, conditions, seed, per_class, form=Form(folded=True))
    return jobs


def demo(
    console: Console,
    out: Path,
    seed: int = 0,
    device: str = "cpu",
    fresh: bool = False,
    per_class: int | None = None,
) -> None:
    """Train and audit the networks under `out`, then say what was found."""
    jobs = audits(seed, per_class)
    where: dict[Job, tuple[Path, str]] = {job: (out / name, f"audit {name}") for name, job in jobs.items()}
    where |= {job.model: (out / name / "training", f"train {name}") for name, job in jobs.items()}
    for job in ordered(jobs.values()):
        folder, label = where[job]
        task = engine.task(job, folder, where[job.model][0] if isinstance(job, Audit) else None, device)
        if task.finished and not fresh:
            report.say(console, f"{label}: done before, in {folder} (--fresh does it anew)")
            continue
        with report.progress(console, label, task.names) as watch:
            # What an earlier demo of another seed or version left in its own folder makes room.
            task.run(watch, fresh=fresh or engine.claimed(folder) not in (None, task.claim))
    found = {name: evidence.load(out / name) for name in jobs}
    for name, one in found.items():
        write_json(out / name / engine.SUMMARY, report.summary(one, report.facts(out / name)))
        report.print_classes(console, one, f"{name}, eps {EPS:g}")
    report.say(console, f"\n{report.headline(found[NAMES[1]])}")
    for before, after in pairwise(NAMES):
        report.say(console, report.what_changed(found[before], found[after], (before, after), "pgd20"))
    page = out / "report.html"
    models = [report.Audited(name, one, report.facts(out / name)) for name, one in found.items()]
    write_atomic(page, report.page(models, f"Three networks, eps {EPS:g}").encode())
    report.say(console, f"\nEvidence and summaries: {out}/{{{','.join(NAMES)}}}")
    report.say(console, f"Report: {page}")
