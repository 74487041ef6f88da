"""A training in a folder: what is on disk after every epoch, and how an interrupted one goes on.

`resume.pt` is replaced in one piece, so a run that is killed at any moment goes on behind its last snapshot and ends
with the same bits: nothing else is remembered between steps. `best.pt` may be newer than `resume.pt`; the epoch that
wrote it is then done again and writes the same.
"""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from leastwise.core.counts import Tally
from leastwise.core.files import parse_json, with_nulls, write_atomic, write_json
from leastwise.core.recipe import name_of_type
from leastwise.core.text import error_with_type
from leastwise.data.dataset import Dataset
from leastwise.models.classifier import Classifier, inference
from leastwise.models.fast.prepare import Form
from leastwise.models.load.checkpoint import load_checkpoint, save_checkpoint
from leastwise.models.load.torch_file import read_torch, write_torch
from leastwise.training.base import Epoch, Seen
from leastwise.training.distributed import ALONE, Ranks
from leastwise.training.loop import Snapshot, StepProgress, fit
from leastwise.training.recipe import Training, score_epoch
from leastwise.training.step import FOLDED
from leastwise.training.weights import temporary_weights

MODEL, BEST, LAST, RESUME, EPOCHS = "model.pt", "best.pt", "last.pt", "resume.pt", "epochs.jsonl"
WEIGHTS = "model.safetensors"  # in the place of the model and the last epoch, where results are to be small
NO_WEIGHTS = "no-weights.json"  # in the place of weights that nobody needed any more
MANIFEST = "manifest.json"
FILES = (MODEL, WEIGHTS, NO_WEIGHTS, BEST, LAST, RESUME, EPOCHS, MANIFEST)  # that a training may leave in its folder
SAVE_EVERY = 600.0  # seconds between snapshots within an epoch
LONG_STEP = 5.0  # seconds of a step from which there is a snapshot after each
MOST_THREADS = 4096  # more than any machine has: a manifest that says so was not written by us
ON_TEST = "the best epoch was chosen on the test set: its test accuracy is too good"

COMPARED, AS_GOOD = 1000, 0.998  # images on which half precision has to give the same answer, and the share of them
NO_AVERAGE = "no epoch met the averaging's condition: these are the weights as trained, not an average"

TrainingCallback = Callable[[StepProgress | Epoch], None]
NetworkMeasure = Callable[[Classifier], Any]  # measures a network; the answer is JSON


