"""`leastwise explain`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from leastwise.cli.options import TargetOptions, echo, parse_class, refuse_to_replace
from leastwise.core.text import Screen, say

if TYPE_CHECKING:
    from leastwise.audit.evidence import Evidence


@dataclass(frozen=True)
class More:
    """A value of its own, so that these words follow the first model."""

    more: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="MODEL")] = ()
    """further models, or folders of audits, of the same classes"""


@dataclass(frozen=True)
class Explain:
    """Say what weak classes have in common: similarity, variance, confusion, entropy, images, and other models.

    A model is audited first, unless that was done before, and its features are looked at. A folder that `leastwise
    audit` wrote is explained from its evidence and from what an earlier explanation left there. explain.json goes
    beside the evidence, where `leastwise report` finds it.
    """

    target: tyro.conf.OmitArgPrefixes[TargetOptions]
    others: tyro.conf.OmitArgPrefixes[More] = More()
    attack: Annotated[str, tyro.conf.arg(metavar="LIST")] = "clean,pgd20"
    """what to audit a model with; names separated by commas"""
    eps: Annotated[str, tyro.conf.arg(metavar="EPS")] = "8/255"
    """how far an attack may go, in pixel units of [0, 1]"""
    condition: str = ""
    """explain accuracy under this condition; the one where the worst class is lowest, unless given"""
    without: Annotated[str, tyro.conf.arg(metavar="CLASS=DIR,…")] = ""
    """audits of networks that were trained without a class, for homing; they belong to the first model"""
    training: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """the folder of the first model's training, for class-wise robust overfitting"""
    fresh: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """audit anew, and replace the audits of the same models under results"""
    out: Annotated[Path, tyro.conf.arg(metavar="EXPLAIN_FILE", aliases=["-o"])] = Path("explain.html")
    """where the page goes; the same numbers go beside it as .json"""

    def run(self) -> None:
        from leastwise.audit.evidence import EXPLAIN_FILE
        from leastwise.core.files import write_atomic, write_json
        from leastwise.jobs.folder import ANSWERS, digest_answers
        from leastwise.report.explain.agreement import compare_facts
        from leastwise.report.explain.facts import homing_facts, overfitting_facts
        from leastwise.report.explain.page import explain_page
        from leastwise.report.explain.sentences import explain_lines
        from leastwise.report.results import shorten_names

        if self.out.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"--out must end in .html, but saw {self.out}")
        refuse_to_replace(self.out.with_suffix(".json"), "between", "an explanation")
        console = Screen()
        names = (self.target.model, *self.others.more)
        if len(set(names)) != len(names):
            raise ValueError("the same model was given twice: give each once")
        # Opened before anything is audited: a wrong folder must not cost an audit.
        without = read_removed(self.without) if self.without else {}
        overfitting = overfitting_facts(Path(self.training)) if self.training else None
        made: dict[str, dict[str, Any]] = {}
        for number, (name, label) in enumerate(zip(names, shorten_names(names), strict=True)):
            wanted = self.condition or next((one["condition"] for one in made.values()), "")
            folder, found, evidence = self.explain_one(console, name, wanted)
            if number == 0 and without:
                numbered = {class_number(cls, evidence.names): audit for cls, audit in without.items()}
                found["homing"] = homing_facts(evidence, numbered, found["condition"])
            if number == 0 and overfitting:
                if len(overfitting["lost"]) != evidence.k:
                    raise ValueError(
                        f"the training in {self.training} has {len(overfitting['lost'])} classes and the model "
                        f"{evidence.k}: give its own"
                    )
                found["overfitting"] = overfitting
            write_json(folder / EXPLAIN_FILE, found | {ANSWERS: digest_answers(folder)})
            made[label] = found
        for name, found in made.items():
            for line in explain_lines(name, found):
                say(console, line)
        together = compare_facts(made) if len(made) > 1 else None
        write_atomic(self.out, explain_page(made).encode())
        write_json(self.out.with_suffix(".json"), {"models": made, "between": together})
        say(console, f"Explanation: {self.out} and {self.out.with_suffix('.json')}")

    def explain_one(self, console: Console, name: str, wanted: str) -> tuple[Path, dict[str, Any], "Evidence"]:
        """The folder of the evidence, what it says, and the evidence. Models after the first take its condition."""
        from leastwise.report.explain.facts import collect_facts, keep_earlier_facts, usual_condition
        from leastwise.report.results import open_result

        if not any(Path(name).glob("evidence.safetensors*")):
            return self.audit_and_explain(console, replace(self.target, model=name), wanted)
        opened = open_result(Path(name))
        if not self.condition and wanted not in opened.evidence.conditions:
            wanted = usual_condition(opened.evidence)
        kept = opened.explained
        if kept is not None and kept["condition"] == wanted:
            return Path(name), dict(kept), opened.evidence
        made = require_facts(collect_facts(opened.evidence, wanted), name)
        return Path(name), keep_earlier_facts(made, kept), opened.evidence

    def audit_and_explain(
        self, console: Console, target: TargetOptions, wanted: str
    ) -> tuple[Path, dict[str, Any], "Evidence"]:
        """Audit a network, and collect its features."""
        loaded = target.ready(console, self.eps, self.attack)
        data, threat = loaded.data, loaded.threat
        from leastwise.attacks.base import Clean
        from leastwise.attacks.registry import make_attacks
        from leastwise.audit.evidence import load_evidence
        from leastwise.insight.features import look_at_features
        from leastwise.jobs.audit_task import AuditTask
        from leastwise.models.fast.prepare import FORMS
        from leastwise.report.explain.facts import collect_facts, keep_earlier_facts, read_facts
        from leastwise.report.explain.sheet import draw_extremes
        from leastwise.report.terminal.view import progress

        conditions = make_attacks(self.attack, threat)
        if not any(isinstance(one, Clean) for _, one in conditions):
            raise ValueError(f"--attack {self.attack} has no images without attack: put clean among them")
        if self.condition and self.condition not in dict(conditions):
            raise ValueError(f"there is no condition {self.condition!r}: choose {', '.join(dict(conditions))}")
        wanted = wanted if wanted in dict(conditions) else ""
        auditor = target.make_auditor(loaded, conditions)
        folder = Path(f"results/audit-{auditor.key[:8]}")
        task = AuditTask(auditor, data, folder, form=FORMS.get(target.form), about=target.about)
        echo(console, target, auditor, data=data)
        if self.fresh or not task.finished:
            with progress(console, "audit", data.names) as listen:
                task.run(listen, fresh=self.fresh)
        evidence = replace(load_evidence(folder), groups=data.groups)  # superclasses may be others than at its time
        moments, points = None, None
        try:
            moments, points = look_at_features(auditor.model, data, target.batch_size, device=loaded.device)
        except ValueError as reason:  # a black box, or a network without a last linear layer
            say(console, f"features were not looked at: {reason}")
        found = require_facts(collect_facts(evidence, wanted, moments=moments, plane=points), target.model)
        order = sorted(found["extremes"], key=lambda one: found["accuracy"][found["condition"]][data.names.index(one)])
        found["sheet"] = draw_extremes(data, found["extremes"], order, condition=found["condition"])
        return folder, keep_earlier_facts(found, read_facts(folder, evidence)), evidence


def require_facts(found: dict[str, Any] | None, name: str) -> dict[str, Any]:
    """Refuse a model that was not looked at without attack."""
    if found is None:
        raise ValueError(f"{name} was not looked at without attack: audit it with clean among the attacks")
    return found


def read_removed(text: str) -> dict[str, "Evidence"]:
    """`dog=DIR,cat=DIR`: audits of networks without a class."""
    from leastwise.report.results import open_result

    found = {}
    for part in text.split(","):
        cls, equals, folder = part.partition("=")
        if not equals:
            raise ValueError(f"--without has the form CLASS=DIR, but saw {part!r}")
        found[cls.strip()] = open_result(Path(folder.strip())).evidence
    return found


def class_number(cls: str, names: Sequence[str]) -> int:
    """The number of a class that the user gave by name or by number."""
    wanted = parse_class(cls, names)
    number = names.index(wanted) if wanted in names else wanted
    if isinstance(number, str) or number >= len(names):
        raise ValueError(f"there is no class {cls!r}: choose {', '.join(names)}")
    return number
