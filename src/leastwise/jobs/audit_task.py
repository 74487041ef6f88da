"""The audit driver: shards are attacked piece by piece, by whoever computes, and put together at the end.

The verb and the Python function `audit` are this code. In a folder every piece is committed as it comes, so that an
audit that is killed goes on where it was and ends with the same bytes; without one, everything stays in memory.
"""

import json
import shutil
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from leastwise import __version__
from leastwise.attacks.base import Attack, Passes
from leastwise.audit.auditor import Auditor, make_auditor
from leastwise.audit.evidence import EVIDENCE_FILE, Evidence, load_evidence
from leastwise.audit.masking import check_survivors, cost_of_check
from leastwise.core.files import write_json
from leastwise.core.recipe import to_plain_json
from leastwise.data.dataset import Dataset
from leastwise.jobs.events import AtMost, AuditListener, Ready, ignore
from leastwise.jobs.executor import LOCAL, AuditWork, Executor
from leastwise.jobs.folder import (
    CLOCK,
    IMAGES,
    MANIFEST,
    SHARDS,
    Clock,
    FolderClaim,
    claim_folder,
    compare_with_clean,
    describe_likeness,
    is_result_of,
    steady_memory,
    tell_answers,
    write_run_facts,
)
from leastwise.jobs.shards import ShardCourse, open_ledger
from leastwise.models.answers import Likeness, describe_change
from leastwise.models.classifier import Classifier, inference
from leastwise.models.fast.prepare import Form

MOST_THREADS = 4096  # more than any machine has: a manifest that says so was not written by us


def audit(
    model: nn.Module,
    data: Dataset,
    conditions: tuple[tuple[str, Attack], ...],
    *,
    out: Path | None = None,
    seed: int = 0,
    batch_size: int = 0,
    device: str = "cpu",
    listen: AuditListener = ignore,
    form: Form | None = None,
    force: bool = False,
    executor: Executor = LOCAL,
    fresh: bool = False,
    check: bool = True,
) -> Evidence:
    """The evidence of all conditions on all examples. The model is moved to `device` and not changed otherwise.

    With `out`, a folder, an interrupted audit goes on where it was when it is asked for again; one of another recipe,
    or of a model that answers otherwise, is replaced only with `fresh`. `form` is how attacks compute the model
    (`Form()`: as it is); without it the fastest is found where that pays. With `check`, some of what survived gradient
    attacks is attacked without gradients at the end.
    """
    auditor = make_auditor(model, data, conditions, seed=seed, batch_size=batch_size, device=device, force=force)
    task = AuditTask(auditor, data, out, form=form, check=check)
    if out is None:
        return task.attack(listen, executor=executor)
    return load_evidence(task.run(listen, fresh=fresh, executor=executor))


@dataclass(frozen=True, eq=False)
class AuditTask:
    """An audit that was checked as far as it can be before anything is written, and its folder.

    `form` is how attacks compute the model; without it, the one in the folder's manifest or the fastest. With a budget,
    in seconds, as many shards are attacked as fit into it, but at least one.
    """

    auditor: Auditor
    data: Dataset
    folder: Path | None
    form: Form | None = None
    budget: float | None = None
    about: Mapping[str, Any] = field(default_factory=dict)  # what a reader of the results wants to know besides
    job: Mapping[str, Any] = field(default_factory=dict)  # what the claim says of the job that this is for
    check: bool = True  # whether survivors of gradient attacks are attacked without gradients at the end

    @property
    def claim(self) -> FolderClaim:
        recipe = self.auditor.recipe
        facts = {"kind": "audit", "key": self.auditor.key, "leastwise": __version__, "recipe": to_plain_json(recipe)}
        return facts | dict(self.job) | tell_answers(self.auditor.answers)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.data.names

    @property
    def evidence(self) -> Path:
        """The file whose presence means that it is finished; written last, in one piece."""
        assert self.folder is not None, "without a folder there is no file"
        return self.folder / EVIDENCE_FILE

    @property
    def finished(self) -> bool:
        """Whether it was done before. A result that leaves something out is enough for an audit with a budget."""
        folder = self.evidence.parent
        whole = self.budget is not None or not (folder / SHARDS).exists()
        return whole and self.evidence.is_file() and is_result_of(folder, self.claim)

    @property
    def likeness(self) -> str:
        """What a finished audit was recognised by, if that is less than what its model answers."""
        return describe_likeness(self.evidence.parent, self.claim)

    def read_finished(self) -> Evidence:
        """The evidence that is there, with the superclasses that the data have now."""
        found = load_evidence(self.evidence.parent)
        return self.with_groups(found)

    def with_groups(self, found: Evidence) -> Evidence:
        """The evidence, written anew if the classes were grouped otherwise when it was made."""
        if found.groups == self.data.groups:
            return found
        found = replace(found, groups=self.data.groups)
        if self.folder is not None:
            found.save(self.evidence)
        return found

    def run(
        self, listen: AuditListener = ignore, *, fresh: bool = False, executor: Executor = LOCAL, clock: Clock = CLOCK
    ) -> Path:
        """Attack in the folder, or find it done; the file of the evidence."""
        if fresh or not self.finished:
            self.attack(listen, fresh=fresh, executor=executor, clock=clock)
        return self.evidence

    def attack(
        self, listen: AuditListener = ignore, *, fresh: bool = False, executor: Executor = LOCAL, clock: Clock = CLOCK
    ) -> Evidence:
        """Every condition on every shard, or on as many as the budget allows.

        In a folder, what an interrupted audit committed is not attacked again, and the evidence is written at the end.
        """
        folder, begun = self.folder, clock.seconds()
        with nullcontext() if folder is None else claim_folder(folder, self.claim, fresh=fresh):
            with open_ledger(folder and folder / SHARDS) as ledger, inference(self.auditor.model):
                steady_memory()
                if ledger is not None:
                    ledger.check_models(self.claim)
                work = settle_choices(self.auditor, self.data, folder, form=self.form, listen=listen)
                extra = cost_of_check(self.auditor.recipe.conditions, self.data.k)
                most = estimate_time(work.auditor, self.data, work.crafted_on, extra=extra if self.check else Passes(0))
                listen(most)
                course = ShardCourse(replace(work, seconds=most.seconds), executor, ledger, self.budget, listen, clock)
                with executor.open_audit(course.work, course.hear) as session:
                    while True:
                        course.submit_pieces(session)
                        if not session.is_busy:
                            break
                        result = session.wait()
                        course.submit_pieces(session)  # others go on while this process writes
                        course.take(result)
                found = course.make_evidence()
                if self.check:
                    checks = check_survivors(work.auditor, self.data, found, crafted_on=work.crafted_on)
                    kept = work.auditor.answers.get("model")
                    clean = None if kept is None else compare_with_clean(found, kept)
                    changes = doubt_constancy(work.auditor, self.data, clean)
                    found = replace(found, checks=checks, warnings=(*found.warnings, *changes))
            if folder is not None:
                found.save(self.evidence)
                if len(found.ids) == len(self.data):
                    shutil.rmtree(folder / SHARDS)
                seconds, device, notes = clock.seconds() - begun, self.auditor.device, self.data.part_notes
                write_run_facts(folder, seconds, clock=clock, device=device, about=self.about, notes=notes)
        return found


