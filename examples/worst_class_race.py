"""The worst class with as few attacks as possible: only classes that may still be it are attacked."""

from leastwise import data
from leastwise.attacks import Threat, named_all
from leastwise.audit import auditor
from leastwise.balls import Linf
from leastwise.models import build
from leastwise.race import RaceRecipe, attacked, lanes, race
from leastwise.train import Training, fit


def main() -> None:
    network = build("small", shape=(1, 28, 28), k=10, seed=0)
    for _ in fit(network, data.load("fashion-mini/train").take(100), Training(epochs=3)):
        pass
    test = data.load("fashion-mini/test")
    judge = auditor(network, test, named_all("pgd10", Threat(Linf(0.01), step=0.0025)))
    for number, found in enumerate(race(RaceRecipe(judge.key), lanes(judge, test), attacked(judge, test, judge.model))):
        standing = ", ".join(test.names[c] for c in found.contenders)
        print(f"round {number}: {found.spent} of {len(test)} images attacked; may be the worst: {standing}")


if __name__ == "__main__":
    main()
