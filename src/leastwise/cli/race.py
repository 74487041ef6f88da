"""`leastwise race`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from leastwise.cli.options import ExecutorOptions, TargetOptions, echo
from leastwise.core.text import Screen, parse_share


@dataclass(frozen=True)
class Race:
    """Find the worst class with as few attacks as possible: only classes that may still be the worst are attacked.

    Only images that are right as they are get attacked. The race may be stopped at any time without growing wrong; if
    the images do not suffice for the population the answer is "undecided among …".
    """

    target: tyro.conf.OmitArgPrefixes[TargetOptions]
    where: tyro.conf.OmitArgPrefixes[ExecutorOptions] = ExecutorOptions()
    attack: Annotated[str, tyro.conf.arg(metavar="NAME")] = "pgd20"
    """one attack; several as a worst case with +, such as apgd-ce+square"""
    eps: Annotated[str, tyro.conf.arg(metavar="EPS")] = "8/255"
    """how far the attack may go, in pixel units of [0, 1]"""
    question: Literal["this-test-set", "population"] = "this-test-set"
    """the worst class of these very images, which is certain at the end, or of what they were drawn from"""
    top: int = 1
    """how many of the worst classes to find"""
    below: Annotated[str, tyro.conf.arg(metavar="P")] = ""
    """find which classes are less accurate than this (0.2, 20%) and which are not, instead of the worst one"""
    prior: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """an earlier audit of the same classes: its accuracies decide where is looked first, never the answer"""
    confidence: float = 0.95
    """that the answer is right"""
    round: int = 5
    """images of each class that are attacked between two looks"""
    no_check: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """leave out the check at the end, which attacks some survivors of gradient attacks without gradients"""
    fresh: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """do it anew, and replace what --out holds"""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = ""
    """where the result goes; results/race-KEY unless given"""

    def run(self) -> None:
        target, where = self.target, self.where
        where.check()
        if "," in self.attack:
            raise ValueError(f"a race is run under one attack, but saw {self.attack}: join several with +")
        from leastwise.statistics.race import RaceAim

        aim = RaceAim(self.question, self.top, parse_share(self.below) if self.below else None, self.confidence)
        console = Screen()
        loaded = target.ready(console, self.eps, self.attack, threads=where.threads(target.threads))
        data, threat = loaded.data, loaded.threat
        from leastwise.attacks.registry import make_attack
        from leastwise.audit.evidence import load_evidence
        from leastwise.audit.race import RaceRecipe, take_guess
        from leastwise.core.recipe import recipe_key
        from leastwise.core.text import say
        from leastwise.jobs.race_task import RaceTask
        from leastwise.models.fast.prepare import FORMS
        from leastwise.report.terminal.race import race_sentence, show_race

        conditions = ((self.attack, make_attack(self.attack, threat)),)
        auditor = target.make_auditor(loaded, conditions)
        guess = take_guess(load_evidence(Path(self.prior)), data.names) if self.prior else ()
        recipe = RaceRecipe(auditor.key, self.round, aim, guess)
        folder = Path(self.out or f"results/race-{recipe_key(recipe)[:8]}")
        task = RaceTask(
            auditor, data, folder, recipe, form=FORMS.get(target.form), about=target.about, check=not self.no_check
        )
        echo(console, target, auditor, data=data)
        if task.finished and not self.fresh:
            say(console, f"done before, in {task.folder} (--fresh does it anew)")
            for remark in filter(None, [task.likeness]):
                say(console, remark)
        else:
            with where.open_executor() as executor:
                with show_race(console, data.names) as listen:
                    task.run(listen, fresh=self.fresh, executor=executor)
        found = json.loads(task.result.read_text("utf-8"))
        for warning in (one for one in found["warnings"] if one not in auditor.warnings):
            say(console, f"warning: {warning}")
        say(console, race_sentence(found))
        if "check" in found:
            say(console, f"check: {found['check']}")
        say(console, f"Result: {task.result}")
