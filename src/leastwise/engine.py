"""Runs jobs: a recipe in, one finished file out. The only module that knows where and how work is executed."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from leastwise import __version__
from leastwise import audit as audits
from leastwise import evidence as evidences
from leastwise import train as trains
from leastwise.data import Dataset, load
from leastwise.frame import Tally
from leastwise.models import Classifier, build, load_checkpoint, read_torch, save_checkpoint, write_torch
from leastwise.objectives import Epoch
from leastwise.plan import Audit, Job, Train
from leastwise.recipe import key, plain
from leastwise.store import write_atomic, write_json

MODEL = "model.pt"
RESUME = "resume.pt"
EPOCHS = "epochs.jsonl"
RECIPE = "recipe.json"
RUN = "run.json"

Watch = Callable[[trains.Step | Epoch | audits.Step], None]


def result(job: Job) -> str:
    """The file whose presence means the job is finished; it is written last, in one piece."""
    return MODEL if isinstance(job, Train) else evidences.FILE


def finished(job: Job, folder: Path) -> bool:
    """Whether the folder holds the result of exactly this job, made by this version."""
    return (folder / result(job)).is_file() and claimed(folder) == claim(job)


def claim(job: Job) -> dict[str, Any]:
    return {"key": key(job), "leastwise": __version__, "recipe": plain(job)}


def claimed(folder: Path) -> dict[str, Any] | None:
    """The recipe a folder was made for, or None if it has none that can be read."""
    try:
        return json.loads((folder / RECIPE).read_text())
    except (OSError, ValueError):
        return None


def forget(folder: Path) -> None:
    """Remove the files of an earlier job, and nothing else."""
    for name in (MODEL, evidences.FILE, RESUME, EPOCHS, RUN, RECIPE):
        (folder / name).unlink(missing_ok=True)


def run(job: Job, folder: Path, model: Path | None = None, device: str = "cpu", watch: Watch = lambda _: None) -> Path:
    """Do the job in `folder`, or find it done there; an interrupted training goes on behind its last epoch.

    `model` is the folder of the training that an audit needs.
    """
    if finished(job, folder):
        return folder / result(job)
    if isinstance(job, Train):
        work = ready_to_train(job, folder, device)
    else:
        assert model is not None, "an audit needs the folder of its model's training"
        work = ready_to_audit(job, folder, model, device)
    if claimed(folder) != claim(job):
        forget(folder)  # what another recipe left is never mixed with this one's
        write_json(folder / RECIPE, claim(job))
    begun = time.time()
    work(watch)
    write_json(folder / RUN, run_facts(begun, device))
    return folder / result(job)


def ready_to_train(job: Train, folder: Path, device: str) -> Callable[[Watch], None]:
    """The training, checked as far as it can be before anything is written."""
    data = subset(load(job.data, split="train"), job.per_class)
    model = build(job.arch, data.shape, data.k, job.mean, job.std, job.training.seed)
    job.training.objective.init(data.k)

    def work(watch: Watch) -> None:
        after = restore(folder / RESUME, model)
        lines = (folder / EPOCHS).read_text().splitlines()[: after.seen.number] if after else []
        for snapshot in trains.fit(model, data, job.training, after, device, watch):
            lines.append(json.dumps(epoch_line(snapshot.seen)))
            write_atomic(folder / EPOCHS, ("\n".join(lines) + "\n").encode())
            keep(folder / RESUME, model, snapshot)
            watch(snapshot.seen)
        save_checkpoint(folder / MODEL, model.cpu(), data.shape, data.names)
        (folder / RESUME).unlink(missing_ok=True)

    return work


def ready_to_audit(job: Audit, folder: Path, model: Path, device: str) -> Callable[[Watch], None]:
    """The audit, checked as far as it can be before anything is written."""
    data = subset(load(job.data, split="test"), job.per_class)
    network = load_checkpoint(model / MODEL)

    def work(watch: Watch) -> None:
        found = audits.audit(network, data, job.conditions, job.seed, job.batch_size, device, watch)
        found.save(folder / evidences.FILE)

    return work


def subset(data: Dataset, per_class: int | None) -> Dataset:
    return data if per_class is None else data.take(per_class)


def keep(path: Path, model: Classifier, snapshot: trains.Snapshot) -> None:
    """What it takes to continue after this epoch; plain values and tensors only."""
    seen = snapshot.seen
    write_torch(
        path,
        {
            "weights": model.net.state_dict(),
            "optimiser": snapshot.optimiser,
            "state": snapshot.state,
            "seen": {"number": seen.number, "loss": seen.loss, "rate": seen.rate},
            "counts": [seen.clean.n, seen.clean.correct, seen.robust.n, seen.robust.correct],
        },
    )


def restore(path: Path, model: Classifier) -> trains.Snapshot | None:
    """Put the weights back into the model and return where the training stood, if it had begun."""
    if not path.is_file():
        return None
    content = read_torch(path)
    model.net.load_state_dict(content["weights"])
    clean_n, clean_correct, robust_n, robust_correct = content["counts"]
    seen = Epoch(**content["seen"], clean=Tally(clean_n, clean_correct), robust=Tally(robust_n, robust_correct))
    return trains.Snapshot(seen, content["state"], content["optimiser"])


def epoch_line(seen: Epoch) -> dict[str, Any]:
    def counts(tally: Tally) -> dict[str, list[int]]:
        return {"n": tally.n.tolist(), "correct": tally.correct.tolist()}

    facts = {"epoch": seen.number, "loss": seen.loss, "rate": seen.rate}
    return facts | {"clean": counts(seen.clean), "robust": counts(seen.robust)}


def run_facts(begun: float, device: str) -> dict[str, Any]:
    """What the recipe does not determine: it stays out of every hash."""
    return {
        "seconds": round(time.time() - begun, 1),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "device": device,
        "threads": torch.get_num_threads(),
        "leastwise": __version__,
        "torch": torch.__version__,
    }
