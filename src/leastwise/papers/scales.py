"""Scales: functions on recipes. What a scale changes is in the recipe, and so in its key and on its page."""

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from leastwise.data.registry import SOURCES
from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import ReleasedNetwork
from leastwise.papers.recipes import Absent, Measured, PaperThreat, Recipe, Settings, Trained
from leastwise.training.averaging import EMA, FAWA, find_averaging


@dataclass(frozen=True)
class Scale:
    name: str
    about: str
    trained: Callable[[Trained], Trained]
    measured: Callable[[Measured], tuple[Measured, ...]]  # several where heavy attacks see fewer images
    obstacle: Callable[[Trained | ReleasedNetwork], str]  # why a network is not to be had; empty if it is
    cls: Callable[[int], int] = lambda c: c  # the class that stands for a class of the paper's data

    def __call__(self, recipe: Recipe) -> tuple[Recipe | Absent, ...]:
        """The recipe at this scale, in as many parts as it takes."""
        models = [recipe] if isinstance(recipe, Trained) else [recipe.model, recipe.surrogate]
        for model in models:
            reason = self.obstacle(model) if model is not None else ""
            if reason:
                return (Absent(recipe, reason),)
        if isinstance(recipe, Trained):
            return (self.trained(recipe),)
        surrogate = None if recipe.surrogate is None else self.trained(recipe.surrogate)
        model = self.trained(recipe.model) if isinstance(recipe.model, Trained) else recipe.model
        return self.measured(replace(recipe, model=model, surrogate=surrogate, scale=self.name))


# Full: the paper's setting.

BY_HAND = {
    "tinyimages-500k": "the 500,000 pseudo-labelled pictures were withdrawn with the data set they came from",
}


def no_obstacle(model: Trained | ReleasedNetwork) -> str:
    return BY_HAND.get(model.extra, "") if isinstance(model, Trained) else ""


# Smoke: every code path in seconds, on images inside the package.

SMOKE_DATA = "fashion-mini"
SMOKE_CLASSES = 10
SMOKE_TRAIN, SMOKE_TEST = 20, 10  # images per class
SMOKE_STEPS = 2
SMOKE_ARCHS = ("convnet", "lenet5", "small-cnn")  # cheap already
SMOKE_ATTACKS = {"autoattack": "apgd-ce+square:5", "cwinf": "cwinf:3", "nattack": "nattack:2"}


def smoke_class(c: int) -> int:
    return c % SMOKE_CLASSES


def smoke_images(images: ImageSet, per_class: int) -> ImageSet:
    """The same change of other images; class c of more than ten stands for c modulo ten."""
    change = tuple(smoke_class(part) if isinstance(part, int) else part for part in images.change)
    if images.change and images.change[0] == "binary" and change[1] == change[2]:
        change = (change[0], change[1], smoke_class(int(change[1]) + 1))
    classes = tuple(dict.fromkeys(smoke_class(c) for c in images.classes))
    return ImageSet(SMOKE_DATA, change, classes, per_class, steps=SMOKE_STEPS if images.needs_network else None)


def smoke_trained(t: Trained) -> Trained:
    base, plus, parts = t.arch.partition("+")
    return replace(
        t,
        data=smoke_images(t.data, SMOKE_TRAIN),
        arch=(base if base in SMOKE_ARCHS else "small") + plus + parts,
        extra=f"{SMOKE_DATA}/test" if t.extra else "",
        threat=fewer_steps(t.threat, SMOKE_STEPS),
        epochs=2,
        batch_size=10,  # forty updates: after eight, BatchNorm's statistics are still so far off that one class wins
        rate=t.rate if has_own_rate(t) else 0.1,
        drops=(1,) if t.drops else (),
        keep=t.keep.replace("pgd20", f"pgd{SMOKE_STEPS}"),
        source=None if t.source is None else smoke_trained(t.source),
        seed=own_seed(t) if base not in SMOKE_ARCHS else t.seed,
        scale="smoke",
    )


def smoke_measured(m: Measured) -> tuple[Measured, ...]:
    conditions = tuple(dict.fromkeys(shorter(name, SMOKE_STEPS, SMOKE_ATTACKS) for name in m.conditions))
    model = m.model
    if isinstance(model, ReleasedNetwork):
        # Nobody's weights are fetched: a network of the package's own takes their place.
        model = smoke_trained(Trained(model.data, model.arch, seed=zlib.crc32(model.weights.encode()) % 1000))
    return (replace(m, model=model, data=smoke_images(m.data, SMOKE_TEST), conditions=conditions),)


