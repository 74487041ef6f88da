"""Readers of ImageNet (ILSVRC2012) and Tiny-ImageNet folders, with the usual forms of validation labels.

Classes are WordNet ids in sorted order, as torchvision and the public networks count them.
"""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from leastwise.core.progress import ProgressCallback, ignore_progress
from leastwise.data.classes import read_text
from leastwise.data.dataset import Dataset
from leastwise.data.readers.image_folder import is_image, list_images, make_dataset

TINY_SIDE = 64
CROP = 224


class Annotation(NamedTuple):
    """The class of an image, and where that is written."""

    wnid: str
    where: str


def read_tiny_imagenet(
    folder: Path, split: str, size: int | None = None, *, watch: ProgressCallback = ignore_progress
) -> Dataset:
    """`train/ID/images/*.JPEG`; `val/images/*.JPEG` with `val/val_annotations.txt`."""
    ids = sorted(read_text(folder / "wnids.txt").split())
    return read_labelled(folder, split, ids, size=size or TINY_SIDE, watch=watch)


def read_imagenet(
    folder: Path, split: str, size: int | None = None, *, watch: ProgressCallback = ignore_progress
) -> Dataset:
    """`train/ID/*.JPEG` and `val/ID/*.JPEG`, or a flat `val` with one of the annotation files below."""
    labels = {} if split == "train" else read_annotations(folder, split)
    ids = sorted(
        {label.wnid for label in labels.values()} or {path.name for path in (folder / split).iterdir() if path.is_dir()}
    )
    return read_labelled(folder, split, ids, size=size or CROP, watch=watch)


def read_labelled(folder: Path, split: str, ids: Sequence[str], *, size: int, watch: ProgressCallback) -> Dataset:
    """A split of class folders, or of one folder with labels written beside it."""
    place = folder / split
    if not place.is_dir():
        raise FileNotFoundError(2, "there is no such folder", str(place))
    index = {wnid: label for label, wnid in enumerate(ids)}
    flat = sorted(path for path in (place, place / "images") if path.is_dir() and list_flat_images(path))
    if flat:
        labels = read_annotations(folder, split)
        if not labels:
            raise ValueError(
                f"{place} holds images without class folders: put val_annotations.txt, LOC_val_solution.csv or the "
                "devkit folder ILSVRC2012_devkit_t12 beside them"
            )
        paths = list_flat_images(flat[-1])
        unlabelled = [path.name for path in paths if path.stem not in labels]
        if unlabelled:
            raise ValueError(f"{len(unlabelled)} images under {place} have no label, such as {unlabelled[0]}")
        for wnid, where in (labels[path.stem] for path in paths):
            if wnid not in index:
                raise ValueError(f"{where}: the class {wnid!r} is not one of the {len(ids)} of this data set")
        files = [(path, index[labels[path.stem].wnid]) for path in paths]
    else:
        files = [(path, index[wnid]) for wnid in ids for path in list_images(place / wnid)]
    return make_dataset(place, files, read_class_names(folder, ids), size=size, watch=watch)


def list_flat_images(folder: Path) -> list[Path]:
    """The images directly inside a folder, in the order of their names."""
    return sorted(path for path in folder.iterdir() if is_image(path) and not path.is_dir())


def read_annotations(folder: Path, split: str) -> Mapping[str, Annotation]:
    """Image (without its suffix) to its class, from whichever file is there; empty if none is."""
    places = (folder / split, folder)
    for path in (place / "val_annotations.txt" for place in places):
        if path.is_file():  # Tiny-ImageNet: FILE ID box
            return read_tiny_annotations(path)
    for path in (place / "LOC_val_solution.csv" for place in places):
        if path.is_file():  # Kaggle: ImageId,"ID box ID box"
            return read_kaggle_annotations(path)
    for devkit in (place / "ILSVRC2012_devkit_t12" / "data" for place in places):
        if devkit.is_dir():
            return read_devkit_annotations(devkit)
    return {}


def read_tiny_annotations(path: Path) -> Mapping[str, Annotation]:
    """The classes in Tiny-ImageNet's `val_annotations.txt`."""
    labels = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        words = line.split()
        if len(words) == 1:
            raise ValueError(f"{path}, line {number}: an image and its class are needed, but saw {line.strip()!r}")
        if words:
            labels[Path(words[0]).stem] = Annotation(words[1], f"{path}, line {number}")
    return labels


def read_kaggle_annotations(path: Path) -> Mapping[str, Annotation]:
    """The classes in Kaggle's `LOC_val_solution.csv`."""
    rows = csv.DictReader(read_text(path).splitlines())
    missing = {"ImageId", "PredictionString"} - set(rows.fieldnames or ())
    if missing:
        raise ValueError(f"{path} has no column {' and '.join(sorted(missing))}: its first line must name them")
    labels = {}
    for number, row in enumerate(rows, start=1):
        words = (row["PredictionString"] or "").split()
        if not (row["ImageId"] and words):
            raise ValueError(f"{path}, row {number}: an image and its class are needed, but one of them is empty")
        labels[row["ImageId"]] = Annotation(words[0], f"{path}, row {number}")
    return labels


def read_devkit_annotations(devkit: Path) -> Mapping[str, Annotation]:
    """The n-th line of the ground truth is the devkit's number of the n-th image's class."""
    from scipy.io import loadmat

    try:
        synsets = loadmat(devkit / "meta.mat", squeeze_me=True)["synsets"]
        wnids = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets}
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(f"{devkit / 'meta.mat'} is not the devkit's table of classes ({error})") from None
    path = devkit / "ILSVRC2012_validation_ground_truth.txt"
    labels = {}
    for number, word in enumerate(read_text(path).split(), start=1):
        where = f"{path}, line {number}"
        if not (word.isdecimal() and int(word) in wnids):
            raise ValueError(f"{where}: {word!r} is not the number of a class in {devkit / 'meta.mat'}")
        labels[f"ILSVRC2012_val_{number:08d}"] = Annotation(wnids[int(word)], where)
    return labels


def read_class_names(folder: Path, ids: Sequence[str]) -> list[str]:
    """The first word of each class if a table of words is there, else its id; two classes never share a name."""
    words = {}
    for path in (folder / "words.txt", folder / "LOC_synset_mapping.txt"):
        if path.is_file():
            for line in read_text(path).splitlines():
                wnid, _, text = line.replace("\t", " ").partition(" ")
                words[wnid] = text.split(",")[0].strip()
    names = [words.get(wnid) or wnid for wnid in ids]
    often = Counter(names)
    return [name if often[name] == 1 else f"{name} ({wnid})" for name, wnid in zip(names, ids, strict=True)]
