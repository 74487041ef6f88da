"""Fewer attack steps in earlier epochs, against all steps in every epoch: processor time and robustness over seeds.

    python benchmarks/steps.py [--data NAME] [--epochs N] [--steps N] [--seeds N] [--per-class N] [--test N] [--out DIR]

The recipe of docs/results/training.md (PGD-AT, `small`, 12 epochs, 5 steps of 2/255) unless told otherwise; the last
weights are tested under PGD-20, last iterate. Finished trainings are kept in --out, so that an interrupted run goes on.
A rule is as good if, over the seeds, the mean difference of robust accuracy is above -0.5 points with 95 % confidence.
The last line is JSON.
"""

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from leastwise.attacks.goals import CE
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf, Uniform
from leastwise.core.files import write_json
from leastwise.data.augment.registry import find_augmentation
from leastwise.data.loading import load
from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import TrainJob
from leastwise.jobs.train_task import prepare_training
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.training.attack_steps import AttackSteps, FewFirst, Rising
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.recipe import Training, Validation
from leastwise.training.schedules import OneCycle
from leastwise.training.validate import measure_classes

RULES: dict[str, AttackSteps | None] = {
    "all": None,
    "rising": Rising(),
    "rising, stretched": Rising(stretch=True),
    "few first": FewFirst(),
}
WORSE = 0.5  # points of robust accuracy that a rule may lose


def train_one(settings: argparse.Namespace, rule: AttackSteps | None, seed: int, folder: Path) -> dict[str, Any]:
    """One training and its test, or what an earlier run left of it."""
    done = folder / "found.json"
    if done.exists():
        found: dict[str, Any] = json.loads(done.read_text())
        return found
    ball = Linf(settings.eps)
    objective = PGDAT(PGD(ball, CE(), settings.eps / 4, settings.steps, Uniform()))
    training = Training(objective, settings.epochs, schedule=OneCycle(0.2), seed=seed, attack_steps=rule)
    training = replace(training, augment=find_augmentation(settings.augment), validation=Validation(0, rule="last"))
    job = TrainJob(ImageSet(settings.data, per_class=settings.per_class or None), settings.arch, training)
    begun = time.process_time()
    task = prepare_training(job, folder)
    task.run(lambda event: None)
    seconds = time.process_time() - begun
    data = load(f"{settings.data}/test")
    data = data.where(np.arange(min(settings.test or len(data), len(data))))
    attack = PGD(ball, CE(), settings.eps / 4, 20, Uniform())
    seen = measure_classes(load_checkpoint(task.weights).eval(), data, attack)
    worst = min(a for a in seen.robust.accuracy.tolist() if a == a)
    found = {
        "seconds": round(seconds, 1),  # wrong if this training was interrupted
        "clean": 100 * seen.clean.overall,
        "robust": 100 * seen.robust.overall,
        "worst": 100 * worst,
        "doubts": list(task.doubts),
    }
    write_json(done, found)
    return found


def compare_rules(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """For every rule: time and differences against all steps, over the seeds."""
    result: dict[str, Any] = {}
    whole = found["all"]
    for name, runs in found.items():
        means = {key: statistics.mean(run[key] for run in runs) for key in ("seconds", "clean", "robust", "worst")}
        gains = [run["robust"] - all_["robust"] for run, all_ in zip(runs, whole, strict=True)]
        low = float("nan")
        if len(gains) > 1:
            spread = statistics.stdev(gains) / len(gains) ** 0.5
            low = statistics.mean(gains) - float(student.ppf(0.95, len(gains) - 1)) * spread
        time_share = means["seconds"] / statistics.mean(run["seconds"] for run in whole)
        doubts = sum(bool(run["doubts"]) for run in runs)
        print(
            f"{name:20} clean {means['clean']:.1f}, PGD-20 {means['robust']:.1f}, worst class {means['worst']:.1f}; "
            f"{statistics.mean(gains):+.2f} points, at least {low:+.2f}; {100 * time_share:.0f} % of the time; "
            f"{doubts} of {len(runs)} trainings in doubt"
        )
        result[name] = {"time": round(time_share, 3), "gain": round(statistics.mean(gains), 2), "doubts": doubts}
        result[name]["as_good"] = bool(low > -WORSE) if len(gains) > 1 and name != "all" else None
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--arch", default="small")
    parser.add_argument("--augment", default="flip")
    parser.add_argument("--eps", type=float, default=8 / 255)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--per-class", type=int, default=0)
    parser.add_argument("--test", type=int, default=0, help="test images; 0 for all")
    parser.add_argument("--out", type=Path, default=Path("results/bench/steps"))
    settings = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in RULES}
    for seed in range(settings.seeds):
        for name, rule in RULES.items():
            folder = settings.out / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
            found[name].append(train_one(settings, rule, seed, folder))
    print(json.dumps({"bench": "steps"} | compare_rules(found)))


if __name__ == "__main__":
    main()
