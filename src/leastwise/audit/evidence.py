"""Evidence: one small record per example and condition, from which every table and interval follows.

On disk it is one safetensors file (arrays and one JSON text, nothing that can run). A digest over
everything inside is checked on loading. The same recipe gives the same bytes on one kind of
processor with the same batch size and number of threads.
"""

import json
import lzma
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from leastwise.attacks.base import FLAT, NEVER, Outcome
from leastwise.core.counts import ClassFrame, Tally
from leastwise.core.files import sha256, write_atomic
from leastwise.core.losses import entropy, margin
from leastwise.core.recipe import key_of_json
from leastwise.core.text import escape_unprintable
from leastwise.core.types import Images, Labels, Logits
from leastwise.data.dataset import Groups

SCHEMA = 4  # 2: trouble, each; 3: rounded; 4: reached
FILE = "evidence.safetensors"
PACKED = f"{FILE}.xz"  # the same, a third of the size: 0.2 MB for 10,000 images under one condition
LARGEST = 1 << 32  # bytes that a packed file may have inside
FEW = 5  # classes that a sentence names

Whole = Int[np.ndarray, " n"]
Real = Float[np.ndarray, " n"]
Square = Float[np.ndarray, "k k"]
Pairs = Int[np.ndarray, "pairs pairs"]  # k × k, or 0 × 0 where nobody asked


@dataclass(frozen=True, eq=False)
class Record:
    """What one condition did to each example, and class sums for the geometry of the outputs."""

    predicted: Whole
    runner_up: Whole
    margin: Real  # true logit minus the largest other
    p_true: Real
    p_predicted: Real
    p_runner_up: Real
    p_squared: Real  # sum over classes of squared probabilities: gives the variance of confidence
    entropy: Real
    by: Whole  # member of a combined attack that ended with this point
    step: Whole  # steps (gradients, or queries) after which it was first misclassified, or NEVER
    trouble: Whole  # of survivors: FLAT where the input gradient was zero, so that the attack could not move
    each: Whole  # bit m is set if member m of a combined attack fooled it
    rounded: Whole  # predicted at the point as an image of 8 bits; NEVER where nobody asked
    linf: Real  # size of the perturbation, both ways
    l2: Real
    logit_sum: Square  # row: true class; sum of logits
    probability_sum: Square
    reached: Pairs  # images of the row's class that were turned into the column's, by an attack that tries all
    forwards: int  # passes of single examples
    backwards: int


def record(z: Logits, y: Labels, x: Images, outcome: Outcome, rounded: Logits | None = None) -> Record:
    """The record of a batch from the logits at the attacked points, and at the same points in 8 bits."""
    k = z.shape[1]
    p = z.softmax(dim=1)
    predicted = z.argmax(dim=1)
    runner_up = z.scatter(1, predicted[:, None], -torch.inf).argmax(dim=1)
    moved = (outcome.x_adv - x).flatten(1)

    def probability(classes: Labels) -> Real:
        return real(p.gather(1, classes[:, None]).squeeze(1))

    def class_sum(values: Logits) -> Square:
        sums = torch.zeros(k, k, dtype=torch.float64, device=values.device)
        return sums.index_add_(0, y, values.double()).cpu().numpy()

    return Record(
        predicted=whole(predicted),
        runner_up=whole(runner_up),
        margin=real(margin(z, y)),
        p_true=probability(y),
        p_predicted=probability(predicted),
        p_runner_up=probability(runner_up),
        p_squared=real(p.square().sum(dim=1)),
        entropy=real(entropy(z)),
        by=whole(outcome.by),
        step=whole(outcome.step),
        trouble=whole(outcome.trouble),
        each=whole(outcome.each),
        rounded=whole(torch.full_like(y, NEVER) if rounded is None else rounded.argmax(dim=1)),
        linf=real(moved.abs().amax(dim=1)),
        l2=real(torch.linalg.vector_norm(moved, dim=1)),
        logit_sum=class_sum(z),
        probability_sum=class_sum(p),
        reached=reached_sum(outcome, y, k),
        forwards=outcome.forwards,
        backwards=outcome.backwards,
    )


