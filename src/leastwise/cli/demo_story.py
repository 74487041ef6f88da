"""The story in three minutes: a standard, an adversarially trained and a fairer network, class by class."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from rich.console import Console

from leastwise.attacks.goals import CE
from leastwise.attacks.naming import Threat
from leastwise.attacks.pgd import PGD
from leastwise.attacks.registry import make_attacks
from leastwise.attacks.threats import Linf, Uniform
from leastwise.audit.evidence import load_evidence
from leastwise.core.files import write_atomic
from leastwise.core.text import say
from leastwise.data.loading import DEFAULT
from leastwise.jobs.events import JobEventListener
from leastwise.jobs.folder import read_run_facts
from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import AuditJob, Job, TrainJob, order_jobs
from leastwise.jobs.schedule import JobListener, JobRunner, execute
from leastwise.jobs.store import Store
from leastwise.models.fast.prepare import Form
from leastwise.report.page.page import make_page
from leastwise.report.results import AuditedModel
from leastwise.report.summary import write_summary
from leastwise.report.terminal.view import headline, print_classes, progress, what_changed
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.standard import Standard
from leastwise.training.policies.faal import FAAL
from leastwise.training.recipe import Training
from leastwise.training.schedules import OneCycle

ARCH = "small"
EPS = 0.1
NAMES = ("standard", "pgd-at", "faal")


def make_jobs(seed: int = 0, per_class: int | None = None) -> dict[str, AuditJob]:
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
        images = ImageSet(DEFAULT, per_class=per_class)
        trained = TrainJob(images, ARCH, training)
        jobs[name] = AuditJob(trained, images, conditions, seed, form=Form(folded=True))
    return jobs


def demo(
    console: Console,
    out: Path,
    seed: int = 0,
    *,
    device: str = "cpu",
    fresh: bool = False,
    per_class: int | None = None,
) -> None:
    """Train and audit the networks under `out`, then say what was found."""
    jobs = make_jobs(seed, per_class)
    labels: dict[Job, str] = {job: f"audit {name}" for name, job in jobs.items()}
    labels |= {job.model: f"train {name}" for name, job in jobs.items() if isinstance(job.model, TrainJob)}
    places: dict[Job, Path] = {job: out / name for name, job in jobs.items()}
    places |= {job.model: out / name / "training" for name, job in jobs.items() if isinstance(job.model, TrainJob)}
    store, work = Store(out, places=places), []
    for job in order_jobs(jobs.values()):
        if store.has(job) and not fresh:
            say(console, f"{labels[job]}: done before, in {store.folder(job)} (--fresh does it anew)")
        else:
            work.append(job)
    failed = execute(work, JobRunner(store, device, fresh=fresh), DemoListener(console, labels))
    for job, reason in failed.items():
        raise ValueError(f"{labels[job]} could not be done: {reason}")
    found = {name: load_evidence(out / name) for name in jobs}
    for name, one in found.items():
        write_summary(out / name, one)
        print_classes(console, one, f"{name}, eps {EPS:g}")
    say(console, f"\n{headline(found[NAMES[1]])}")
    for before, after in pairwise(NAMES):
        say(console, what_changed(found[before], found[after], (before, after), condition="pgd20"))
    page = out / "report.html"
    models = [AuditedModel(name, one, read_run_facts(out / name)) for name, one in found.items()]
    write_atomic(page, make_page(models, f"Three networks, eps {EPS:g}").encode())
    say(console, f"\nEvidence and summaries: {out}/{{{','.join(NAMES)}}}")
    say(console, f"Report: {page}")


@dataclass(frozen=True)
class DemoListener(JobListener):
    """Shows the progress of every job under its label."""

    console: Console
    labels: Mapping[Job, str]

    def during(self, job: Job, names: Sequence[str]) -> AbstractContextManager[JobEventListener]:
        return progress(self.console, self.labels[job], names)
