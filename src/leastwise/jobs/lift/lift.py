"""`lift`: search on validation images, and look once at test images: what became of the worst class."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from leastwise import __version__
from leastwise.attacks.base import Attack, Clean
from leastwise.audit.evidence import Evidence
from leastwise.core.files import with_nulls, write_json
from leastwise.core.recipe import to_plain_json
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import audit
from leastwise.jobs.folder import claim_folder, tell_answers
from leastwise.jobs.lift.candidate import LiftMaterial, Show
from leastwise.jobs.lift.search import GIVEN, Search
from leastwise.models.answers import ask_network
from leastwise.models.load.checkpoint import save_checkpoint
from leastwise.statistics.extremes import MinimumChange, PairedCounts
from leastwise.statistics.lift import LiftAim, LiftVerdict, is_confirmed, judge_lift, list_changes, score_classes

LIFT, LIFTED = "lift.json", "lifted.pt"
CONDITION, VERIFIED = "attacked", "verified"
LiftOutcome = Literal["lifted", "not lifted", "undecided", "nothing to lift"]


@dataclass(frozen=True, eq=False)
class LiftOptions:
    """What is wanted of a lift, and what it may cost."""

    aim: LiftAim = "worst"
    give_up: float = 0.01  # of the average accuracy under attack
    budget: float = 1800.0  # seconds of the search; the last look at test images comes on top
    verify: Attack | None = None  # the stronger attack that a lift has to survive
    verify_per_class: int = 100  # test images of each class that it is verified on


@dataclass(frozen=True, eq=False)
class LiftResult:
    """What a lift found; `told` is all of it as plain values."""

    outcome: LiftOutcome
    way: str
    told: Mapping[str, Any]
    folder: Path

    @property
    def exit_code(self) -> int:
        """0 lifted, 1 not, 3 undecided."""
        return {"lifted": 0, "undecided": 3}.get(self.outcome, 1)


def lift(
    material: LiftMaterial,
    test: Dataset,
    options: LiftOptions,
    *,
    show: Show,
    tell: Callable[[str], None] = lambda said: None,
    fresh: bool = False,
) -> LiftResult:
    """Try ways from cheap to dear on validation images, pick the best, and judge it once on test images."""
    search = Search(material, options.aim, options.give_up, options.budget, show, tell=tell)
    with claim_folder(material.folder, make_claim(material, test, options), fresh=fresh):
        way = search.run()
        told: dict[str, Any] = describe_search(search, way, options)
        if way == GIVEN:
            outcome: LiftOutcome = "nothing to lift" if len(search.tried) == 1 else "not lifted"
            return finish(material, outcome, way, told=told)
        pairs = look_at_test(search, way, test, options=options)
        weakest = int(np.nanargmin(search.seen[GIVEN].classes))
        verdict = judge_lift(pairs[CONDITION], options.aim, give_up=options.give_up, weakest=weakest)
        outcome = verdict.outcome
        told["test"] = describe_verdict(verdict, pairs[CONDITION], test, aim=options.aim)
        if VERIFIED in pairs:
            outcome, told["verified"] = verify(outcome, pairs, test, options=options)
        if outcome == "lifted":
            note = f"changed after training by leastwise lift ({way})"
            best = search.made[way]
            save_checkpoint(
                material.folder / LIFTED, best.cpu(), test.shape, names=test.names, notes=(*best.notes, note)
            )
        return finish(material, outcome, way, told=told)


def make_claim(material: LiftMaterial, test: Dataset, options: LiftOptions) -> dict[str, Any]:
    """Whose work the folder holds: the network by what it answers, all images, and what is wanted."""
    wanted = {
        "aim": options.aim, "give_up": options.give_up, "budget": options.budget, "seed": material.seed,
        "attack": to_plain_json(material.attack), "per_class": options.verify_per_class,
        "verify": None if options.verify is None else to_plain_json(options.verify),
    }  # fmt: skip
    digests = {
        name: part.digest() for name, part in (("train", material.train), ("valid", material.valid), ("test", test))
    }
    network = material.model.digest()
    key = f"{network}-{'-'.join(digests.values())}-{wanted}"
    found = {"kind": "lift", "key": key, "leastwise": __version__, "network": network, "recipe": wanted} | digests
    return found | tell_answers({"network": ask_network(material.model, material.valid)})


def look_at_test(search: Search, way: str, test: Dataset, *, options: LiftOptions) -> dict[str, PairedCounts]:
    """Both networks under the attack on all test images, and under the stronger one on some."""
    m = search.material
    looks = {CONDITION: (test, m.attack)}
    if options.verify is not None:
        looks[VERIFIED] = (test.take(options.verify_per_class), options.verify)
    found = {}
    for condition, (data, attack) in looks.items():
        sides: list[Evidence] = []
        for label, name in (("before", GIVEN), ("after", way)):
            with search.show(f"test {label}, {condition}") as listen:
                sides.append(
                    audit(
                        search.made[name], data, (("clean", Clean()), (condition, attack)),
                        out=m.folder / "test" / f"{label}-{condition}", seed=m.seed, device=m.device, listen=listen,
                        force=True, check=condition == CONDITION,
                    )
                )  # fmt: skip
        hits = [side.correct(condition) for side in sides]
        found[condition] = PairedCounts.count(hits[0], hits[1], np.asarray(sides[0].labels), k=test.k)
        if condition == VERIFIED:  # the attack of the search on these images, to compare lifts on the same ones
            found["same images"] = cut_to(search, sides, test)
    return found


def cut_to(search: Search, sides: list[Evidence], test: Dataset) -> PairedCounts:
    """Counts under the attack of the search, on the images of a stronger one."""
    from leastwise.audit.evidence import load_evidence

    folder = search.material.folder / "test"
    whole = [load_evidence(folder / f"{label}-{CONDITION}") for label in ("before", "after")]
    rows = np.isin(np.asarray(whole[0].ids), np.asarray(sides[0].ids))
    hits = [side.correct(CONDITION)[rows] for side in whole]
    return PairedCounts.count(hits[0], hits[1], np.asarray(whole[0].labels)[rows], k=test.k)


def verify(
    outcome: LiftOutcome, pairs: Mapping[str, PairedCounts], test: Dataset, *, options: LiftOptions
) -> tuple[LiftOutcome, dict[str, Any]]:
    """A lift that vanishes under a stronger attack is none: masking would look like one."""
    verdict = judge_lift(pairs[VERIFIED], options.aim, give_up=options.give_up)
    seen = judge_lift(pairs["same images"], options.aim, give_up=options.give_up)
    kept = is_confirmed(verdict.lift, seen.lift)
    told = describe_verdict(verdict, pairs[VERIFIED], test, aim=options.aim)
    told |= {"confirmed": kept, "on_the_same_images": asdict(seen.lift), "attack": str(options.verify)}
    return ("not lifted" if outcome == "lifted" and not kept else outcome), told


def describe_search(search: Search, way: str, options: LiftOptions) -> dict[str, Any]:
    """What was tried, what it cost, and what was chosen, on validation images."""
    return {
        "schema": 1,
        "aim": options.aim,
        "give_up": options.give_up,
        "attack": str(search.material.attack),
        "chosen": way,
        "pareto": search.pareto(),
        "validation_images": len(search.material.valid),
        "tried": [asdict(one) for one in search.tried.values()],
        "left_out": search.left_out,
        "seconds": search.spent,
    }


def describe_verdict(verdict: LiftVerdict, pairs: PairedCounts, test: Dataset, *, aim: LiftAim) -> dict[str, Any]:
    """Before and after on test images, class by class, with paired intervals."""
    n = np.where(pairs.n > 0, pairs.n, np.nan)
    before, after = pairs.a / n, pairs.b / n
    rows = [
        {"class": name, "n": int(count), "before": a, "after": b, "change": c, "low": low, "high": high}
        for name, count, a, b, (c, low, high) in zip(
            test.names, pairs.n.tolist(), before.tolist(), after.tolist(), list_changes(pairs), strict=True
        )
    ]
    score = {"before": score_classes(before, aim), "after": score_classes(after, aim)}
    changes: dict[str, MinimumChange] = {"lift": verdict.lift, "average": verdict.average}
    return {
        "images": int(pairs.n.sum()),
        "outcome": verdict.outcome,
        "average_before": float(pairs.a.sum() / pairs.n.sum()),
        "average_after": float(pairs.b.sum() / pairs.n.sum()),
        "score": score,
        "images_needed": verdict.images_needed,
        "classes": rows,
    } | {name: asdict(change) for name, change in changes.items()}


def finish(material: LiftMaterial, outcome: LiftOutcome, way: str, *, told: dict[str, Any]) -> LiftResult:
    """Write down what was found."""
    told = with_nulls({"outcome": outcome} | told)
    write_json(material.folder / LIFT, told)
    return LiftResult(outcome, way, told, material.folder)