def reached_sum(outcome: Outcome, y: Labels, k: int) -> Pairs:
    if outcome.reached is None:
        return np.zeros((0, 0), dtype=np.int64)
    sums = torch.zeros(k, k, dtype=torch.int64, device=y.device)
    return sums.index_add_(0, y, outcome.reached.long()).cpu().numpy()


def whole(values: Labels) -> Whole:
    return values.to(torch.int32).cpu().numpy()


def real(values: torch.Tensor) -> Real:
    return values.to(torch.float32).cpu().numpy()


SUMS = ("logit_sum", "probability_sum", "reached", "forwards", "backwards")  # what adds; the rest follows each other


def join(records: Iterable[Record], n: int, order: Whole | None = None) -> Record:
    """Records of `n` different examples under one condition: per-example arrays follow each other, sums add.

    Each record is copied into place as it comes and let go. Keeping the small arrays of every batch instead would
    leave them between the large blocks of freed pixels, which then could not be used again: memory would grow.
    """
    columns: dict[str, Any] = {}
    sums: dict[str, Any] = dict.fromkeys(SUMS, 0)
    done = 0
    for r in records:
        size = len(r.predicted)
        for f in fields(Record):
            value = getattr(r, f.name)
            if f.name in SUMS:
                sums[f.name] = sums[f.name] + value
            else:
                columns.setdefault(f.name, np.empty(n, value.dtype))[done : done + size] = value
        done += size
    assert done == n, f"{n} examples were announced, but {done} came"
    if order is not None:
        columns = {name: column[order] for name, column in columns.items()}
    return Record(**columns, **sums)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything an audit found, by condition; examples are in the order of their ids."""

    ids: Whole
    labels: Whole
    names: tuple[str, ...]
    conditions: Mapping[str, Record]
    recipe: str  # canonical JSON of what determined this evidence
    groups: Groups = ()  # superclasses of the data set
    warnings: tuple[str, ...] = ()  # what was seen before the audit and accepted; every output repeats it

    @property
    def key(self) -> str:
        return key_of_json(self.recipe)

    @property
    def data(self) -> str:
        """The digest of the data set."""
        digest: str = json.loads(self.recipe)["data"]
        return digest

    @property
    def k(self) -> int:
        return len(self.names)

    def correct(self, condition: str) -> "np.ndarray":
        return self.conditions[condition].predicted == self.labels

    def tally(self, condition: str) -> Tally:
        y = torch.from_numpy(self.labels.astype(np.int64))
        return Tally.count(y, torch.from_numpy(self.correct(condition)), self.k)

    def in_8_bits(self, condition: str) -> Tally | None:
        """What is right at the attacked points as images of 8 bits, if that was asked for."""
        rounded = self.conditions[condition].rounded
        if not len(rounded) or rounded[0] == NEVER:
            return None
        y = torch.from_numpy(self.labels.astype(np.int64))
        return Tally.count(y, torch.from_numpy(rounded == self.labels), self.k)

    def frame(self) -> ClassFrame:
        return ClassFrame.of({name: self.tally(name) for name in self.conditions}, self.names)

    def cautions(self) -> tuple[str, ...]:
        """The warnings, and what the attacks noticed: examples that survived because there was no gradient."""
        return (*self.warnings, *(note for name in self.conditions for note in self.flat(name)))

    def flat(self, condition: str) -> tuple[str, ...]:
        """A sentence on survivors without a gradient, class by class, if there are any."""
        stuck = (self.conditions[condition].trouble == FLAT) & self.correct(condition)
        if not stuck.any():
            return ()
        lost = np.bincount(self.labels[stuck], minlength=self.k)
        most = sorted(np.flatnonzero(lost), key=lambda c: -lost[c])
        shown = ", ".join(f"{self.names[c]} {lost[c]}" for c in most[:FEW]) + (", …" if len(most) > FEW else "")
        return (
            f"under {condition} {stuck.sum()} of {self.correct(condition).sum()} survivors had an input gradient of "
            f"zero ({shown}): the attack could not move there, which is no robustness; try square",
        )

    @property
    def attacks(self) -> dict[str, Any]:
        """The settings behind the name of every condition that was asked for."""
        return dict(json.loads(self.recipe)["conditions"])

    def members(self, condition: str) -> tuple[str, ...]:
        """Of a grid of attacks, what tells its members apart; nothing for other conditions."""
        attack = self.attacks[condition]
        return tuple(member_name(m, i) for i, m in enumerate(attack["members"])) if attack["type"] == "Grid" else ()

    def against(self, condition: str, member: int) -> Tally:
        """What survived one member of a grid. An example that was wrong from the start is so for every member."""
        y = torch.from_numpy(self.labels.astype(np.int64))
        fooled = (self.conditions[condition].each >> member) & 1
        return Tally.count(y, torch.from_numpy(fooled == 0), self.k)

    def reach(self, condition: str) -> Square | None:
        """The share of the row's class that was turned into the column's, if the condition tried all; NaN: nobody was.

        An image that is taken for a class as it is counts as turned into it.
        """
        reached = self.conditions[condition].reached
        if not reached.size:
            return None
        n = np.bincount(self.labels, minlength=self.k)[:, None].astype(np.float64)
        share = np.where(n > 0, reached / np.maximum(n, 1), np.nan)
        np.fill_diagonal(share, np.nan)
        return share

    def __add__(self, other: "Evidence") -> "Evidence":
        return merge([self, other])

    def save(self, path: Path) -> None:
        write_atomic(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        arrays = {"ids": self.ids, "labels": self.labels}
        counts = {}
        for condition, r in self.conditions.items():
            counts[condition] = {"forwards": r.forwards, "backwards": r.backwards}
            arrays |= {
                f"{condition}.{f.name}": getattr(r, f.name) for f in fields(Record) if f.name not in counts[condition]
            }
        about = {
            "schema": SCHEMA,
            "names": list(self.names),
            "conditions": counts,
            "recipe": self.recipe,
            "groups": [[name, list(classes)] for name, classes in self.groups],
            "warnings": list(self.warnings),
        }
        arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
        about["digest"] = digest(arrays, about)
        # One metadata entry: safetensors does not promise an order among several.
        return save_arrays(arrays, metadata={"leastwise": json.dumps(about, ensure_ascii=False)})

    def verify(self) -> None:
        """Raise ValueError unless the evidence is consistent in itself."""
        n, k = len(self.ids), self.k
        expect(len(np.unique(self.ids)) == n and bool((np.diff(self.ids) > 0).all()), "ids are not distinct and sorted")
        expect(self.labels.shape == (n,) and in_range(self.labels, 0.0, k - 1.0), "labels are outside the classes")
        for name, r in self.conditions.items():
            for f in fields(Record):
                value = getattr(r, f.name)
                if isinstance(value, np.ndarray):
                    fits = value.shape == ((k, k) if f.name in SUMS else (n,))
                    expect(fits or (f.name == "reached" and value.size == 0), f"{name}: {f.name} has a wrong size")
            expect(in_range(r.predicted, 0.0, k - 1.0), f"{name}: predictions are outside the classes")
            probabilities = np.concatenate([r.p_true, r.p_predicted, r.p_runner_up, r.p_squared])
            expect(in_range(probabilities, 0.0, 1 + 1e-5), f"{name}: probabilities are outside [0, 1]")
            expect(
                bool(((r.margin > 0) <= (r.predicted == self.labels)).all()), f"{name}: margins contradict predictions"
            )
            expect(
                bool(((r.margin < 0) <= (r.predicted != self.labels)).all()), f"{name}: margins contradict predictions"
            )
            expect(in_range(r.entropy, -1e-5, float(np.log(k)) + 1e-5), f"{name}: entropies are outside [0, ln k]")
            each_class = np.bincount(self.labels, minlength=k)[:, None]
            possible = r.reached.size == 0 or bool(((r.reached >= 0) & (r.reached <= each_class)).all())
            expect(possible, f"{name}: more were reached than exist")
            expect(bool((r.step >= NEVER).all() and (r.linf >= 0).all()), f"{name}: steps or norms are negative")


def load(path: Path) -> Evidence:
    """Read and check: a damaged or edited file is refused, and nothing in it is executed."""
    if path.is_dir():
        path = file_in(path)
    if not path.is_file() or path.suffix == ".json":
        raise ValueError(f"there is no evidence at {path}: give the folder that `leastwise audit` wrote")
    return parsed(unpacked(path) if path.suffix == ".xz" else path.read_bytes(), path)


def file_in(folder: Path) -> Path:
    """The evidence of a folder, packed or not."""
    return folder / (PACKED if (folder / PACKED).is_file() and not (folder / FILE).is_file() else FILE)


def pack(folder: Path) -> None:
    """Make a folder's evidence smaller without changing it; it is read as before."""
    write_atomic(folder / PACKED, lzma.compress((folder / FILE).read_bytes()))
    (folder / FILE).unlink()


