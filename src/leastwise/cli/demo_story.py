"""The story in three minutes: a standard, an adversarially trained and a fairer network, class by class."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from rich.console import Console

from leastwise.attacks.goals import CE
from leastwise.attacks.naming import Threat
from leastwise.attacks.pgd import PGD
from leastwise.attacks.registry import make_attacks
from leastwise.attacks.starts import Uniform
from leastwise.attacks.threats import Linf
from leastwise.audit.evidence_file import load_evidence
from leastwise.core.files import write_atomic, write_json
from leastwise.data.loading import DEFAULT
from leastwise.jobs.folder import SUMMARY, claimed
from leastwise.jobs.job import Audit, Job, Train, ordered
from leastwise.jobs.make import task as task_of_engine
from leastwise.models.fast.prepare import Form
from leastwise.report.page.page import make_page
from leastwise.report.results import AuditedModel, read_run_facts
from leastwise.report.summary import summarise
from leastwise.report.terminal.progress import progress
from leastwise.report.terminal.screen import say
from leastwise.report.terminal.table import headline, print_classes, what_changed
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.standard import Standard
from leastwise.training.policies.faal import FAAL
from leastwise.training.recipe import Training
from leastwise.training.schedules import OneCycle

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
    conditions = make_attacks("clean,pgd20,tpgd20", Threat(Linf(EPS), step=EPS / 4))
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
        task = task_of_engine(job, folder, where[job.model][0] if isinstance(job, Audit) else None, device)
        if task.finished and not fresh:
            say(console, f"{label}: done before, in {folder} (--fresh does it anew)")
            continue
        with progress(console, label, task.names) as watch:
            # What an earlier demo of another seed or version left in its own folder makes room.
            task.run(watch, fresh=fresh or claimed(folder) not in (None, task.claim))
    found = {name: load_evidence(out / name) for name in jobs}
    for name, one in found.items():
        write_json(out / name / SUMMARY, summarise(one, read_run_facts(out / name)))
        print_classes(console, one, f"{name}, eps {EPS:g}")
    say(console, f"\n{headline(found[NAMES[1]])}")
    for before, after in pairwise(NAMES):
        say(console, what_changed(found[before], found[after], (before, after), "pgd20"))
    page = out / "report.html"
    models = [AuditedModel(name, one, read_run_facts(out / name)) for name, one in found.items()]
    write_atomic(page, make_page(models, f"Three networks, eps {EPS:g}").encode())
    say(console, f"\nEvidence and summaries: {out}/{{{','.join(NAMES)}}}")
    say(console, f"Report: {page}")
