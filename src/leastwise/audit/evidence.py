"""Evidence: one small record per example and condition, from which every table and interval follows.

Here is the value and its file; `auditor` makes its records while attacking. None of it needs torch but the counts that
are tensors. The same recipe gives the same bytes on one kind of processor with the same batch size and number of
threads.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int
from safetensors.numpy import save as save_arrays

from leastwise.attacks.codes import FLAT, GRID, NEVER, UNCONFIRMED
from leastwise.audit.record import (
    ClassMatrix,
    ExampleInts,
    Record,
    SurvivorCheck,
    check_examples,
    check_from_json,
    check_recipe,
    check_record,
    check_to_json,
    check_words,
    join_records,
    require,
)
from leastwise.core.files import parse_json, sha256, write_atomic
from leastwise.core.recipe import key_of_json
from leastwise.data.classes import Groups
from leastwise.statistics.accuracy import ClassValues

if TYPE_CHECKING:
    from leastwise.core.counts import ClassFrame, Tally
import lzma

from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from leastwise.core.text import escape_unprintable

SCHEMA = 4  # 2: trouble, each; 3: rounded; 4: reached
EXPLAIN_FILE = "explain.json"  # what the report found of the same audit about why classes are weak
SUMMARY_FILE = "summary.json"  # made from the evidence by the report, and never left beside another audit's
MOST_NAMED = 5  # classes that a sentence names

ConfusionMatrix = Int[np.ndarray, "k k"]


@dataclass(frozen=True, eq=False, repr=False)
class Evidence:
    """Everything an audit found, by condition; examples are in the order of their ids."""

    ids: ExampleInts
    labels: ExampleInts
    names: tuple[str, ...]
    conditions: Mapping[str, Record]
    recipe: str  # canonical JSON of what determined this evidence
    groups: Groups = ()  # superclasses of the data set
    warnings: tuple[str, ...] = ()  # what was seen before the audit and accepted; every output repeats it
    checks: tuple[SurvivorCheck, ...] = ()  # what was found without gradients; no part of the recipe

    def __repr__(self) -> str:
        names = list(self.conditions)
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        return f"Evidence of {len(self.ids):,} images, {self.k:,} classes, under {shown} (key {self.key})"

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

    def tally(self, condition: str) -> "Tally":
        """How many examples of each class there are, and how many are right under a condition."""
        return self.count(self.correct(condition))

    def count(self, hit: "np.ndarray") -> "Tally":
        """The examples of each class, and those that hit; the first call imports torch, which takes a second."""
        import torch

        from leastwise.core.counts import Tally

        return Tally.count(torch.from_numpy(self.labels.astype(np.int64)), torch.from_numpy(hit), self.k)

    def in_8_bits(self, condition: str) -> "Tally | None":
        """What is right at the attacked points as images of 8 bits, if that was asked for."""
        rounded = self.conditions[condition].rounded
        if not len(rounded) or rounded[0] == NEVER:
            return None
        return self.count(rounded == self.labels)

    def frame(self) -> "ClassFrame":
        """The counts of all conditions as one table."""
        from leastwise.core.counts import ClassFrame

        return ClassFrame.of({name: self.tally(name) for name in self.conditions}, self.names)

    def cautions(self) -> tuple[str, ...]:
        """The warnings, and what the attacks noticed: examples that survived because there was no gradient."""
        return (*self.warnings, *(note for name in self.conditions for note in self.flat(name)))

    def unconfirmed(self, condition: str) -> ExampleInts:
        """By class: points that fooled the model during the attack, but not when it was asked again."""
        return np.bincount(self.labels[self.conditions[condition].trouble == UNCONFIRMED], minlength=self.k)

    def stuck(self, condition: str) -> Bool[np.ndarray, " n"]:
        """Which examples survived without a gradient."""
        return (self.conditions[condition].trouble == FLAT) & self.correct(condition)

    def flat(self, condition: str) -> tuple[str, ...]:
        """A sentence on survivors without a gradient, class by class, if there are any."""
        stuck = self.stuck(condition)
        if not stuck.any():
            return ()
        lost = np.bincount(self.labels[stuck], minlength=self.k)
        most = sorted(np.flatnonzero(lost), key=lambda c: -lost[c])
        shown = ", ".join(f"{self.names[c]} {lost[c]}" for c in most[:MOST_NAMED]) + (
            ", …" if len(most) > MOST_NAMED else ""
        )
        return (
            f"under {condition} {stuck.sum()} of {self.correct(condition).sum()} survivors had an input gradient of "
            f"zero ({shown}): the attack could not move there, which is no robustness; try square",
        )

    @property
    def attacks(self) -> dict[str, Any]:
        """The settings behind the name of every condition that was asked for."""
        return dict(json.loads(self.recipe)["conditions"])

    def members(self, condition: str) -> tuple[str, ...]:
        """What tells the members of a grid of attacks apart; nothing for other conditions."""
        attack = self.attacks[condition]
        return tuple(member_name(m, i) for i, m in enumerate(attack["members"])) if attack["type"] == GRID else ()

    def against(self, condition: str, member: int) -> "Tally":
        """What survived one member of a grid. An example that was wrong from the start is so for every member."""
        return self.count((self.conditions[condition].each >> member) & 1 == 0)

    def reach(self, condition: str) -> ClassMatrix | None:
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
        return merge_evidence([self, other])

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
        if self.checks:  # evidence from before there were any stays as it was
            about["checks"] = [check_to_json(check) for check in self.checks]
        arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
        about["digest"] = digest_content(arrays, about)
        # One metadata entry: safetensors does not promise an order among several.
        return save_arrays(arrays, metadata={"leastwise": json.dumps(about, ensure_ascii=False)})

    def verify(self) -> None:
        """Raise ValueError unless the evidence is consistent in itself."""
        require(len(self.ids) > 0, "there are no examples")
        check_examples(self.ids, self.labels, self.k)
        check_recipe(self.recipe, self.conditions)
        for name, record in self.conditions.items():
            check_record(name, record, self.labels, k=self.k)


def merge_evidence(parts: Sequence[Evidence]) -> Evidence:
    """Evidence of disjoint examples under one recipe, in any order of the parts."""
    # Sums of floats depend on their order, so the parts are put into one order first.
    parts = sorted((part for part in parts if len(part.ids)), key=lambda part: int(part.ids[0])) or parts[:1]
    first = parts[0]
    for part in parts[1:]:
        require(
            part.recipe == first.recipe and part.names == first.names, "evidence of different recipes cannot be merged"
        )
    ids = np.concatenate([part.ids for part in parts])
    require(len(np.unique(ids)) == len(ids), "evidence of the same examples cannot be merged")
    order = np.argsort(ids)
    labels = np.concatenate([part.labels for part in parts])[order]
    conditions = {
        name: join_records([part.conditions[name] for part in parts], len(ids), order) for name in first.conditions
    }
    return replace(first, ids=ids[order], labels=labels, conditions=conditions)


# What follows for classes.


def count_confusions(evidence: Evidence, condition: str) -> ConfusionMatrix:
    """Counts; every row sums to the number of images of its class."""
    k = evidence.k
    pairs = evidence.labels.astype(np.int64) * k + evidence.conditions[condition].predicted
    return np.bincount(pairs, minlength=k * k).reshape(k, k)


def class_mean(values: Float[np.ndarray, " n"], labels: Int[np.ndarray, " n"], k: int) -> ClassValues:
    """Mean over the images of each class; NaN without images."""
    n = np.bincount(labels, minlength=k)
    total = np.bincount(labels, weights=values.astype(np.float64), minlength=k)
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / n


def entropy(evidence: Evidence, condition: str) -> ClassValues:
    """Mean entropy of the outputs for each class, natural logarithm: at most ln k."""
    return class_mean(evidence.conditions[condition].entropy, evidence.labels, evidence.k)


def cvc(evidence: Evidence, condition: str) -> ClassValues:
    """Class-wise variance of confidence (Tian 2021, Def. 5.1): mean(‖p‖²)/k − 1/k², because p has the mean 1/k."""
    squared = class_mean(evidence.conditions[condition].p_squared, evidence.labels, evidence.k)
    return squared / evidence.k - 1 / evidence.k**2


def member_name(attack: Mapping[str, Any], number: int) -> str:
    """What tells a member of a grid of attacks apart: its temperature, or its number."""
    steepness = attack.get("goal", {}).get("inverse_temperature")
    return f"member {number}" if steepness is None else f"1/T = {steepness:g}"


def digest_content(arrays: Mapping[str, "np.ndarray"], about: Mapping[str, Any]) -> str:
    """A digest of all arrays with their types and shapes, and of the text beside them."""
    parts = [json.dumps(about, sort_keys=True).encode()]
    for name in sorted(arrays):
        parts += [
            name.encode(),
            str(arrays[name].dtype).encode(),
            str(arrays[name].shape).encode(),
            arrays[name].tobytes(),
        ]
    return sha256(*parts)


EVIDENCE_FILE = "evidence.safetensors"
PACKED_FILE = f"{EVIDENCE_FILE}.xz"  # the same, a third of the size: 0.2 MB for 10,000 images under one condition
LARGE, MOST_PACKING = 64 << 20, 50  # bytes from which packing is looked at, and how many times smaller it may make
UNPACKING = 256 << 20  # bytes of memory that the packer may ask for besides


def load_evidence(path: Path) -> Evidence:
    """Read and check: a damaged or edited file is refused, and nothing in it is executed."""
    if path.is_dir():
        path = locate_evidence(path)
    if not path.is_file() or path.suffix == ".json":
        raise ValueError(f"there is no evidence at {path}: give the folder that `leastwise audit` wrote")
    return parse_evidence(unpack_file(path) if path.suffix == ".xz" else path.read_bytes(), path)


def locate_evidence(folder: Path) -> Path:
    """The evidence of a folder, packed or not."""
    return folder / (
        PACKED_FILE if (folder / PACKED_FILE).is_file() and not (folder / EVIDENCE_FILE).is_file() else EVIDENCE_FILE
    )


def unpack_file(path: Path) -> bytes:
    """The content of a packed file, unless it is damaged or there to fill the memory."""
    packed = path.read_bytes()
    most = max(LARGE, MOST_PACKING * len(packed))
    reader = lzma.LZMADecompressor(memlimit=UNPACKING)
    try:
        content = reader.decompress(packed, max_length=most)
    except (lzma.LZMAError, EOFError):
        content = b""
    if not reader.eof:
        what = f"{len(packed):,} bytes would unpack to more than {most:,}" if content else "it cannot be unpacked"
        raise ValueError(f"{path} is damaged or was edited ({what}): audit again with --fresh")
    return content


def parse_evidence(content: bytes, path: Path) -> Evidence:
    """Evidence from the bytes of a file, checked."""
    try:
        arrays = load_arrays(content)
        header = parse_json(content[8 : 8 + int.from_bytes(content[:8], "little")])
        about = parse_json(header["__metadata__"]["leastwise"])
        require(about["schema"] == SCHEMA, f"schema {about['schema']} is not {SCHEMA}")
        stated = about.pop("digest")
        require(stated == digest_content(arrays, about), "its digest does not match its content")
        check_words(about)
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
        checks = tuple(check_from_json(one, len(names)) for one in about.get("checks", ()))
        evidence = Evidence(
            arrays["ids"], arrays["labels"], names, conditions, about["recipe"], groups, warnings, checks
        )
        evidence.verify()
    except (SafetensorError, LookupError, TypeError, AttributeError, UnicodeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{path} is not evidence ({type(error).__name__} while reading): audit again with --fresh"
        ) from None
    except ValueError as error:
        raise ValueError(f"{path} is damaged or was edited ({error}): audit again with --fresh") from None
    return evidence
