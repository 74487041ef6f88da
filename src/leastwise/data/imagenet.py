"""Readers of ImageNet (ILSVRC2012) and Tiny-ImageNet folders, with the usual forms of validation labels.

Classes are WordNet ids in sorted order, as torchvision and the public networks count them.
"""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from leastwise.data.dataset import Dataset
from leastwise.data.files import Watch, dataset_of_files, is_image

TINY_SIDE = 64
CROP = 224


def read_tiny_imagenet(folder: Path, split: str, size: int | None = None, watch: Watch = lambda *_: None) -> Dataset:
    """`train/ID/images/*.JPEG`; `val/images/*.JPEG` with `val/val_annotations.txt`."""
    ids = sorted((folder / "wnids.txt").read_text().split())
    return read_labelled(folder, split, ids, size or TINY_SIDE, watch)


def read_imagenet(folder: Path, split: str, size: int | None = None, watch: Watch = lambda *_: None) -> Dataset:
    """`train/ID/*.JPEG` and `val/ID/*.JPEG`, or a flat `val` with one of the annotation files below."""
    labels = {} if split == "train" else annotations(folder, split)
    ids = sorted(set(labels.values()) or {path.name for path in (folder / split).iterdir() if path.is_dir()})
    return read_labelled(folder, split, ids, size or CROP, watch)


def read_labelled(folder: Path, split: str, ids: Sequence[str], size: int, watch: Watch) -> Dataset:
    place = folder / split
    if not place.is_dir():
        raise FileNotFoundError(2, "there is no such folder", str(place))
    index = {wnid: label for label, wnid in enumerate(ids)}
    flat = sorted(path for path in (place, place / "images") if path.is_dir() and any(map(is_image, path.iterdir())))
    if flat:
        labels = annotations(folder, split)
        if not labels:
            raise ValueError(
                f"{place} holds images without class folders: put val_annotations.txt, LOC_val_solution.csv or the "
                "devkit folder ILSVRC2012_devkit_t12 beside them"
            )
        paths = sorted(path for path in flat[-1].iterdir() if is_image(path))
        unlabelled = [path.name for path in paths if path.stem not in labels]
        if unlabelled:
            raise ValueError(f"{len(unlabelled)} images under {place} have no label, such as {unlabelled[0]}")
        files = [(path, index[labels[path.stem]]) for path in paths]
    else:
        files = [(path, index[wnid]) for wnid in ids for path in sorted((place / wnid).rglob("*")) if is_image(path)]
    return dataset_of_files(place, files, class_names(folder, ids), size, watch=watch)


def annotations(folder: Path, split: str) -> Mapping[str, str]:
    """Image (without its suffix) to WordNet id, from whichever file is there; empty if none is."""
    places = (folder / split, folder)
    for path in (place / "val_annotations.txt" for place in places):
        if path.is_file():  # Tiny-ImageNet: FILE ID box
            rows = (line.split() for line in path.read_text().splitlines() if line.strip())
            return {Path(row[0]).stem: row[1] for row in rows}
    for path in (place / "LOC_val_solution.csv" for place in places):
        if path.is_file():  # Kaggle: ImageId,"ID box ID box"
            with path.open(newline="") as file:
                return {row["ImageId"]: row["PredictionString"].split()[0] for row in csv.DictReader(file)}
    for devkit in (place / "ILSVRC2012_devkit_t12" / "data" for place in places):
        if devkit.is_dir():
            return devkit_annotations(devkit)
    return {}


def devkit_annotations(devkit: Path) -> Mapping[str, str]:
    """The n-th line of the ground truth is the devkit's number of the n-th image's class."""
    from scipy.io import loadmat

    try:
        synsets = loadmat(devkit / "meta.mat", squeeze_me=True)["synsets"]
        wnids = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets}
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(f"{devkit / 'meta.mat'} is not the devkit's table of classes ({error})") from None
    lines = (devkit / "ILSVRC2012_validation_ground_truth.txt").read_text().split()
    return {f"ILSVRC2012_val_{n:08d}": wnids[int(line)] for n, line in enumerate(lines, start=1)}


def class_names(folder: Path, ids: Sequence[str]) -> list[str]:
    """The first word of each class if a table of words is there, else its id; two classes never share a name."""
    words = {}
    for path in (folder / "words.txt", folder / "LOC_synset_mapping.txt"):
        if path.is_file():
            for line in path.read_text().splitlines():
                wnid, _, text = line.replace("\t", " ").partition(" ")
                words[wnid] = text.split(",")[0].strip()
    names = [words.get(wnid) or wnid for wnid in ids]
    often = Counter(names)
    return [name if often[name] == 1 else f"{name} ({wnid})" for name, wnid in zip(names, ids, strict=True)]
