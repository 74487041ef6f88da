"""The record of a condition: one row per example, and sums by class. Records of different examples become one."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import bdtrc

from leastwise.attacks.codes import NEVER
from leastwise.core.files import parse_json
from leastwise.core.text import escape_unprintable

ExampleInts = Int[np.ndarray, " n"]
ExampleFloats = Float[np.ndarray, " n"]
ClassMatrix = Float[np.ndarray, "k k"]
ReachedCounts = Int[np.ndarray, "pairs pairs"]  # k × k, or 0 × 0 where nobody asked
ClassSums = Float[np.ndarray, "summed summed"]  # k × k, or 0 × 0 where there are too many classes

MOST_SUMMED = 1000  # classes up to which sums by class are kept: at 10,000 they would be 1.6 GB for each condition


@dataclass(frozen=True, eq=False)
class Record:
    """What one condition did to each example, and class sums for the geometry of the outputs."""

    predicted: ExampleInts
    runner_up: ExampleInts
    margin: ExampleFloats  # true logit minus the largest other
    p_true: ExampleFloats
    p_predicted: ExampleFloats
    p_runner_up: ExampleFloats
    p_squared: ExampleFloats  # sum over classes of squared probabilities: gives the variance of confidence
    entropy: ExampleFloats
    by: ExampleInts  # member of a combined attack that ended with this point
    step: ExampleInts  # steps (gradients, or queries) after which it was first misclassified, or NEVER
    trouble: ExampleInts  # of survivors: FLAT where the input gradient was zero, so that the attack could not move
    each: ExampleInts  # bit m is set if member m of a combined attack fooled it
    rounded: ExampleInts  # predicted at the point as an image of 8 bits; NEVER where nobody asked
    linf: ExampleFloats  # size of the perturbation, both ways
    l2: ExampleFloats
    logit_sum: ClassSums  # row: true class; sum of logits
    probability_sum: ClassSums
    reached: ReachedCounts  # images of the row's class that were turned into the column's, by an attack that tries all
    forwards: int  # passes of single examples
    backwards: int


SUMS = ("logit_sum", "probability_sum", "reached", "forwards", "backwards")  # what adds; the rest follows each other


class RecordColumns:
    """Records of `n` different examples under one condition, which become one: columns follow each other, sums add.

    Each record is copied into place as it comes and let go. Keeping the small arrays of every batch instead would
    leave them between the large blocks of freed pixels, which then could not be used again: memory would grow.
    """

    def __init__(self, n: int) -> None:
        self.n, self.done = n, 0
        self.columns: dict[str, Any] = {}
        self.sums: dict[str, Any] = dict.fromkeys(SUMS, 0)

    def add(self, record: Record) -> None:
        """The next examples."""
        self.put(record, self.done)
        self.add_sums({name: getattr(record, name) for name in SUMS})
        self.done += len(record.predicted)

    def put(self, record: Record, at: int) -> None:
        """The columns of some examples at their place."""
        for f in fields(Record):
            if f.name not in SUMS:
                value = getattr(record, f.name)
                column = self.columns.setdefault(f.name, np.empty(self.n, value.dtype))
                column[at : at + len(value)] = value

    def add_sums(self, sums: Mapping[str, Any]) -> None:
        """Sums of floats depend on their order in the last bits: whoever calls this keeps to one order."""
        self.sums = {name: self.sums[name] + sums[name] for name in SUMS}

    def whole(self, order: ExampleInts | None = None) -> Record:
        """One record of everything that was added, or of some rows of it in a given order."""
        columns = self.columns if order is None else {name: column[order] for name, column in self.columns.items()}
        return Record(**columns, **self.sums)


def join_records(records: Iterable[Record], n: int, order: ExampleInts | None = None) -> Record:
    """Records of `n` different examples under one condition, as one."""
    columns = RecordColumns(n)
    for one in records:
        columns.add(one)
    assert columns.done == n, f"{n} examples were announced, but {columns.done} came"
    return columns.whole(order)


CHECK_LEVEL = 0.01
TOLERATED = 0.05  # of the survivors, that a short search may break; a choice, not a measurement
SUSPICIOUS = 0.05  # the chance of as many broken ones of a class from which on more of it are looked at
MOST_NAMED = 5  # classes that a sentence names


@dataclass(frozen=True)
class SurvivorCheck:
    """A sample of the images that survived some conditions of one ball, attacked without gradients.

    `classes` are those that were sampled, with as many numbers in `attacked`, `broken` and `stood`; evidence of 0.1
    has no `stood` and no `images`.
    """

    conditions: tuple[str, ...]
    ball: str
    attack: str  # in words; empty where nothing without gradients knows the ball
    survivors: int  # that there were
    classes: tuple[int, ...] = ()
    attacked: tuple[int, ...] = ()
    broken: tuple[int, ...] = ()
    forwards: int = 0
    backwards: int = 0
    stood: tuple[int, ...] = ()  # survivors of each of the classes
    images: int = 0  # of the audit

    @property
    def sampled(self) -> int:
        return sum(self.attacked)

    @property
    def fallen(self) -> int:
        return sum(self.broken)

    @property
    def excess(self) -> float | None:
        """How much of the accuracy would fall too if all survivors were attacked so: each class by its own sample."""
        if not self.stood or not self.images:
            return None
        parts = zip(self.stood, self.broken, self.attacked, strict=True)
        falling = sum(stood * broken / attacked for stood, broken, attacked in parts) / sum(self.stood)
        return falling * self.survivors / self.images  # classes without a sample fall like the others

    @property
    def p(self) -> float:
        """The chance that so many or more are broken if a tolerated share of the survivors can be."""
        return chance_of(self.fallen, self.sampled)

    @property
    def worst_classes(self) -> tuple[int, ...]:
        """Places in `classes` of those that have too many broken by themselves, of which one may be looked at twice."""
        level = CHECK_LEVEL / (2 * max(1, len(self.classes)))
        pairs = enumerate(zip(self.broken, self.attacked, strict=True))
        return tuple(i for i, (b, n) in pairs if chance_of(b, n) < level)

    @property
    def fires(self) -> bool:
        """Whether the numbers of these conditions are too high."""
        return self.p < CHECK_LEVEL or bool(self.worst_classes)

    def sentence(self, names: Sequence[str]) -> str:
        """What was found, in one sentence."""
        under = " and ".join(self.conditions)
        if not self.attack:
            return f"survivors of {under} ({self.ball}) were not checked: no attack without gradients knows this ball"
        if not self.sampled:
            return f"nothing survived {under} ({self.ball}), so there was nothing to check"
        share = 100 * self.fallen / self.sampled
        found = f"{self.attack} broke {self.fallen} of {self.sampled} sampled survivors ({share:.1f} %)"
        if self.fallen and self.excess is not None:
            found += f", which is about {100 * self.excess:.1f} points of the accuracy,"
        if not self.fires:
            return f"{found} of {under}, {self.ball}"
        chosen = self.worst_classes or tuple(i for i in np.argsort(self.broken)[::-1].tolist() if self.broken[i])
        shown = ", ".join(
            f"{names[self.classes[i]]} {self.broken[i]} of {self.attacked[i]}" for i in chosen[:MOST_NAMED]
        ) + (", …" if len(chosen) > MOST_NAMED else "")
        return (
            f"the robust accuracy under {under} is too high: {found} of {self.ball} ({shown}), so the gradients "
            "mislead or the attack is too weak; do not trust these numbers, and audit with square or autoattack"
        )


def chance_of(broken: int, attacked: int) -> float:
    return float(bdtrc(broken - 1, attacked, TOLERATED)) if broken else 1.0


def find_suspect(labels: "np.ndarray", hit: "np.ndarray") -> int:
    """The class whose sample looks worst, if it looks bad at all; else none, which is -1."""
    chances = {int(c): chance_of(int(hit[labels == c].sum()), int((labels == c).sum())) for c in np.unique(labels)}
    worst = min(chances, key=lambda c: chances[c], default=-1)
    return worst if chances.get(worst, 1.0) < SUSPICIOUS else -1


def check_to_json(check: SurvivorCheck) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(check).items()}


def check_from_json(content: Mapping[str, Any], k: int) -> SurvivorCheck:
    """A check as evidence has it; what makes no sense is refused."""
    lists: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.items()
    }
    check = SurvivorCheck(**lists)
    columns = (check.classes, check.attacked, check.broken, check.stood or check.classes)
    numbers = (
        *(n for column in columns for n in column),
        check.survivors,
        check.forwards,
        check.backwards,
        check.images,
    )
    fine = (
        all(isinstance(number, int) and number >= 0 for number in numbers)
        and len({len(column) for column in columns}) == 1
        and all(c < k for c in check.classes)
        and all(b <= n > 0 for b, n in zip(check.broken, check.attacked, strict=True))
        and all(n <= s for n, s in zip(check.attacked, check.stood or check.attacked, strict=True))
        and (not check.stood or sum(check.stood) <= check.images)
        and all(isinstance(text, str) for text in (*check.conditions, check.ball, check.attack))
    )
    if not fine:
        raise ValueError("a check of survivors contradicts itself")
    return check


WHOLE = ("predicted", "runner_up", "by", "step", "trouble", "each", "rounded", "reached")  # columns of integers
NESTED = ("ball", "goal", "attack")  # parts of an attack that have settings of their own
MOST_PASSES = 1 << 62


def require(holds: bool, otherwise: str) -> None:
    """Raise ValueError with the sentence unless the condition holds."""
    if not holds:
        raise ValueError(otherwise)


def in_range(values: "np.ndarray", low: float, high: float) -> bool:
    """Whether all values lie between the two; nothing at all does."""
    return len(values) == 0 or bool(values.min() >= low and values.max() <= high)


def check_examples(ids: ExampleInts, labels: ExampleInts, k: int) -> None:
    """Refuse examples that are not distinct and sorted, or of classes that there are not."""
    whole = all(isinstance(one, np.ndarray) and one.dtype.kind in "iu" and one.ndim == 1 for one in (ids, labels))
    require(whole, "ids and labels are not whole numbers")
    require(len(np.unique(ids)) == len(ids) and bool((np.diff(ids) > 0).all()), "ids are not distinct and sorted")
    require(labels.shape == ids.shape and in_range(labels, 0.0, k - 1.0), "labels are outside the classes")


def check_record(name: str, r: Record, labels: ExampleInts, *, k: int) -> None:
    """Refuse a record whose columns are of a wrong kind or size, or hold numbers that cannot be."""
    n = len(labels)
    for f in fields(Record):
        value = getattr(r, f.name)
        if not isinstance(value, np.ndarray):
            require(type(value) is int and 0 <= value < MOST_PASSES, f"{name}: {f.name} is no count")
            continue
        require(value.dtype.kind in ("iu" if f.name in WHOLE else "f"), f"{name}: {f.name} has numbers of a wrong kind")
        fits = value.shape == ((k, k) if f.name in SUMS else (n,))
        require(fits or (f.name in SUMS and value.shape == (0, 0)), f"{name}: {f.name} has a wrong size")
    require(in_range(r.predicted, 0.0, k - 1.0), f"{name}: predictions are outside the classes")
    require(in_range(r.runner_up, 0.0, k - 1.0), f"{name}: predictions are outside the classes")
    probabilities = np.concatenate([r.p_true, r.p_predicted, r.p_runner_up, r.p_squared])
    require(in_range(probabilities, 0.0, 1 + 1e-5), f"{name}: probabilities are outside [0, 1]")
    right = r.predicted == labels
    agree = bool(((r.margin > 0) <= right).all()) and bool(((r.margin < 0) <= ~right).all())
    require(agree and not bool(np.isnan(r.margin).any()), f"{name}: margins contradict predictions")
    require(in_range(r.entropy, -1e-5, float(np.log(k)) + 1e-5), f"{name}: entropies are outside [0, ln k]")
    each_class = np.bincount(labels, minlength=k)[:, None]
    possible = r.reached.size == 0 or bool(((r.reached >= 0) & (r.reached <= each_class)).all())
    require(possible, f"{name}: more were reached than exist")
    positive = (r.step >= NEVER).all() and (r.linf >= 0).all() and (r.l2 >= 0).all()
    require(bool(positive), f"{name}: steps or norms are negative")


def check_words(about: Mapping[str, Any]) -> None:
    """Refuse names, groups and warnings that are no text, or classes of a group that there are not."""
    names = about["names"]
    require(is_texts(names) and len(set(names)) == len(names) > 0, "class names are not distinct texts")
    require(is_texts(about["warnings"]), "warnings are no texts")
    for name, classes in about["groups"]:
        known = isinstance(classes, list) and all(type(c) is int and 0 <= c < len(names) for c in classes)
        require(isinstance(name, str) and known, "a group has classes that there are not")
    for name in about["conditions"]:
        require(escape_unprintable(name) == name, "the name of a condition cannot be printed")
        require(isinstance(about["conditions"][name], dict), "a condition has no counts")


def is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def check_recipe(recipe: object, conditions: Mapping[str, Record]) -> None:
    """Refuse a recipe that does not describe its conditions, which every reader takes it to do."""
    require(isinstance(recipe, str), "the recipe is no text")
    assert isinstance(recipe, str)
    said = parse_json(recipe)
    require(isinstance(said, dict) and all(isinstance(said.get(part), str) for part in ("model", "data")), "no recipe")
    pairs = said.get("conditions")
    require(isinstance(pairs, list) and all(isinstance(p, list) and len(p) == 2 for p in pairs), "no conditions")
    named = {name: attack for name, attack in pairs if isinstance(name, str)}
    require(named.keys() >= conditions.keys() and len(named) == len(pairs), "the recipe is of other conditions")
    for attack in named.values():
        check_attack(attack)


def check_attack(attack: Any) -> None:
    """Refuse settings of an attack that are not as attacks write them."""
    require(isinstance(attack, dict) and isinstance(attack.get("type"), str), "an attack has no name")
    for part in NESTED:
        if part in attack:
            check_attack(attack[part])
    for number in ("eps", "inverse_temperature"):
        value = attack.get(number, 0.0)
        require(type(value) in (int, float) and math.isfinite(value), f"{number} of an attack is no number")
    members = attack.get("members", [])
    require(isinstance(members, list), "members of an attack are no list")
    for member in members:
        check_attack(member)
