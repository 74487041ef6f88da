"""The worst class with as few attacks as possible: only classes that may still be it are attacked."""

from leastwise.attacks import Linf, Threat, make_attacks
from leastwise.audit import make_auditor
from leastwise.audit.race import RaceRecipe, attack_here, conclude, find_right, order_by_class, race
from leastwise.data import load
from leastwise.models import build
from leastwise.training import Training, fit


def main() -> None:
    network = build("small", shape=(1, 28, 28), k=10, seed=0)
    for _ in fit(network, load("fashion-mini/train").take(100), Training(epochs=3)):
        pass
    test = load("fashion-mini/test")
    judge = make_auditor(network, test, make_attacks("pgd10", Threat(Linf(0.01), step=0.0025)))
    recipe, places, right = RaceRecipe(judge.key), order_by_class(judge, test), find_right(judge, test)
    rounds = []
    for number, found in enumerate(race(recipe, places, right, attack=attack_here(judge, test, judge.model))):
        rounds.append(found)
        standing = ", ".join(test.names[c] for c in found.contenders)
        print(f"round {number}: {found.spent} of {len(test)} images attacked; may be the worst: {standing}")
    print(conclude(rounds, test, recipe.aim))


if __name__ == "__main__":
    main()
