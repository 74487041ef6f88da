"""The second phase of an audit, in a folder inside the audit's: after an interruption it goes on, as every audit."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from leastwise.audit.auditor import Auditor, Conditions
from leastwise.audit.evidence import Evidence, load_evidence
from leastwise.audit.two_phase import (
    PhasedAttack,
    SamplePlan,
    describe_phases,
    draw_sample,
    phases_sentence,
    plan_sample,
)
from leastwise.core.files import write_json
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import AuditTask
from leastwise.jobs.events import AuditListener, ignore
from leastwise.jobs.executor import LOCAL, Executor
from leastwise.jobs.folder import SECOND, TWO_PHASE
from leastwise.models.fast.prepare import Form


@dataclass(frozen=True, eq=False)
class SecondPhase:
    """What is left to do after the first phase; `first` is the auditor that did it."""

    first: Auditor
    data: Dataset
    folder: Path
    phased: PhasedAttack
    plan: SamplePlan
    form: Form | None = None

    def run(
        self, found: Evidence, listen: AuditListener = ignore, *, executor: Executor = LOCAL, fresh: bool = False
    ) -> tuple[Evidence, dict[str, Any]]:
        """Attack the sample; the evidence of the first phase with a word on it, and what both phases found."""
        phased = self.phased
        drawn = plan_sample(self.plan, found, phased)
        ids = draw_sample(found, phased, drawn, seed=self.first.recipe.seed)
        second = self.attack_sample(ids, listen, executor=executor, fresh=fresh) if len(ids) else None
        told = describe_phases(found, second, phased)
        write_json(self.folder / TWO_PHASE, told)
        said = phases_sentence(told)
        if said in found.warnings:
            return found, told
        return replace(found, warnings=(*found.warnings, said)), told

    def attack_sample(self, ids: "np.ndarray", listen: AuditListener, *, executor: Executor, fresh: bool) -> Evidence:
        some = self.data.where(np.flatnonzero(np.isin(self.data.ids, ids)))
        conditions: Conditions = ((self.phased.name, self.phased.later),)
        # The model was checked on all images; a check on survivors only would see something else.
        recipe = replace(self.first.recipe, data=some.digest(), conditions=conditions, images=False)
        task = AuditTask(replace(self.first, recipe=recipe), some, self.folder / SECOND, form=self.form)
        return load_evidence(task.run(listen, executor=executor, fresh=fresh))
