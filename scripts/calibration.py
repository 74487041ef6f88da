"""How often claims of being the worst class are right, on draws of another seed than the tests have.

`python -m scripts.calibration SEED AUDITS POPULATION …` prints per population the share of audits whose candidates hold
the worst class, and by how much claims exceed the share that is right, at most and at least, over bins of 30 claims or
more.
"""

import sys

from tests.statistics.test_ranks import judge, misses
from tests.statistics.truths import TRUTHS


def main(seed: int, audits: int, populations: list[str]) -> None:
    for name in populations or list(TRUTHS):
        held, _, claims, right = judge(name, audits, seed)
        off = sorted((-100 * miss, 100 * error) for miss, error in misses(claims, right))
        (least, its_error), (most, error) = off[0], off[-1]
        print(
            f"{name}: held {100 * held.mean():.1f} %, too sure by {most:.1f} ± {error:.1f} at most, "
            f"by {least:.1f} ± {its_error:.1f} at least",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
