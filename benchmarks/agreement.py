"""How often a shorter attack gives AutoAttack's verdict, and what each costs.

    python benchmarks/agreement.py ATTACK[,ATTACK…] [--on NAME,…] [--images N] [--seed N] [--out FILE]

Networks: `lite`, all those of results/lite whose weights are here and whose AutoAttack is stored, image by image (its
reference is read, not run); `resnet2b` (CIFAR-10, 2/255) and `mnist` (0.3), which others trained, from the folder that
LEASTWISE_TEST_DATA names (the reference is run). Finished runs are kept in FILE, so that an interrupted run goes on.
One thread each; passes are of single images, forward + backward. The last line is JSON.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leastwise.attacks.naming import Threat
from leastwise.attacks.registry import make_attack
from leastwise.attacks.threats import Linf
from leastwise.audit.evidence import Evidence, load_evidence
from leastwise.core.files import write_json
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels
from leastwise.data.loading import load
from leastwise.models.classifier import Classifier, inference
from leastwise.models.fast.prepare import Form, prepare
from leastwise.models.load.checkpoint import load_checkpoint

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the networks of the tests
REFERENCE = "autoattack"
BATCH = 250


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, images with their ids, the radius, and AutoAttack's verdicts where they are stored."""

    name: str
    model: Classifier
    x: Images
    y: Labels
    ids: Labels
    eps: float
    known: dict[str, Any] | None = None


def lite_subjects(folder: Path, images: int) -> Iterator[Subject]:
    """The networks of scale lite on CIFAR-10, on as many of the images of their stored audit."""
    data = load(str(folder / "cifar10_test_first2000.npz"))
    for place in sorted((ROOT / "results" / "lite" / "audits").glob("cifar10-small-*")):
        weights = ROOT / "results" / json.loads((place / "run.json").read_text()).get("model", "none")
        asked = json.loads((place / "recipe.json").read_text())["recipe"]["conditions"]
        if [name for name, _ in asked] != [REFERENCE] or not weights.exists():
            continue
        evidence = load_evidence(place)
        rows = np.sort(evidence.ids)[: images or None]
        x, y, ids = data.batch(rows)
        eps = float(asked[0][1]["members"][0]["ball"]["eps"])
        if evidence.tally(REFERENCE).overall > 0.01:  # where nothing survives there is nothing to disagree on
            yield Subject(place.name, load_checkpoint(weights), x, y, ids, eps, stored_verdicts(evidence, rows))


def stored_verdicts(evidence: Evidence, ids: "np.ndarray") -> dict[str, Any]:
    """Who survived the stored AutoAttack, and its passes per image over all its images."""
    survived = evidence.correct(REFERENCE)[np.searchsorted(evidence.ids, ids)]
    record = evidence.conditions[REFERENCE]
    passes = (record.forwards + record.backwards) / len(evidence.ids)
    return {"survived": as_bits(survived), "passes": passes}


def as_bits(survived: "np.ndarray") -> str:
    return "".join("1" if one else "0" for one in survived)


def subjects(names: list[str], images: int) -> Iterator[Subject]:
    from tests.oracles.networks import cifar_network, mnist_cnn

    folder = Path(os.environ.get("LEASTWISE_TEST_DATA") or sys.exit("set LEASTWISE_TEST_DATA to the folder of data"))
    for name in names:
        if name == "lite":
            yield from lite_subjects(folder, images)
        elif name == "resnet2b":
            x, y, ids = load(str(folder / "cifar10_test_first2000.npz")).batch(np.arange(images or 1000))
            yield Subject(name, cifar_network(folder, "cifar_resnet2b"), x, y, ids, 2 / 255)
        elif name == "mnist":
            x, y, ids = load(str(folder / "mnist_test.npz")).batch(np.arange(images or 1000))
            yield Subject(name, mnist_cnn(folder), x, y, ids, 0.3)
        else:
            sys.exit(f"there is no network {name!r}: choose lite, resnet2b or mnist")


def attack_all(one: Subject, name: str, seed: int) -> dict[str, Any]:
    """Who survives, asked again on the network as given; passes per image and seconds of the processor."""
    model = one.model.eval()
    attack = make_attack(name, Threat(Linf(one.eps), one.eps / 4))
    left, forwards, backwards, begun = [], 0, 0, time.process_time()
    with inference(model):
        prepared = prepare(model, one.x[:100], Form(folded=True, channels_last=True)).model
        for rows in torch.split(torch.arange(len(one.x)), BATCH):
            x, y = one.x[rows], one.y[rows]
            found = attack.run(prepared, x, y, Noise(seed, one.ids[rows], "/audit"))
            forwards, backwards = forwards + found.forwards, backwards + found.backwards
            with torch.no_grad():
                left.append((model(x).argmax(dim=1) == y) & (model(found.x_adv).argmax(dim=1) == y))
    survived = as_bits(torch.cat(left).numpy())
    passes = (forwards + backwards) / len(one.x)
    return {"survived": survived, "passes": passes, "seconds": round(time.process_time() - begun, 1)}


def compare_verdicts(mine: dict[str, Any], reference: dict[str, Any]) -> dict[str, Any]:
    """Robust accuracies in %, how often both agree, and on how many images only one of them found something."""
    a, b = (np.array(list(run["survived"])) == "1" for run in (mine, reference))
    return {
        "images": len(a),
        "robust": round(100 * float(a.mean()), 2),
        "reference": round(100 * float(b.mean()), 2),
        "agree": round(100 * float((a == b).mean()), 2),
        "only_reference": int((a & ~b).sum()),
        "only_ours": int((b & ~a).sum()),
        "passes": round(mine["passes"], 1),
        "reference_passes": round(reference["passes"], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attacks")
    parser.add_argument("--on", default="lite,resnet2b,mnist")
    parser.add_argument("--images", type=int, default=0, help="0 for all, a thousand at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    settings = parser.parse_args()
    torch.set_num_threads(1)
    done: dict[str, Any] = json.loads(settings.out.read_text()) if settings.out and settings.out.exists() else {}

    def run(one: Subject, name: str, seed: int) -> dict[str, Any]:
        place = f"{one.name}/{name}/{seed}/{len(one.x)}"
        if place not in done:
            done[place] = attack_all(one, name, seed)
            if settings.out:
                write_json(settings.out, done)
        return dict(done[place])

    result: dict[str, Any] = {}
    for one in subjects(settings.on.split(","), settings.images):
        reference = one.known or run(one, REFERENCE, 0)
        for name in settings.attacks.split(","):
            found = compare_verdicts(run(one, name, settings.seed), reference)
            result.setdefault(name, {})[one.name] = found
            print(
                f"{name:18} {one.name:32} {found['images']} images: robust {found['robust']:.1f}, AutoAttack "
                f"{found['reference']:.1f}; agree on {found['agree']:.2f} % (only AutoAttack fells "
                f"{found['only_reference']}, only this {found['only_ours']}); {found['passes']:.0f} passes an image "
                f"against {found['reference_passes']:.0f}",
                flush=True,
            )
    for name, rows in result.items():
        images = sum(row["images"] for row in rows.values())
        agree = sum(row["images"] * row["agree"] for row in rows.values()) / max(1, images)
        print(f"{name}: {agree:.2f} % of {images} verdicts agree")
    print(json.dumps({"bench": "agreement"} | result))


if __name__ == "__main__":
    main()
