"""What races and audits in two phases cost, and how often they are right: `make bench-race`.

    python benchmarks/race.py [RUNS]

Replays stored outcomes (which images of a small CIFAR-10 network survive PGD-20, and AutoAttack's evidence of networks
at scale lite) and made-up classes, each RUNS times, 200 unless given. The last line is JSON.
"""

import json
import sys
import time
from pathlib import Path

from leastwise.audit.evidence import load_evidence

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.statistics.phases_replayed import LITE, replay_autoattack
from tests.statistics.races_made_up import (
    CAT,
    POPULATION,
    SET,
    Races,
    draw_classes,
    hundred,
    near_tie,
    read_resnet2b,
    run_races,
    shuffle,
    unbalanced,
)

AUDITS = Path(__file__).parents[1] / "results" / "lite" / "audits"


def main(runs: int = 200) -> None:
    stored = read_resnet2b()
    makers = {
        "resnet2b_this_set": (lambda rng: shuffle(stored, rng), SET, CAT),
        "resnet2b_population": (lambda rng: shuffle(stored, rng), POPULATION, CAT),
        "near_tie": (near_tie, SET, 0),
        "unbalanced": (unbalanced, SET, 0),
        "hundred": (hundred, SET, 0),
        "close_in_population": (lambda rng: draw_classes([200] * 3, (0.30, 0.31, 0.31), rng), POPULATION, 0),
    }
    found: dict[str, Races] = {}
    for name, (make, aim, truth) in makers.items():
        begun = time.monotonic()
        found[name] = one = run_races(make, runs, aim, truth=truth)
        print(
            f"{name:20} {one.spent:8.0f} attacked ({100 * one.share:5.1f} %), named {100 * one.named:5.1f} %, "
            f"wrong {100 * one.wrong:.1f} %, {time.monotonic() - begun:.0f} s",
            flush=True,
        )
    for name in LITE:
        cost, inside, width = replay_autoattack(load_evidence(AUDITS / name), budget=0.4, runs=50)
        print(
            f"two phases, {name}: {100 * cost:.1f} % of the passes, all classes inside in {100 * inside:.0f} % of 50 "
            f"replays, mean width {100 * width:.1f} points",
            flush=True,
        )
    print(
        json.dumps(
            {
                "bench": "race",
                "resnet2b_this_set": round(found["resnet2b_this_set"].spent, 1),
                "resnet2b_population": round(found["resnet2b_population"].spent, 1),
                "near_tie_named": found["near_tie"].named,
                "unbalanced_named": found["unbalanced"].named,
                "hundred_named": found["hundred"].named,
                "hundred_share": round(found["hundred"].share, 4),
                "wrong": max(one.wrong for one in found.values()),
            }
        )
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