@dataclass(frozen=True, eq=False, kw_only=True)
class Course:
    """A training with its data and its folder."""

    model: Classifier
    data: Dataset
    training: Training
    folder: Path
    device: str = "cpu"
    threads: int = 0  # 0: as an earlier run had it, or as torch has it
    form: Form | None = None  # None: as an earlier run had it, or folded
    ranks: Ranks = ALONE
    valid: Dataset | None = None
    test: Dataset | None = None
    extra: Dataset | None = None
    looks: Mapping[str, NetworkMeasure] = field(default_factory=dict)  # taken after every epoch, into its line
    result: str = MODEL

    def run(self, watch: TrainingCallback) -> bool:
        """Train to the end, from where an earlier run in the folder stopped; steps and epochs are told to `watch`.

        Whether somebody asked it to end meanwhile, in the last step: it is finished, but whatever was to follow is not
        wanted any more.
        """
        form = self.apply_manifest()
        after, best = self.restore()
        lines = self.read_lines(after)
        with defer_interrupts() as stop:
            saved = stepped = time.monotonic()

            def pause() -> bool:
                nonlocal stepped
                before, stepped = stepped, time.monotonic()
                # Whoever ends the program waits for some seconds only: of long steps, none but the last may be lost.
                return stop.is_set() or stepped - saved > SAVE_EVERY or stepped - before > LONG_STEP

            for now in fit(
                self.model, self.data, self.training, after=after, device=self.device, watch=watch, valid=self.valid,
                test=self.test, extra=self.extra, form=form, ranks=self.ranks, pause=pause,
            ):  # fmt: skip
                if now.whole and now.seen is not None:
                    line = epoch_line(now.seen, self.training) | self.measure_network(now)
                    lines.append(json.dumps(line, allow_nan=False))
                    best = self.save_if_best(now, best)
                    self.write(EPOCHS, ("\n".join(lines) + "\n").encode())
                self.save_snapshot(now, best)
                saved = time.monotonic()
                if now.whole and now.seen is not None:
                    watch(now.seen)
                if stop.is_set() and now.finished < self.training.epochs:
                    raise KeyboardInterrupt
        self.finish(now if after is None or after.finished < self.training.epochs else after, best)
        return stop.is_set()

    def apply_manifest(self) -> Form:
        """The choices that are no part of the recipe: made once, written down, and used again; others are refused."""
        wanted = {"threads": self.threads, "form": self.form and asdict(self.form), "processes": self.ranks.size}
        kept = read_manifest(self.folder)
        if kept is None or not (self.folder / RESUME).exists():
            form = self.form or FOLDED
            if self.threads:
                torch.set_num_threads(self.threads)
            chosen = {"threads": torch.get_num_threads(), "form": asdict(form), "processes": self.ranks.size}
            self.ranks.wait()  # everyone has looked before the first one writes
            if self.ranks.first:
                write_json(self.folder / MANIFEST, chosen | {"torch": torch.__version__})
            return form
        for name, value in wanted.items():
            if value and value != kept[name]:
                raise ValueError(
                    f"this training began with {name} {setting_text(kept[name])} and would not end with the same "
                    f"weights with {setting_text(value)}: leave the setting as it was, or start anew with --fresh"
                )
        torch.set_num_threads(kept["threads"])
        return Form(**kept["form"])

    def save_snapshot(self, now: Snapshot, best: float | None) -> None:
        """Write where the training stands, and its weights, in one piece."""
        if self.ranks.first:
            content = snapshot_content(now) | {"weights": self.model.state_dict(), "best": best}
            write_torch(self.folder / RESUME, content)
        self.ranks.wait()

    def restore(self) -> tuple[Snapshot | None, float | None]:
        """Put the weights back into the model; where the training stood, if it had begun, and the best score."""
        path = self.folder / RESUME
        if not path.is_file():
            return None, None
        content = read_torch(path)
        try:
            self.model.load_state_dict(content["weights"])
            best = content["best"]
            if best is not None and type(best) is not float:
                raise TypeError("the best score is no number")
            return snapshot_from_content(content), best
        except (LookupError, TypeError, AttributeError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"{path} is not what an interrupted training leaves ({error_with_type(error)}): start anew with --fresh"
            ) from None

    def read_lines(self, after: Snapshot | None) -> list[str]:
        """The lines of the epochs that are finished."""
        path = self.folder / EPOCHS
        return path.read_text("utf-8").splitlines()[: after.finished] if after is not None and after.finished else []

    def save_if_best(self, now: Snapshot, best: float | None) -> float | None:
        """Keep the weights of this epoch if none was better by the rule; the new best score."""
        assert now.seen is not None
        value = score_epoch(self.training.validation.rule, now.seen)
        if value is None or (best is not None and value <= best) or self.training.validation.rule == "last":
            return best
        self.save_network(BEST, now)
        return value

    def measure_network(self, now: Snapshot) -> dict[str, Any]:
        """What the caller wants to know of the network after every epoch."""
        if not self.looks or not self.ranks.first:
            return {}
        with temporary_weights(self.model, now.average):
            return {"looks": {name: look(self.model) for name, look in self.looks.items()}}

    def save_network(self, name: str, now: Snapshot) -> None:
        """Write a checkpoint of the weights that count: the averaged ones, where there are any."""
        if not self.ranks.first:
            return
        notes: tuple[str, ...] = (ON_TEST,) if self.training.validation.on_test and name != LAST else ()
        if self.training.averaging is not None and now.average is None:
            notes += (NO_AVERAGE,)
        notes += tuple(f"its training images: {note}" for note in self.data.part_notes)
        with temporary_weights(self.model, now.average):
            save_checkpoint(self.folder / name, self.model, self.data.shape, names=self.data.names, notes=notes)

    def finish(self, now: Snapshot, best: float | None) -> None:
        """The model is the best epoch's where epochs were compared, else the last one's; written last."""
        if self.ranks.first:
            self.save_network(LAST, now)
            chosen = self.folder / (LAST if best is None else BEST)
            if self.result == MODEL:
                write_atomic(self.folder / MODEL, chosen.read_bytes())
            else:
                self.save_small(load_checkpoint(chosen))
            (self.folder / NO_WEIGHTS).unlink(missing_ok=True)
            for name in (BEST, RESUME) if self.result == MODEL else (BEST, RESUME, LAST):
                (self.folder / name).unlink(missing_ok=True)
        self.ranks.wait()

    def save_small(self, model: Classifier) -> None:
        """Write the result to be handed on: in half precision where that answers as the network itself does."""
        file = self.folder / self.result
        save = partial(save_checkpoint, file, model, self.data.shape, names=self.data.names, notes=model.notes)
        save(half=True)
        x = self.data.batch(np.arange(min(len(self.data), COMPARED))).x
        half = load_checkpoint(file)
        with inference(model), inference(half), torch.no_grad():
            same = (model(x).argmax(1) == half(x).argmax(1)).float().mean().item()
        if same < AS_GOOD:
            save()

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the folder; of several processes, only the first does."""
        if self.ranks.first:
            write_atomic(self.folder / name, content)


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The choices of an interrupted training, so that the rest is computed the same way; None if it has none."""
    file = folder / MANIFEST
    if not file.is_file():
        return None
    try:
        kept = parse_json(file.read_text("utf-8"))
        known = {"threads": int(kept["threads"]), "processes": int(kept["processes"])}
        good = 0 < known["threads"] <= MOST_THREADS and known["processes"] > 0
        form = asdict(Form(**kept["form"]))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        good = False
    if not good:
        raise ValueError(f"{file} is not what a training writes: start anew with --fresh")
    return known | {"form": form}


