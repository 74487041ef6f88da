"""A race in its folder: finished rounds are not attacked again, and each batch may be computed elsewhere."""

import itertools
import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from leastwise import __version__
from leastwise.attacks.base import Passes
from leastwise.audit.auditor import Auditor, group_by_ball
from leastwise.audit.masking import check_some, cost_of_one, limit_sample
from leastwise.audit.race import (
    Attacked,
    RaceRecipe,
    Survived,
    check_aim,
    facts,
    find_right,
    order_by_class,
    race,
)
from leastwise.core.files import write_json
from leastwise.core.losses import margin
from leastwise.core.recipe import recipe_key, to_plain_json
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import doubt_constancy, settle_choices
from leastwise.jobs.events import AuditEvent, ignore
from leastwise.jobs.executor import LOCAL, AuditPiece, AuditWork, Executor, LostPiece
from leastwise.jobs.folder import (
    CLOCK,
    RACE,
    SHARDS,
    Clock,
    FolderClaim,
    claim_folder,
    describe_likeness,
    is_result_of,
    steady_memory,
    tell_answers,
    write_run_facts,
)
from leastwise.jobs.shards import Ledger, open_ledger
from leastwise.models.answers import Likeness, find_tolerance
from leastwise.models.classifier import inference
from leastwise.models.fast.prepare import Form
from leastwise.statistics.race import Round

RIGHT = "right.bits"  # the piece that says which images are right as they are

RaceListener = Callable[[AuditEvent | Round], None]


@dataclass(frozen=True, eq=False)
class RaceTask:
    """A race under the auditor's one condition, which was checked as far as it can be, and its folder."""

    auditor: Auditor
    data: Dataset
    folder: Path
    recipe: RaceRecipe
    form: Form | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    check: bool = True  # whether survivors of gradient attacks are attacked without gradients at the end

    def __post_init__(self) -> None:
        check_aim(self.data, self.recipe.aim)

    @property
    def claim(self) -> FolderClaim:
        recipe = to_plain_json(self.recipe) | {"audit": to_plain_json(self.auditor.recipe)}
        facts = {"kind": "race", "key": recipe_key(self.recipe), "leastwise": __version__, "recipe": recipe}
        return facts | tell_answers(self.auditor.answers)

    @property
    def result(self) -> Path:
        """The file whose presence means that it is finished; written last, in one piece."""
        return self.folder / RACE

    @property
    def finished(self) -> bool:
        whole = not (self.folder / SHARDS).exists()
        return whole and self.result.is_file() and is_result_of(self.folder, self.claim)

    @property
    def likeness(self) -> str:
        """What a finished race was recognised by, if that is less than what its model answers."""
        return describe_likeness(self.folder, self.claim)

    def run(
        self, listen: RaceListener = ignore, *, fresh: bool = False, executor: Executor = LOCAL, clock: Clock = CLOCK
    ) -> Path:
        """Race in the folder, or find it done."""
        if self.finished and not fresh:
            return self.result
        begun = clock.seconds()
        with claim_folder(self.folder, self.claim, fresh=fresh):
            steady_memory()
            rounds = []
            with open_ledger(self.folder / SHARDS) as ledger, inference(self.auditor.model):
                assert ledger is not None
                ledger.check_models(self.claim)
                work = settle_choices(self.auditor, self.data, self.folder, form=self.form, listen=listen)
                right = remember_right(work.auditor, self.data, ledger)
                attack, stood = note_survivors(remember_rounds(attack_rounds(work, executor), ledger))
                places = order_by_class(self.auditor, self.data)
                for found in race(self.recipe, places, right, attack=attack):
                    rounds.append(found)
                    listen(found)
                told = check_race(work, stood, right, spent=rounds[-1].spent) if self.check and rounds else NOTHING
            auditor = replace(self.auditor, warnings=(*told.warnings, *self.auditor.warnings))
            answer = facts(rounds, self.data, auditor, recipe=self.recipe, right=right)
            write_json(self.result, answer | ({"check": told.remark} if told.remark else {}))
            shutil.rmtree(self.folder / SHARDS)
            seconds = clock.seconds() - begun
            write_run_facts(self.folder, seconds, clock=clock, device=self.auditor.device, about=self.about)
        return self.result


class RaceDoubts(NamedTuple):
    """What was found when the answer of a race was put to the proof."""

    warnings: tuple[str, ...] = ()
    remark: str = ""


NOTHING = RaceDoubts()


def note_survivors(attack: Attacked) -> tuple[Attacked, list["np.ndarray"]]:
    """The same attack, and where the positions of what survived it are written down."""
    stood: list[np.ndarray] = []

    def attack_and_note(wanted: Mapping[int, "np.ndarray"]) -> Survived:
        found = attack(wanted)
        stood.extend(rows[found[c]] for c, rows in wanted.items())
        return found

    return attack_and_note, stood


