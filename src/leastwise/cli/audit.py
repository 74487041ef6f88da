"""`leastwise audit`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from leastwise.cli.options import ExecutorOptions, TargetOptions, echo
from leastwise.core.text import Screen, parse_seconds

if TYPE_CHECKING:
    from leastwise.audit.auditor import Conditions
    from leastwise.audit.evidence import Evidence
    from leastwise.audit.two_phase import PhasedAttack, SamplePlan
    from leastwise.jobs.audit_task import AuditTask
    from leastwise.jobs.two_phase import SecondPhase

INCOMPLETE = 3  # exit code: some shards could not be attacked, and the rest is reported


@dataclass(frozen=True)
class Audit:
    """Attack a classifier and report every class, with intervals.

    Exit code 0: done; 3: some shards could not be attacked, which every output repeats; 2: bad input.
    """

    target: tyro.conf.OmitArgPrefixes[TargetOptions]
    where: tyro.conf.OmitArgPrefixes[ExecutorOptions] = ExecutorOptions()
    attack: Annotated[str, tyro.conf.arg(metavar="LIST")] = "clean,pgd20,tpgd20"
    """names separated by commas; `leastwise list attacks` shows them"""
    eps: Annotated[str, tyro.conf.arg(metavar="EPS")] = "8/255"
    """how far an attack may go, in pixel units of [0, 1]; several, separated by commas, make a security curve"""
    time_budget: Annotated[str, tyro.conf.arg(metavar="TIME")] = ""
    """90s, 20m, 2h: audit as many images, drawn at random, as fit, and say how many were left out"""
    two_phase: Annotated[str, tyro.conf.arg(metavar="PLAN")] = ""
    """budget:40% or width:10%: the first member of an attack such as autoattack on all images, the others on a random
    sample of its survivors, for that share of the passes or with intervals of that width"""
    costs: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """what mistakes cost: a CSV file with a row per true and a column per predicted class; 1 each unless given"""
    save_adversarial: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """keep the attacked images, bit by bit, and say how many attacks survive in 8 bits"""
    shard: int = 0
    """images between two commits to disk, from where an interrupted audit goes on; 0 for ten batches, at most 1,000"""
    no_check: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """leave out the check at the end, which attacks some survivors of gradient attacks without gradients"""
    fresh: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """do it anew, and replace what --out holds"""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where evidence and summary go; results/audit-KEY unless given"""

    def run(self) -> int:
        target, where = self.target, self.where
        where.check()
        radii = [radius.strip() for radius in self.eps.split(",")]
        from leastwise.attacks.registry import make_threat

        for radius in radii[1:]:  # the first is looked at below
            make_threat(target.norm, radius, target.step)
        budget = parse_seconds(self.time_budget)
        console = Screen()
        loaded = target.ready(console, radii[0], self.attack, threads=where.threads(target.threads))
        data, threat = loaded.data, loaded.threat
        from leastwise.attacks.registry import make_attacks, repeat_over_radii
        from leastwise.core.text import say
        from leastwise.jobs.audit_task import AuditTask
        from leastwise.jobs.two_phase import SecondPhase
        from leastwise.models.fast.prepare import FORMS
        from leastwise.report.cost_matrix import read_costs
        from leastwise.report.summary import write_summary
        from leastwise.report.terminal.two_phase import phases_lines
        from leastwise.report.terminal.view import game_line, print_classes, progress

        cost = read_costs(Path(self.costs), data.names) if self.costs else None
        conditions = make_attacks(repeat_over_radii(self.attack, radii, threat), threat)
        conditions, phases = self.split(conditions)
        auditor = target.make_auditor(loaded, conditions, shard=self.shard, images=self.save_adversarial)
        folder = Path(self.out or f"results/audit-{auditor.key[:8]}")
        task = AuditTask(
            auditor,
            data,
            folder,
            form=FORMS.get(target.form),
            budget=budget,
            about=target.about,
            check=not self.no_check,
        )
        echo(console, target, auditor, data=data)
        found = self.read_finished(console, task)
        if found is None:
            with where.open_executor() as executor, progress(console, "audit", data.names) as listen:
                found = task.attack(listen, fresh=self.fresh, executor=executor)
        phased = None
        if phases is not None:
            second = SecondPhase(auditor, data, folder, *phases, form=FORMS.get(target.form))
            found, phased = self.run_second(console, second, found)
        made = write_summary(folder, found, cost, two_phase=phased)
        print_classes(console, found, target.model)
        tell_findings(console, found)
        for line in phases_lines(phased) if phased else ():
            say(console, line)
        if cost is not None:
            for name, block in made["fairness"].items():
                say(console, f"{name}: {game_line(block['game'])}")
        say(console, f"Evidence and summary: {folder} (`leastwise report {folder}` makes a page of it)")
        return 0 if task.finished else INCOMPLETE

    def read_finished(self, console: Screen, task: "AuditTask") -> "Evidence | None":
        """The evidence of an audit that was done before; None if there is something to attack."""
        if self.fresh or not task.finished:
            return None
        from leastwise.core.text import say

        say(console, f"done before, in {task.folder} (--fresh does it anew)")
        for remark in filter(None, [task.likeness]):
            say(console, remark)
        return task.read_finished()

    def split(self, conditions: "Conditions") -> "tuple[Conditions, tuple[PhasedAttack, SamplePlan] | None]":
        """What the first phase attacks with, and what is left for the second."""
        if not self.two_phase:
            return conditions, None
        from leastwise.audit.two_phase import parse_plan, split_conditions

        if self.time_budget or self.save_adversarial:
            raise ValueError("--two-phase goes with neither --time-budget nor --save-adversarial: leave them out")
        plan = parse_plan(self.two_phase)
        first, later = split_conditions(conditions)
        return first, (later, plan)

    def run_second(
        self, console: Screen, second: "SecondPhase", found: "Evidence"
    ) -> "tuple[Evidence, dict[str, Any]]":
        """Attack the sample; what both phases found goes beside the evidence, which says so."""
        from leastwise.audit.evidence import EVIDENCE_FILE
        from leastwise.report.terminal.view import progress

        with self.where.open_executor() as executor, progress(console, "second phase", found.names) as listen:
            told, phased = second.run(found, listen, executor=executor, fresh=self.fresh)
        told.save(second.folder / EVIDENCE_FILE)
        return told, phased


def tell_findings(console: Screen, found: "Evidence") -> None:
    """The headline, what belongs to it, and what checks found."""
    from leastwise.audit.masking import check_remarks
    from leastwise.core.text import say
    from leastwise.report.condition_stats import headline_details
    from leastwise.report.terminal.view import headline

    say(console, f"\n{headline(found)}")
    for remark in (*headline_details(found), *(f"check: {said}" for said in check_remarks(found))):
        say(console, remark)