@contextmanager
def defer_interrupts() -> Iterator[threading.Event]:
    """Ctrl-C, or a polite request to end, waits for the step to be finished; a second Ctrl-C does not."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(_number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def snapshot_content(now: Snapshot) -> dict[str, Any]:
    """A snapshot as tensors and plain values; what the last epoch saw is in `epochs.jsonl`."""
    held = {name: getattr(now, name) for name in ("finished", "batch", "optimiser", "averaged")}
    return held | {
        "partial": now.partial.tensors(),
        "states": [dict(state) for state in now.states],
        "average": None if now.average is None else dict(now.average),
        "tails": list(now.tails),
    }


def snapshot_from_content(content: Mapping[str, Any]) -> Snapshot:
    """The snapshot that `snapshot_content` was made from, without what its last epoch saw."""
    held = {name: content[name] for name in ("finished", "batch", "optimiser", "averaged", "average")}
    return Snapshot(
        seen=None,
        partial=Seen.from_tensors(content["partial"]),
        states=tuple(content["states"]),
        tails=tuple(content["tails"]),
        **held,
    )


def epoch_line(seen: Epoch, training: Training) -> dict[str, Any]:
    """One line of `epochs.jsonl`: counts by class, and what the policies had set during the epoch.

    "clean" and "attacked" are of the training images as they were trained on, which may mean mixed images, some classes
    only, or radii that policies chose; "robust" is of a fixed sample of them after the epoch, at the recipe's radius,
    under the validation's attack.
    """
    line: dict[str, Any] = {"epoch": seen.number, "loss": seen.loss, "rate": seen.rate}
    line |= counts_by_class(seen.train, attacked="attacked")
    if seen.record is not None:
        line["robust"] = counts_of(seen.record.robust)
    for name in ("valid", "averaged", "test"):
        part: Seen | None = getattr(seen, name)
        if part is not None:
            line[name] = counts_by_class(part)
    if training.policies:
        line["policies"] = [
            {"policy": name_of_type(type(policy))} | {name: with_nulls(value.tolist()) for name, value in state.items()}
            for policy, state in zip(training.policies, seen.states, strict=True)
        ]
    if training.validation.on_test:
        line["warning"] = ON_TEST
    return line


def counts_by_class(seen: Seen, attacked: str = "robust") -> dict[str, Any]:
    """Counts and mean entropies of every class as JSON values; `attacked` is what those under attack are called."""
    return {
        "clean": counts_of(seen.clean),
        attacked: counts_of(seen.robust),
        "entropy": with_nulls((seen.entropy / seen.n).tolist()),
    }


def counts_of(tally: Tally) -> dict[str, list[int]]:
    return {"n": tally.n.tolist(), "correct": tally.correct.tolist()}


def setting_text(value: Any) -> str:
    """A setting of the manifest in words."""
    if isinstance(value, dict):
        return str(Form(**value))
    return str(value)
