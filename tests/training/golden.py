"""Twenty steps of every method, policy and slot in float64, on made-up images: `python -m tests.training.golden`.

Prints one JSON object: for each run the losses of all steps and a digest of the final weights. With `--write` the
losses go to `golden.json`, which the tests compare with; with `--add` only those of runs that are not in it yet.
`make same-bits` compares two revisions bit for bit.
"""

import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from leastwise.attacks.threats import Linf
from leastwise.core.files import sha256
from leastwise.data.augment.registry import find_augmentation
from leastwise.models.zoo.registry import build
from leastwise.training.averaging import EMA, FAWA, SWA
from leastwise.training.awp import AWP
from leastwise.training.base import Objective
from leastwise.training.loop import StepProgress, fit
from leastwise.training.methods.single_class import SingleClassAT
from leastwise.training.policies.dafa import DAFA
from leastwise.training.recipe import Adam, AdamW, Training, Validation
from leastwise.training.registry import METHODS, POLICIES
from leastwise.training.schedules import Cosine, Cyclic, OneCycle, Steps
from tests.training.batches_and_losses import blobs, with_numbers

FILE = Path(__file__).with_name("golden.json")
SIZES, EXTRA_SIZES = (42, 27, 22, 12, 7), (9, 9, 9, 9, 9)  # two of each class go to validation: 100 are trained on


def made(name: str) -> Objective:
    objective = METHODS[name].make(Linf(0.1), 0.05, 2)
    if objective.needs_teacher:
        objective = objective.taught_by(build("convnet", (3, 8, 6), len(SIZES), seed=5).double())
    return replace(objective, classes=(0, 3)) if isinstance(objective, SingleClassAT) else objective


@cache
def recipes() -> dict[str, tuple[str, Training]]:
    """Network and training of every run; each has four epochs of five batches."""
    base = Training(made("pgd-at"), 4, 20, OneCycle(0.1), validation=Validation(2))
    found = {
        f"method {name}": ("convnet+cosine" if name.endswith("-he") else "convnet", replace(base, objective=made(name)))
        for name in METHODS
    }
    for name, row in POLICIES.items():
        policy = replace(row.policy, warmup=0.5) if isinstance(row.policy, DAFA) else with_numbers(row.policy)
        for inner in ("rslad",) if name == "absld" else ("pgd-at", "trades"):
            if not policy.obstacle(made(inner)):
                found[f"policy {name} with {inner}"] = (
                    "convnet",
                    replace(base, objective=made(inner), policies=(policy,)),
                )
    found |= {
        "network small": ("small", base),
        "network small, crafting in train mode": ("small", replace(base, craft="train")),
        "network small+bin": ("small+bin", replace(base, objective=made("trades"))),
        "averaging ema": ("convnet", replace(base, averaging=EMA(start=0.0, every="step"))),
        "averaging swa": ("small", replace(base, averaging=SWA())),
        "averaging fawa": ("convnet", replace(base, averaging=FAWA())),
        "awp": ("small", replace(base, objective=made("trades"), awp=AWP())),
        "augmentation crop-flip": ("convnet", replace(base, augment=find_augmentation("cutout"))),
        "optimiser adam, cosine": ("convnet", replace(base, optimiser=AdamW(), schedule=Cosine(0.01))),
        "optimiser adam with decay in the gradient": (
            "convnet",
            replace(base, optimiser=Adam(), schedule=Cosine(0.01)),
        ),
        "schedule steps": ("convnet", replace(base, schedule=Steps(0.05))),
        "schedule cyclic": ("convnet", replace(base, schedule=Cyclic(0.05))),
        "extra data": ("convnet", replace(base, objective=made("trades"))),
        "trades + cutout + cfa + fair weighting": (
            "convnet",
            replace(
                base,
                objective=made("trades"),
                augment=find_augmentation("cutout"),
                policies=(POLICIES["cfa"].policy, POLICIES["fair-weighting"].policy),
            ),
        ),
    }
    return found


def ran(arch: str, training: Training, extra: bool) -> dict[str, Any]:
    data = blobs(SIZES, shape=(3, 8, 6))
    model = build(arch, data.shape, data.k, seed=3).double()
    losses: list[float] = []

    def hear(step: StepProgress) -> None:
        losses.append(step.loss)

    average = None
    more = blobs(EXTRA_SIZES, seed=7, shape=(3, 8, 6)) if extra else None
    for snapshot in fit(model, data, training, watch=hear, extra=more):
        average = snapshot.average
    held = [*model.state_dict().values(), *(() if average is None else average.values())]
    return {"losses": losses, "weights": sha256(*(t.contiguous().numpy().tobytes() for t in held))}


def run(name: str) -> dict[str, Any]:
    arch, training = recipes()[name]
    return ran(arch, training, name == "extra data")


def main() -> None:
    torch.set_num_threads(1)
    kept = json.loads(FILE.read_text()) if "--add" in sys.argv else {}
    found = {name: {"losses": kept[name]} if name in kept else run(name) for name in recipes()}
    if "--write" in sys.argv or "--add" in sys.argv:
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one['losses'])}" for name, one in found.items())
        FILE.write_text("{\n" + lines + "\n}\n")
    else:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