# Lite: real data, a network that two cores can train. What papers differ in besides the method (length, batches, rate,
# weight decay, rounding of 8/255, choice of the epoch) is one recipe here, so that they share their trainings.

LITE_RADIUS, LITE_STEP, LITE_STEPS = 8 / 255, 2 / 255, 5
LITE_NEAR = 0.001  # 0.031 and 8/256 are 8/255 to their papers, and 0.007 and 0.008 a quarter of it
LITE_DECAY, LITE_USUAL_DECAY = 5e-4, 1e-4  # of the recipe; and the least that papers use when decay is not their matter
LITE_MADE = 50  # steps of a search that makes images
LITE_EPOCHS = 8
LITE_EPOCHS_OF = {"mnist": 4, "svhn": 6, "stl10": 10}  # what two cores can do, and what digits need
LITE_ARCHS = {"convnet": "convnet", "lenet5": "lenet5", "small-cnn": "small-cnn", "vgg16-bn": "convnet"}
LITE_RATE = 0.2
LITE_RATE_OF = {"small-cnn": 0.02}  # without BatchNorm: at 0.2 and eps 0.3 it ended in one answer to all digits
LITE_LEFT_OUT = ("clean_passes",)  # what moves nothing but BatchNorm's statistics
LITE_SAME = ("resnet18", "resnet9", "wrn-34-10")  # never in one exhibit: one network stands for all of them
LITE_TOO_LARGE = ("imagenet",)
LITE_TRAIN = {"tiny-imagenet": 80}  # of each class, at most: with all 500 an adversarial training takes two hours
LITE_FOLLOWED = 2000  # images, at least one of each class, that are looked at after every epoch
# Attacks that take hours on all images: shorter, and on so many images of each class.
LITE_HEAVY = {"autoattack": ("autoattack", 100), "cwinf": ("cwinf:100", 200), "nattack": ("nattack:50", 20)}


def lite_obstacle(model: Trained | ReleasedNetwork) -> str:
    if model.data.name in LITE_TOO_LARGE:
        return f"{model.data.name} is too large for two cores"
    return no_obstacle(model)


def lite_trained(t: Trained) -> Trained:
    base, plus, parts = t.arch.partition("+")
    epochs = LITE_EPOCHS_OF.get(t.data.name, LITE_EPOCHS)
    return replace(
        t,
        data=lite_images(t.data),
        arch=LITE_ARCHS.get(base, "small") + plus + parts,
        settings=tuple(sorted((*(s for s in t.settings if s[0] not in LITE_LEFT_OUT), *shorter_average(t, epochs)))),
        threat=lite_threat(t.threat),
        epochs=epochs,
        batch_size=128,
        rate=t.rate if has_own_rate(t) else LITE_RATE_OF.get(base, LITE_RATE),
        schedule="one-cycle" if t.schedule == "steps" else t.schedule,
        drops=(),
        augment="flip" if t.augment == "crop-flip" else t.augment,  # crops are for long trainings
        weight_decay=LITE_DECAY if t.weight_decay >= LITE_USUAL_DECAY else t.weight_decay,
        keep="last",
        source=None if t.source is None else lite_trained(t.source),
        seed=t.seed if base in (*LITE_ARCHS, *LITE_SAME) else own_seed(t),
        scale="lite",
    )


def shorter_average(t: Trained, epochs: int) -> Settings:
    """The decay of an average that remembers the same share of the training, of which there are fewer epochs."""
    if not t.average:
        return ()
    averaging = find_averaging(t.average)
    assert isinstance(averaging, EMA | FAWA), f"{t.average} has no decay that could be shortened"
    return ((f"{t.average}.decay", averaging.decay ** (t.epochs / epochs)),)


def lite_images(images: ImageSet) -> ImageSet:
    """The same images to train on, or the first of each class where there are too many; a short search makes others."""
    most = LITE_TRAIN.get(images.name)
    fewer = images.per_class if most is None else min(most, images.per_class or most)
    return replace(images, per_class=fewer, steps=LITE_MADE if images.needs_network else images.steps)


