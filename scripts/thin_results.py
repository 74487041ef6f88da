"""Lets go of weights under results/lite that nothing needs any more; their records, and all evidence, stay.

    python -m scripts.thin_results

Weights stay where work that is not done needs them, and of the networks that most exhibits share. Whoever needs others
trains them again: the same recipe gives the same network.
"""

from pathlib import Path

from leastwise.jobs.store import drop_weights, weights_in
from leastwise.papers.campaign import STAGES, is_at_hand, rank_work
from leastwise.papers.recipes import Trained, networks, trainings
from leastwise.papers.registry import EXHIBITS, list_recipes
from leastwise.papers.stored import PaperStore

HERE = Path(__file__).parents[1]


def main() -> None:
    store = PaperStore(HERE / "results", "lite")
    shared, _ = list_recipes(tuple(EXHIBITS[name] for name in STAGES[0].exhibits), "lite")
    kept = set(trainings(shared))
    everything = rank_work("lite")
    for one in everything:
        if is_at_hand(one) and not store.has(one):
            kept |= {one.source} if isinstance(one, Trained) and one.source else set(trainings([one]))
            kept |= set() if isinstance(one, Trained) else set(networks(one))
    dropped = 0
    for one in everything:
        if isinstance(one, Trained) and one not in kept and store.has(one) and weights_in(store.folder(one)):
            drop_weights(store.folder(one))
            dropped += 1
    print(f"weights of {dropped} trainings dropped, of {len(kept)} kept or wanted")


if __name__ == "__main__":
    main()
