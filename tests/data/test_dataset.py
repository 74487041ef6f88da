"""Data sets: subsets keep ids, any number of classes, clear refusals."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.data.readers.arrays import read_npz
from leastwise.data.registry import EMBEDDED
from leastwise.models.preflight import choose_device
from tests.conftest import SHAPE, K


def pixels_by_id(data: Dataset) -> dict[int, bytes]:
    return {int(i): data.images[data.rows[[p]]].tobytes() for p, i in enumerate(data.ids)}


def labels_by_id(data: Dataset) -> dict[int, int]:
    return dict(zip(data.ids.tolist(), data.labels.tolist(), strict=True))


def test_only_and_without_keep_ids_labels_and_the_list_of_classes(unbalanced: Dataset) -> None:
    some = unbalanced.only(["dog", 4])
    assert some.counts.tolist() == [0, 0, 0, 9, 1] and some.names == unbalanced.names
    rest = unbalanced.without("dog")
    assert rest.counts.tolist() == [20, 3, 0, 0, 1]
    for part in (some, rest, some.only([3])):
        assert labels_by_id(part).items() <= labels_by_id(unbalanced).items()
        assert pixels_by_id(part).items() <= pixels_by_id(unbalanced).items()


def test_take_gives_the_first_of_each_class_in_order(unbalanced: Dataset) -> None:
    taken = unbalanced.take(2)
    assert taken.counts.tolist() == [2, 2, 0, 2, 1]
    for c in range(K):
        assert taken.ids[taken.labels == c].tolist() == unbalanced.ids[unbalanced.labels == c][:2].tolist()
    assert taken.ids.tolist() == [i for i in unbalanced.ids.tolist() if i in set(taken.ids.tolist())]


def test_split_takes_from_every_class_and_is_disjoint_and_seeded(unbalanced: Dataset) -> None:
    data = unbalanced.without("elk")
    train, valid = data.split(2)
    assert valid.counts.tolist() == [2, 2, 0, 2, 0] and train.counts.tolist() == [18, 1, 0, 7, 0]
    assert not set(train.ids.tolist()) & set(valid.ids.tolist())
    assert set(train.ids.tolist()) | set(valid.ids.tolist()) == set(data.ids.tolist())
    assert data.split(2)[1].ids.tolist() == valid.ids.tolist() != data.split(2, seed=1)[1].ids.tolist()
    with pytest.raises(ValueError, match="nothing to train on for bee"):
        data.split(3)


def test_relabel_maps_classes(unbalanced: Dataset) -> None:
    swapped = unbalanced.relabel({0: 3, 3: 0})
    assert swapped.counts.tolist() == [9, 3, 0, 20, 1] and swapped.ids.tolist() == unbalanced.ids.tolist()
    binary = unbalanced.only([0, 3]).relabel({0: 1, 3: 0}, names=("dog", "ant"))
    assert binary.k == 2 and binary.counts.tolist() == [9, 20]
    with pytest.raises(ValueError, match=r"\[1, 4\] have none"):
        unbalanced.relabel({0: 1, 3: 0}, names=("dog", "ant"))
    with pytest.raises(ValueError, match="labels must be 0 to 4"):
        unbalanced.relabel({0: 5})


def test_batches_give_every_example_once_as_floats(unbalanced: Dataset) -> None:
    batches = list(unbalanced.batches(7))
    assert [len(b.y) for b in batches] == [7, 7, 7, 7, 5]
    assert [i for b in batches for i in b.ids.tolist()] == unbalanced.ids.tolist()
    raw = unbalanced.images[unbalanced.rows[:7]]
    assert batches[0].x.shape == (7, *SHAPE) and np.array_equal((255 * batches[0].x).round().numpy(), raw)


def test_digest_follows_the_content(unbalanced: Dataset) -> None:
    again = Dataset.of(np.array(unbalanced.images), unbalanced.labels, unbalanced.names, ids=unbalanced.ids)
    assert again.digest() == unbalanced.digest()
    changed = np.array(unbalanced.images)
    changed[-1, -1, -1, -1] ^= 1
    assert Dataset.of(changed, unbalanced.labels, unbalanced.names, ids=unbalanced.ids).digest() != unbalanced.digest()
    assert unbalanced.take(2).digest() != unbalanced.digest() != unbalanced.relabel({0: 3}).digest()


GOOD = {"images": np.zeros((4, 1, 5, 5), np.uint8), "labels": np.array([0, 1, 1, 2])}

BAD = {
    "float images": (GOOD | {"images": np.zeros((4, 1, 5, 5), np.float32)}, "uint8"),
    "float labels": (GOOD | {"labels": np.zeros(4, np.float32)}, "integer"),
    "too few labels": (GOOD | {"labels": np.zeros(3, np.int64)}, "every image needs one label"),
    "labels out of range": (GOOD | {"names": np.array(["a", "b"])}, "labels must be 0 to 1"),
    "negative labels": (GOOD | {"labels": np.array([0, -1, 1, 1])}, "labels must be"),
    "ids of text": (GOOD | {"ids": np.array(["a", "b", "c", "d"])}, "ids need an integer type"),
    "repeated names": (GOOD | {"names": np.array(["a", "b", "a"])}, "its own name"),
    "repeated ids": (GOOD | {"ids": np.array([1, 1, 2, 3])}, "own id"),
    "flat images": (GOOD | {"images": np.zeros((4, 25), np.uint8)}, "shape"),
    "nothing": ({"images": np.zeros((0, 1, 5, 5), np.uint8), "labels": np.zeros(0, np.int64)}, "at least one image"),
    "no labels": ({"images": GOOD["images"]}, "holds images"),
    "no pixels": (GOOD | {"images": np.zeros((4, 3, 0, 0), np.uint8)}, "at least one pixel"),
    "alpha": (GOOD | {"images": np.zeros((4, 6, 5, 4), np.uint8)}, "alpha channel at the end: drop it"),
    "grey and alpha": (GOOD | {"images": np.zeros((4, 6, 5, 2), np.uint8)}, "alpha channel at the end: drop it"),
    "a huge label": (GOOD | {"labels": np.array([0, 1, 1, 2**40])}, "labels up to 1099511627776: renumber them"),
    "objects": (GOOD | {"labels": np.array([0, 1, "x", None], dtype=object)}, "not a readable"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_archives_get_one_clear_sentence(case: str, tmp_path: Path) -> None:
    arrays, message = BAD[case]
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load(str(tmp_path / "x.npz"))


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut off"])
def test_damaged_archives_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(ValueError, match="not a readable"):
        load(str(tmp_path / "x.npz"))


def test_layouts_and_default_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 256, (4, 3, 5, 6), dtype=np.uint8)
    for name, images in (("nchw", colour), ("nhwc", colour.transpose(0, 2, 3, 1)), ("grey", colour[:, 0])):
        np.savez(tmp_path / f"{name}.npz", images=images, labels=GOOD["labels"])
    for name in ("nchw", "nhwc"):
        data = read_npz(tmp_path / f"{name}.npz")
        assert data.shape == (3, 5, 6) and np.array_equal(data.images[np.arange(4)], colour)
    assert read_npz(tmp_path / "grey.npz").shape == (1, 5, 6)
    assert read_npz(tmp_path / "grey.npz").names == ("0", "1", "2")


def test_labels_without_names_may_have_gaps_up_to_a_thousand() -> None:
    images = np.zeros((4, 1, 5, 5), np.uint8)
    assert Dataset.of(images, np.array([0, 1, 1, 999])).k == 1000
    with pytest.raises(ValueError, match="4 images without class names have labels up to 1000"):
        Dataset.of(images, np.array([0, 1, 1, 1000]))
    assert Dataset.of(images, np.array([0, 1, 1, 1000]), [f"c{c}" for c in range(1001)]).k == 1001


def test_channels_first_images_four_pixels_wide_are_no_alpha_channel() -> None:
    for c in (1, 3):
        assert Dataset.of(np.zeros((4, c, 6, 4), np.uint8), np.arange(4)).shape == (c, 6, 4)


def test_too_many_threads_are_refused() -> None:
    most = 4 * (os.cpu_count() or 1)
    with pytest.raises(ValueError, match=f"threads may be {most} at most on this machine, but saw 100000"):
        choose_device("cpu", 100_000)
    with pytest.raises(ValueError, match="1 or more"):
        choose_device("cpu", -1)
    assert choose_device("cpu", 1) == "cpu" and torch.get_num_threads() == 1


def test_unknown_names_splits_and_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no data set or file 'cifar-1000': known sets are fashion-mini"):
        load("cifar-1000")
    with pytest.raises(ValueError, match="no split 'valid': choose train or test"):
        load("fashion-mini/valid")
    (tmp_path / "x.csv").touch()
    with pytest.raises(ValueError, match="cannot tell how to read"):
        load(str(tmp_path / "x.csv"))


@pytest.mark.parametrize(("split", "per_class"), [("train", 600), ("test", 200)])
def test_the_embedded_set_has_its_labels(split: str, per_class: int) -> None:
    """Label facts: balanced, in official order, and beginning as the official files do."""
    data = load(f"fashion-mini/{split}")
    assert data.counts.tolist() == [per_class] * 10 and data.shape == (1, 28, 28)
    assert data.names[6] == "Shirt" and data.names[0] == "T-shirt/top" and data.names[9] == "Ankle boot"
    official = {"train": [9, 0, 0, 3, 0, 2, 7, 2, 5, 5], "test": [9, 2, 1, 1, 6, 1, 4, 6, 5, 7]}
    assert data.labels[:10].tolist() == official[split]
    assert data.ids[:10].tolist() == list(range(10)) and (np.diff(data.ids) > 0).all()
    mean = {"train": 72.9, "test": 73.1}[split]  # of the official 60,000 and 10,000: 72.94 and 73.15
    assert data.images[data.rows].mean() == pytest.approx(mean, abs=1.0)


def test_the_embedded_set_is_small_and_attributed() -> None:
    folder = EMBEDDED.parent
    assert (folder / "fashion_mini.npz").stat().st_size < 4 * 2**20
    assert "Zalando" in (folder / "FASHION_MNIST_LICENSE").read_text()


OFFICIAL = Path("/usr/share/datasets/fashion-mnist")


@pytest.mark.skipif(not OFFICIAL.is_dir(), reason="needs the Debian package dataset-fashion-mnist")
def test_the_script_makes_the_embedded_file_from_the_official_ones(tmp_path: Path) -> None:
    from scripts.make_fashion_mini import OUTPUT, main

    main(OFFICIAL, tmp_path / "again.npz")
    for split in ("train_", "test_"):
        a, b = read_npz(tmp_path / "again.npz", split), read_npz(OUTPUT, split)
        assert a.digest() == b.digest()


def test_copies_of_images_are_told_of_where_there_are_many() -> None:
    """Ten copies of each image would make every interval three times too narrow."""
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (200, 1, 3, 3), dtype=np.uint8), np.arange(200) % 4
    assert Dataset.of(images, labels).describe_copies() == ""
    some = images.copy()
    some[150:] = images[:50]
    assert (
        "50 of 200 images are exact copies of others, 50 of them with another label"
        in Dataset.of(some, (labels + (np.arange(200) >= 150)) % 4).describe_copies()
    )
    data = Dataset.of(np.repeat(images, 10, axis=0), np.repeat(labels, 10))
    assert "1800 of 2000 images are exact copies of others: intervals" in data.describe_copies()
    assert data.where(np.arange(2000) % 10 == 3).describe_copies() == ""
    few = images.copy()
    few[199] = few[0]
    assert Dataset.of(few, labels).describe_copies() == ""  # less than a hundredth