def check_race(work: AuditWork, stood: list["np.ndarray"], right: "np.ndarray", *, spent: int) -> RaceDoubts:
    """Attack some survivors without gradients, and ask whether the model was one model all the time."""
    auditor, data = work.auditor, work.data
    ((_, attack),) = auditor.recipe.conditions
    warnings, remark = tuple[str, ...](), ""
    for ball, names in group_by_ball(auditor.recipe.conditions):
        cost, each = attack.cost(data.k) or Passes(0), cost_of_one(ball, data.k)
        most = limit_sample(len(data), spent * (cost.forwards + cost.backwards), each)
        survivors = np.concatenate([np.empty(0, dtype=np.int64), *stood])
        found = check_some(auditor, data, survivors, ball=ball, names=names, crafted_on=work.crafted_on, most=most)
        said = found.sentence(data.names)
        warnings, remark = ((said,), "") if found.fires else ((), said)
    return RaceDoubts((*warnings, *doubt_constancy(auditor, data, compare_right(auditor, data, right))), remark)


def compare_right(auditor: Auditor, data: Dataset, right: "np.ndarray") -> Likeness | None:
    """Whether the images that are right as they are were so when the model was asked before the race."""
    kept = auditor.answers.get("model")
    if kept is None:
        return None
    _, at, rows = np.intersect1d(data.ids, kept.ids, return_indices=True)
    z, y = torch.from_numpy(kept.logits[rows].astype(np.float64)), torch.from_numpy(data.labels[at])
    sure = margin(z, y).abs().numpy() > 2 * find_tolerance(kept, kept)
    other = int((((z.argmax(dim=1) == y).numpy() != right[at]) & sure).sum())
    return Likeness(other == 0, f"{other} of {len(at)} images are not as right or wrong as they were")


def attack_rounds(work: AuditWork, executor: Executor) -> Attacked:
    """Attack the images of a round, all classes in shared batches; each batch may be computed elsewhere."""
    ((condition, _),) = work.auditor.recipe.conditions
    size, data = work.auditor.batch_size, work.data

    def attack(wanted: Mapping[int, "np.ndarray"]) -> Survived:
        positions = np.concatenate(list(wanted.values()))
        batches = [
            AuditPiece(f"{start:06}", condition, positions[start : start + size], "predicted")
            for start in range(0, len(positions), size)
        ]
        predicted, waiting = {}, iter(batches)
        with executor.open_audit(work, lambda piece, done, so_far: None) as session:
            while True:
                while session.has_room and (piece := next(waiting, None)) is not None:
                    session.submit(piece)
                if not session.is_busy:
                    break
                found = session.wait()
                if isinstance(found, LostPiece):
                    raise ValueError(f"a round of the race could not be attacked: {found.reason}")
                sent = np.frombuffer(found.content, dtype="<i4")
                predicted[found.piece.name] = sent if found.record is None else found.record.predicted
        right = np.concatenate([predicted[piece.name] for piece in batches]) == data.labels[positions]
        ends = np.cumsum([len(some) for some in wanted.values()])[:-1]
        return dict(zip(wanted, np.split(right, ends), strict=True))

    return attack


def remember_right(auditor: Auditor, data: Dataset, ledger: Ledger) -> "np.ndarray":
    """Which images are right as they are, from the ledger or from one pass each; committed before the first attack."""
    content = ledger.read(RIGHT)
    if content is None:
        start = time.monotonic()
        content = np.packbits(find_right(auditor, data)).tobytes()
        ledger.commit(RIGHT, content, time.monotonic() - start)
    return np.unpackbits(np.frombuffer(content, dtype=np.uint8))[: len(data)].astype(bool)


def remember_rounds(attack: Attacked, ledger: Ledger) -> Attacked:
    """The same attack, which looks first at what an interrupted race committed."""
    numbers = itertools.count()

    def look_up_or_attack(wanted: Mapping[int, "np.ndarray"]) -> Survived:
        name = f"{next(numbers):06}.json"
        content = ledger.read(name)
        with suppress(ValueError, TypeError, AttributeError):  # a round that we did not write is attacked again
            kept = {int(c): np.array(bits, dtype=bool) for c, bits in json.loads(content or b"null").items()}
            if [(c, bits.shape) for c, bits in kept.items()] == [(c, (len(some),)) for c, some in wanted.items()]:
                return kept
        start = time.monotonic()
        found = attack(wanted)
        told = {str(c): bits.astype(int).tolist() for c, bits in found.items()}
        ledger.commit(name, json.dumps(told).encode(), time.monotonic() - start)
        return found

    return look_up_or_attack