def lite_threat(threat: PaperThreat | None) -> PaperThreat | None:
    if threat is None or not near_eight(threat):
        return fewer_steps(threat, LITE_STEPS)
    return PaperThreat(LITE_RADIUS, LITE_STEP, LITE_STEPS)


def near_eight(threat: PaperThreat) -> bool:
    return threat.norm == "linf" and abs(threat.eps - LITE_RADIUS) < LITE_NEAR


def lite_measured(m: Measured) -> tuple[Measured, ...]:
    if m.threat is not None and near_eight(m.threat):
        usual = abs(m.threat.step - LITE_STEP) < LITE_NEAR
        m = replace(m, threat=PaperThreat(LITE_RADIUS, LITE_STEP if usual else m.threat.step))
    if m.each_epoch:
        most = max(1, LITE_FOLLOWED // SOURCES[m.data.name].facts.k)
        m = replace(m, data=replace(m.data, per_class=min(most, m.data.per_class or most)))
    light = tuple(name for name in m.conditions if name not in LITE_HEAVY)
    unattacked = light == ("clean",)  # the attacks, and the radius with them, are in the other parts
    parts = [replace(m, conditions=light, threat=None if unattacked else m.threat)] if light else []
    for name in m.conditions:
        if name in LITE_HEAVY:
            shorter_name, per_class = LITE_HEAVY[name]
            fewer = min(per_class, m.data.per_class or per_class)
            few = replace(m.data, per_class=fewer)
            parts.append(replace(m, conditions=(shorter_name,), data=few, surrogate=None, each_epoch=False, keeps=()))
    return tuple(parts)


# What scales share.


def has_own_rate(t: Trained) -> bool:
    """Whether another rate would be another experiment: Adam's, and that of a fine-tuning."""
    return t.optimiser == "adam" or t.schedule == "frl"


def own_seed(t: Trained) -> int:
    """Two architectures that a scale replaces by one stay two trainings."""
    return t.seed + zlib.crc32(t.arch.encode()) % 1000


def fewer_steps(threat: PaperThreat | None, steps: int) -> PaperThreat | None:
    """At most so many steps, long enough to travel 1.25 times the radius in all."""
    if threat is None or threat.steps <= steps:
        return threat
    return replace(threat, steps=steps, step=max(threat.step, 1.25 * threat.eps / steps))


def shorter(name: str, steps: int, instead: dict[str, str]) -> str:
    """`pgd20` with at most so many steps; other attacks as the table says."""
    found = re.fullmatch(r"([a-z]*pgd|cw)(\d+)(.*)", name)
    if found:
        return f"{found[1]}{min(int(found[2]), steps)}{found[3]}"
    return instead.get(name, name)


SCALES: dict[str, Scale] = {
    "smoke": Scale(
        "smoke",
        "a few images inside the package, seconds per exhibit: shows that everything runs, and nothing else",
        smoke_trained,
        smoke_measured,
        lambda model: "",
        smoke_class,
    ),
    "lite": Scale(
        "lite",
        "real data, the network `small`, one recipe for all papers, at most a quarter of an hour per training on two "
        "cores: not a reproduction",
        lite_trained,
        lite_measured,
        lite_obstacle,
    ),
    "full": Scale("full", "the paper's setting, for GPUs", lambda t: t, lambda m: (m,), no_obstacle),
}


def scale(name: str) -> Scale:
    if name not in SCALES:
        raise ValueError(f"there is no scale {name!r}: choose {', '.join(SCALES)}")
    return SCALES[name]


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


def describe_average(t: Trained) -> str:
    decay = dict(t.settings).get(f"{t.average}.decay")
    return t.average if decay is None else f"{t.average} with decay {decay:.2g}"


SETTINGS: tuple[tuple[str, Callable[[Trained], str]], ...] = (
    ("network", lambda t: t.arch.partition("+")[0]),
    ("epochs", lambda t: str(t.epochs)),
    ("rate", describe_rate),
    ("batches of", lambda t: str(t.batch_size)),
    ("augmentation", lambda t: t.augment or "none"),
    ("weight decay", lambda t: f"{t.weight_decay:g}"),
    ("attack in training", lambda t: describe_attack(t.threat)),
    ("images", describe_images),
    ("average of weights", describe_average),
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
