"""Two networks on the same images: which class gained, which lost, and what chance alone could have done."""

from leastwise.attacks import PGD, Linf, Threat, make_attacks
from leastwise.data import load
from leastwise.jobs import audit
from leastwise.models import Classifier, build
from leastwise.statistics import compare_class_wise
from leastwise.training import PGDAT, Objective, Standard, Training, fit

INNER = PGD(Linf(0.05), step=0.035, steps=2)


def trained(objective: Objective) -> Classifier:
    network = build("small", shape=(1, 28, 28), k=10, seed=0)
    for _ in fit(network, load("fashion-mini/train").take(100), Training(objective, epochs=3)):
        pass
    return network


def main() -> None:
    test = load("fashion-mini/test").take(40)
    conditions = make_attacks("clean,pgd10", Threat(Linf(0.05), step=0.0125))
    plain, robust = (audit(trained(objective), test, conditions) for objective in (Standard(), PGDAT(INNER)))
    for condition in plain.conditions:
        found = compare_class_wise(plain.correct(condition), robust.correct(condition), plain.labels, k=plain.k)
        for name, pair, p in zip(plain.names, found.classes, found.adjusted, strict=True):
            assert pair is not None
            print(f"{condition:6} {name:12} {pair.difference:+.3f} [{pair.low:+.3f}, {pair.high:+.3f}]  p = {p:.3f}")


if __name__ == "__main__":
    main()