def unpacked(path: Path) -> bytes:
    reader = lzma.LZMADecompressor()
    try:
        content = reader.decompress(path.read_bytes(), max_length=LARGEST)
    except (lzma.LZMAError, EOFError):
        content = b""
    if not reader.eof:
        raise ValueError(f"{path} is damaged or was edited (it cannot be unpacked): audit again with --fresh")
    return content


def parsed(content: bytes, path: Path) -> Evidence:
    """Evidence from the bytes of a file, checked."""
    try:
        arrays = load_arrays(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        about = json.loads(header["__metadata__"]["leastwise"])
        expect(about["schema"] == SCHEMA, f"schema {about['schema']} is not {SCHEMA}")
        stated = about.pop("digest")
        expect(stated == digest(arrays, about), "its digest does not match its content")
        conditions = {}
        for name, counts in about["conditions"].items():
            columns: dict[str, Any] = {
                f.name: arrays[f"{name}.{f.name}"] for f in fields(Record) if f.name not in counts
            }
            conditions[name] = Record(**columns, **counts)
        groups = tuple((escape_unprintable(str(name)), tuple(classes)) for name, classes in about["groups"])
        names, warnings = (
            tuple(escape_unprintable(str(text)) for text in about[part]) for part in ("names", "warnings")
        )
        evidence = Evidence(arrays["ids"], arrays["labels"], names, conditions, about["recipe"], groups, warnings)
    except (SafetensorError, KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{path} is not evidence ({type(error).__name__} while reading): audit again with --fresh"
        ) from None
    except ValueError as error:
        raise ValueError(f"{path} is damaged or was edited ({error}): audit again with --fresh") from None
    evidence.verify()
    return evidence


def merge(parts: Sequence[Evidence]) -> Evidence:
    """Evidence of disjoint examples under one recipe, in any order of the parts."""
    # Sums of floats depend on their order, so the parts are put into one order first.
    parts = sorted((part for part in parts if len(part.ids)), key=lambda part: int(part.ids[0])) or parts[:1]
    first = parts[0]
    for part in parts[1:]:
        expect(
            part.recipe == first.recipe and part.names == first.names, "evidence of different recipes cannot be merged"
        )
    ids = np.concatenate([part.ids for part in parts])
    expect(len(np.unique(ids)) == len(ids), "evidence of the same examples cannot be merged")
    order = np.argsort(ids)
    labels = np.concatenate([part.labels for part in parts])[order]
    conditions = {name: join([part.conditions[name] for part in parts], len(ids), order) for name in first.conditions}
    return replace(first, ids=ids[order], labels=labels, conditions=conditions)


def member_name(attack: Mapping[str, Any], number: int) -> str:
    steepness = attack.get("goal", {}).get("inverse_temperature")
    return f"member {number}" if steepness is None else f"1/T = {steepness:g}"


def digest(arrays: Mapping[str, "np.ndarray"], about: Mapping[str, Any]) -> str:
    parts = [json.dumps(about, sort_keys=True).encode()]
    for name in sorted(arrays):
        parts += [
            name.encode(),
            str(arrays[name].dtype).encode(),
            str(arrays[name].shape).encode(),
            arrays[name].tobytes(),
        ]
    return sha256(*parts)


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def in_range(values: "np.ndarray", low: float, high: float) -> bool:
    return len(values) == 0 or bool(values.min() >= low and values.max() <= high)
