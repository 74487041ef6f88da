"""How the networks of a page were trained at its scale, in words: what most have in common, and who departs from it."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from leastwise.papers.recipes import Measured, PaperThreat, Trained

NEAR = 1e-6  # of a multiple of a quarter of 1/255
LEVELS = 32  # of 255; radii of digits, 0.3 and 0.5, are larger


def format_radius(value: float) -> str:
    """8/255, or 0.3 where it is no such fraction."""
    levels = Fraction(value * 255).limit_denominator(4)
    if 0 < levels <= LEVELS and abs(float(levels) - value * 255) < NEAR:
        return f"{float(levels):g}/255"
    return f"{value:g}"


def describe_rate(t: Trained) -> str:
    drops = f", divided by ten at {' and '.join(map(str, t.drops))}" if t.drops else ""
    kind = {"steps": "in steps"}.get(t.schedule, t.schedule)
    return f"{t.optimiser} {kind} with rate {t.rate:g}{drops}"


def describe_attack(threat: PaperThreat | None) -> str:
    if threat is None:
        return ""
    ball = "" if threat.norm == "linf" else f" {threat.norm}"
    return f"PGD-{threat.steps} with steps of {format_radius(threat.step)} at{ball} {format_radius(threat.eps)}"


def describe_images(t: Trained) -> str:
    return "all training images" if t.data.per_class is None else f"{t.data.per_class} training images of each class"


SETTINGS: tuple[tuple[str, Callable[[Trained], str]], ...] = (
    ("network", lambda t: t.arch.partition("+")[0]),
    ("epochs", lambda t: str(t.epochs)),
    ("rate", describe_rate),
    ("batches of", lambda t: str(t.batch_size)),
    ("augmentation", lambda t: t.augment or "none"),
    ("weight decay", lambda t: f"{t.weight_decay:g}"),
    ("attack in training", lambda t: describe_attack(t.threat)),
    ("images", describe_images),
    ("epoch that is kept", lambda t: t.keep.replace("best-test:", "best on test images by ")),
)
# By what those that depart from the rest are named, the first that tells them apart.
MARKS: tuple[Callable[[Trained], str], ...] = (
    lambda t: t.data.name + (" coloured" if "coloured" in t.data.change else ""),
    lambda t: t.arch,
    lambda t: " + ".join((t.method, *t.fair)),
    lambda t: f"{t.optimiser} {t.schedule}",
)


def describe_recipe(trained: Sequence[Trained]) -> tuple[str, ...]:
    """A phrase for each setting, such as `epochs: 8 (4: mnist)`; nothing without trainings."""
    phrases = []
    for name, describe in SETTINGS:
        values = {t: describe(t) for t in trained}
        counts = Counter(value for value in values.values() if value)
        if not counts:
            continue
        usual, *others = [value for value, _ in counts.most_common()]
        departing = {value: name_departing(values, value) for value in others}
        said = [value if value == who else f"{value}: {who}" for value, who in departing.items()]
        phrases.append(f"{name}: {usual}" + (f" ({'; '.join(said)})" if said else ""))
    return tuple(phrases)


def name_departing(values: dict[Trained, str], value: str) -> str:
    """Those with a value that is not the usual one: by data, network, method or schedule; or how many they are."""
    those = [t for t in values if values[t] == value]
    rest = [t for t in values if values[t] != value and values[t]]
    for mark in MARKS:
        own = dict.fromkeys(map(mark, those))
        if not set(own) & set(map(mark, rest)):
            return ", ".join(own)
    return f"{len(those)} of {len(those) + len(rest)}"


def describe_measurements(measured: Iterable[Measured]) -> str:
    """Attacks that see fewer test images than there are, and how many of each class."""
    most: dict[str, int] = {}
    for one in measured:
        for name in one.conditions:
            if one.data.per_class is not None and name != "clean" and not one.each_epoch:
                most[name] = max(most.get(name, 0), one.data.per_class)
    return ", ".join(f"{name} on {n} test images of each class" for name, n in most.items())
