"""A race in its folder: finished rounds are not attacked again, and each batch may be computed elsewhere."""

import itertools
import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from leastwise import __version__
from leastwise.audit.auditor import Auditor
from leastwise.audit.race import (
    Attacked,
    RaceRecipe,
    Survived,
    check,
    facts,
    find_right,
    order_by_class,
    race,
)
from leastwise.core.files import write_json
from leastwise.core.recipe import recipe_key, to_plain_json
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import settle_choices
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

    def __post_init__(self) -> None:
        check(self.data, self.recipe.aim)

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
                attack = remember_rounds(attack_rounds(work, executor), ledger)
                places = order_by_class(self.auditor, self.data)
                for found in race(self.recipe, places, right, attack=attack):
                    rounds.append(found)
                    listen(found)
            write_json(self.result, facts(rounds, self.data, self.auditor, recipe=self.recipe, right=right))
            shutil.rmtree(self.folder / SHARDS)
            seconds = clock.seconds() - begun
            write_run_facts(self.folder, seconds, clock=clock, device=self.auditor.device, about=self.about)
        return self.result


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
