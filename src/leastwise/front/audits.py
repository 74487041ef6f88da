"""`lw.audit`: the audit of the command line, from Python objects to a result that shows itself."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from leastwise.front.conditions import Radii
from leastwise.front.request import Request, open_engine
from leastwise.front.words import in_python_words

if TYPE_CHECKING:
    from leastwise.attacks.choices import Keep, Norm
    from leastwise.audit.evidence import Evidence
    from leastwise.front.results import AuditResult

Engine = Literal["local", "dask"]


@in_python_words
def audit(
    model: Any,
    data: Any,
    attacks: Any = None,
    *,
    eps: Radii = "8/255",
    norm: "Norm" = "linf",
    step: float | int | str | None = None,
    keep: "Keep" = "fooled",
    like: "Evidence | str | Path | None" = None,
    out: str | Path | None = None,
    name: str = "",
    seed: int = 0,
    batch_size: int = 0,
    time_budget: str = "",
    save_adversarial: bool = False,
    check: bool = True,
    device: str = "auto",
    threads: int = 0,
    engine: Engine = "local",
    scheduler: str = "",
    workers: int = 0,
    force: bool = False,
    fresh: bool = False,
    progress: bool = True,
) -> "AuditResult":
    """Attack a classifier on labelled images, and see what is left of every class.

    `model` and `data` are what `lw.model` and `lw.data` take. `attacks` are names ("clean,pgd20,autoattack"), values,
    a list of both, or a dictionary; with `like=` those of an earlier audit, so that both can be compared image by
    image. Several `eps` make a security curve. With `out=`, a folder, an interrupted audit goes on where it was, and
    one that was done is read. `engine="dask"` computes on a cluster (`scheduler=`) or in processes here (`workers=`).
    The other settings are those of `leastwise audit --help`.

    >>> import leastwise as lw
    >>> data = lw.data("fashion-mini").take(5)
    >>> net = lw.build("small", data.shape, data.k)
    >>> found = lw.audit(net, data, "clean,fgsm", eps=8/255, force=True, progress=False)
    >>> found.to_pandas().columns.tolist()
    ['condition', 'class', 'n', 'correct', 'accuracy', 'low', 'high']
    """
    settings = dict(locals())
    return AuditRequest(**settings).run()


@dataclass(frozen=True)
class AuditRequest(Request):
    """The settings of an audit."""

    time_budget: str
    save_adversarial: bool
    check: bool

    def run(self) -> "AuditResult":
        """Attack, or find it done; the result, whose summary lies beside the evidence if there is a folder."""
        from leastwise.core.text import parse_seconds
        from leastwise.front.results import AuditResult
        from leastwise.jobs.audit_task import AuditTask
        from leastwise.jobs.folder import read_run_facts
        from leastwise.report.summary import write_summary
        from leastwise.report.terminal.view import progress

        budget, folder = parse_seconds(self.time_budget), None if self.out is None else Path(self.out)
        if self.save_adversarial and folder is None:
            raise ValueError("attacked images are kept in a folder: give out=")
        auditor, data = self.prepare(images=self.save_adversarial)
        task = AuditTask(auditor, data, folder, budget=budget, about=self.about, check=self.check)
        known: dict[str, Any] = {"name": self.label, "folder": folder, "asked": auditor.recipe.conditions}
        if folder is not None and task.finished and not self.fresh:
            self.say(f"done before, in {folder} (fresh=True does it anew)", *filter(None, [task.likeness]))
            return AuditResult.of(task.read_finished(), run=read_run_facts(folder), **known)
        with open_engine(self.engine, self.scheduler, self.workers) as executor:
            with progress(self.screen, "audit", data.names) as listen:
                found = task.attack(listen, fresh=self.fresh, executor=executor)
        if folder is None:
            return AuditResult.of(found, run=self.about, **known)
        write_summary(folder, found)
        return AuditResult.of(found, run=read_run_facts(folder), **known)
