"""How often claims of being the worst class are right, on draws of another seed than the tests have.

`python -m scripts.calibration SEED AUDITS POPULATION …` prints per population the share of audits whose candidates hold
the worst class, how many these are, and by bin of claimed probability how many points the claims exceed the share that
is right, with its standard error: bins are merged until that is at most two points. Populations of 100 classes
take half of the audits, those of 1,000 a tenth.
"""

import sys

from tests.statistics.test_ranks import calibrate, judge
from tests.statistics.truths import TRUTHS


def main(seed: int, audits: int, populations: list[str]) -> None:
    for name in populations or list(TRUTHS):
        runs = audits // 10 if name.startswith("1000 ") else audits // 2 if name.startswith("100") else audits
        held, count, claims, right = judge(name, runs, seed)
        found = calibrate(claims, right, 0.02)
        bins = ", ".join(
            f"{100 * one.low:.0f}–{100 * one.high:.0f}: {100 * one.excess:+.1f} ± {100 * one.error:.1f} ({one.claims})"
            for one in found
        )
        print(f"| {name} | {100 * held.mean():.1f} % | {count.mean():.1f} | {bins} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