def doubt_constancy(auditor: Auditor, data: Dataset, clean: Likeness | None) -> tuple[str, ...]:
    """What to say of a model that did not answer throughout some work as it did before it.

    `clean` compares what it answered without attack, in batches of the usual size; and it is asked again for images.
    """
    kept = auditor.answers.get("model")
    if kept is None:
        return ()
    meanwhile = "" if clean is None or clean.same else clean.words
    later = describe_change(auditor.model, data, kept, batch=auditor.batch_size, device=auditor.device)
    return tuple(
        f"the model answered otherwise {when} the attacks than before them ({how}): its answers depend on the size of "
        "a batch or on what it was asked before, so these numbers are of several models; do not trust them"
        for when, how in (("during", meanwhile), ("after", later))
        if how
    )


class Manifest(NamedTuple):
    """The choices of an audit that are no part of its recipe."""

    form: Form
    batch_size: int
    threads: int


def settle_choices(
    auditor: Auditor, data: Dataset, folder: Path | None, *, form: Form | None, listen: AuditListener
) -> AuditWork:
    """The choices that are no part of the recipe: made once, written down, and used again when an audit goes on."""
    kept = None if folder is None else read_manifest(folder)
    if kept is not None:
        torch.set_num_threads(kept.threads)
        prepared, batch_size = auditor.prepare_model(data, kept.form), kept.batch_size
    else:
        prepared, batch_size = auditor.prepare_model(data, form), auditor.batch_size
        if folder is not None:
            chosen = {"form": asdict(prepared.form), "gain": round(prepared.gain, 3)}
            write_json(folder / MANIFEST, chosen | {"batch_size": batch_size, "threads": torch.get_num_threads()})
    listen(Ready(prepared))
    images = (folder or Path()) / IMAGES
    return AuditWork(replace(auditor, batch_size=batch_size), data, prepared.form, prepared.model, images)


def read_manifest(folder: Path) -> Manifest | None:
    """The choices of an interrupted audit, so that the rest is computed the same way."""
    try:
        kept = json.loads((folder / MANIFEST).read_text("utf-8"))
        found = Manifest(Form(**kept["form"]), int(kept["batch_size"]), int(kept["threads"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if found.batch_size > 0 and 0 < found.threads <= MOST_THREADS else None


def estimate_time(auditor: Auditor, data: Dataset, crafted_on: Classifier, *, extra: Passes = Passes(0)) -> AtMost:
    """From the passes that attacks make at most and the time of one batch, forward and backward.

    `extra` are the passes of the check at the end.
    """
    passes = [attack.cost(data.k) for _, attack in auditor.recipe.conditions]
    known = [one for one in passes if one is not None]
    if len(known) < len(passes):
        return AtMost(None)
    x = data.batch(np.arange(min(len(data), auditor.batch_size))).x.to(auditor.device)
    backwards = sum(one.backwards for one in known)
    begun = time.monotonic()
    with torch.set_grad_enabled(backwards > 0):
        z = crafted_on(x.requires_grad_(backwards > 0))
    forward = time.monotonic() - begun
    if backwards:
        torch.autograd.grad(z.sum(), x)
    backward = time.monotonic() - begun - forward
    each = sum(one.forwards for one in known) * forward + backwards * backward
    checks = extra.forwards * forward + extra.backwards * backward
    return AtMost((each * len(data) + checks) / len(x))
