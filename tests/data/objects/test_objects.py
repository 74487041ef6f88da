"""`lw.data`: every kind of object gives the pixels, labels, names and ids that were put into it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, Subset, TensorDataset, WeightedRandomSampler
from torch.utils.data import Dataset as TorchDataset

import leastwise as lw
from leastwise.data.dataset import Dataset
from leastwise.data.objects.pixels import PixelReader
from leastwise.data.objects.spool import Spool, SpooledImages

NAMES = ("ant", "bee", "cow")
N, SHAPE = 11, (3, 6, 5)
IMAGES = np.random.default_rng(0).integers(0, 256, (N, *SHAPE), dtype=np.uint8)
LABELS = np.array([0, 2, 1, 2, 2, 0, 1, 2, 0, 0, 2])
KNOWN = Dataset.of(IMAGES, LABELS, NAMES)
FLOATS = torch.from_numpy(IMAGES).float() / 255
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMALISED = (FLOATS - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


class Items(TorchDataset[Any]):
    """A data set of pairs, as torchvision's are."""

    classes: ClassVar = list(NAMES)

    def __init__(self, images: Any = FLOATS, labels: Any = None) -> None:
        self.images, self.labels = images, LABELS.tolist() if labels is None else labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Any:
        return self.images[index], self.labels[index]


class Stream(IterableDataset[Any]):
    classes = NAMES

    def __iter__(self) -> Iterator[Any]:
        return iter(zip(FLOATS, LABELS, strict=True))


def pillow() -> list[Image.Image]:
    return [Image.fromarray(image.transpose(1, 2, 0)) for image in IMAGES]


def last(items: list[Any]) -> tuple[torch.Tensor, torch.Tensor, str]:
    """A collate function of a user, with a third part."""
    return torch.stack([x for x, _ in items]), torch.tensor([y for _, y in items]), "more"


def two_epochs_of_nothing(loader: Any) -> Any:
    list(loader)
    return loader


WAYS: dict[str, Any] = {
    "uint8 arrays": lambda: lw.data((IMAGES, LABELS), names=NAMES),
    "uint8 tensors": lambda: lw.data((torch.from_numpy(IMAGES), torch.from_numpy(LABELS)), names=NAMES),
    "a list of two": lambda: lw.data([IMAGES, LABELS], names=NAMES),
    "channels last": lambda: lw.data((IMAGES.transpose(0, 2, 3, 1), LABELS), names=NAMES),
    "floats, channels last": lambda: lw.data((IMAGES.transpose(0, 2, 3, 1) / 255, LABELS), names=NAMES),
    "floats": lambda: lw.data((FLOATS, LABELS), names=NAMES),
    "halves": lambda: lw.data((FLOATS.bfloat16().float(), LABELS), names=NAMES) and KNOWN,  # converted, but not exact
    "int64": lambda: lw.data((IMAGES.astype(np.int64), LABELS.astype(np.int16)), names=NAMES),
    "normalised": lambda: lw.data((NORMALISED, LABELS), names=NAMES, mean=MEAN, std=STD),
    "words": lambda: lw.data((IMAGES, [NAMES[y] for y in LABELS])),
    "words in an array": lambda: lw.data((IMAGES, np.array(NAMES)[LABELS])),
    "Pillow images": lambda: lw.data((pillow(), LABELS), names=NAMES),
    "a dictionary": lambda: lw.data({"images": IMAGES, "labels": LABELS}, names=NAMES),
    "a data set": lambda: lw.data(Items()),
    "a data set of Pillow images": lambda: lw.data(Items(pillow())),
    "a data set with labels of one number": lambda: lw.data(Items(labels=list(torch.from_numpy(LABELS)))),
    "a data set of normalised images": lambda: lw.data(Items(NORMALISED), mean=MEAN, std=STD),
    "a TensorDataset": lambda: lw.data(TensorDataset(FLOATS, torch.from_numpy(LABELS)), names=NAMES),
    "a list of pairs": lambda: lw.data(list(zip(FLOATS, LABELS, strict=True)), names=NAMES),
    "a list of batches": lambda: lw.data(list(DataLoader(Items(), 4)), names=NAMES),
    "a stream": lambda: lw.data(Stream()),
    "a generator": lambda: lw.data(zip(FLOATS, LABELS, strict=True), names=NAMES),
    "a generator of batches": lambda: lw.data(iter(DataLoader(Items(), 4)), names=NAMES),
    "a loader": lambda: lw.data(DataLoader(Items(), 4)),
    "a loader that was used": lambda: lw.data(two_epochs_of_nothing(DataLoader(Items(), 4))),
    "a loader without batches": lambda: lw.data(DataLoader(Items(), None)),
    "a loader that shuffles": lambda: lw.data(DataLoader(Items(), 4, shuffle=True)),
    "a loader that drops": lambda: lw.data(DataLoader(Items(), 4, shuffle=True, drop_last=True)),
    "a loader with a function of its own": lambda: lw.data(DataLoader(Items(), 4, collate_fn=last)),
    "a loader of a stream": lambda: lw.data(DataLoader(Stream(), 4)),
    "a loader of a stream that drops": lambda: lw.data(DataLoader(Stream(), 4, drop_last=True)),
    "joined data sets": lambda: lw.data(ConcatDataset([Subset(Items(), range(4)), Subset(Items(), range(4, N))])),
    "a data set of ours": lambda: lw.data(KNOWN),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same_data_set(way: str) -> None:
    found = WAYS[way]()
    assert found.names == NAMES and found.digest() == KNOWN.digest()


def test_a_subset_keeps_the_ids_of_the_whole() -> None:
    chosen = [7, 2, 9, 4]
    inner = Subset(Subset(Items(), [10, *chosen]), [1, 2, 3, 4])
    for given in (inner, DataLoader(inner, 3, shuffle=True)):
        found = lw.data(given)
        assert found.ids.tolist() == chosen and found.labels.tolist() == LABELS[chosen].tolist()


def test_a_sampler_that_chooses_gives_its_images_in_the_order_of_the_data_set() -> None:
    found = lw.data(DataLoader(Items(), 2, sampler=[9, 3, 4]))
    assert found.ids.tolist() == [3, 4, 9] and "3 of the 11 images" in found.notes[0]


def test_what_drop_last_would_leave_out_is_read_and_said() -> None:
    assert "drop_last=True" in lw.data(DataLoader(Items(), 4, drop_last=True)).notes[0]
    assert lw.data(DataLoader(Items(), N, drop_last=True)).notes == ()


def test_grey_images_have_one_channel_however_they_came() -> None:
    grey = IMAGES[:, 0]
    known = lw.data((grey, LABELS), names=NAMES)
    assert known.shape == (1, 6, 5)
    for given in ((grey[:, None], LABELS), (grey[..., None], LABELS), ([Image.fromarray(one) for one in grey], LABELS)):
        assert lw.data(given, names=NAMES).digest() == known.digest()


def test_reading_does_not_touch_the_random_numbers_of_the_user() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    lw.data(DataLoader(Items(), 4, shuffle=True))
    assert torch.equal(torch.rand(3), expected)


class Noisy(Items):
    def __getitem__(self, index: int) -> Any:
        return self.images[index].flip(2) if torch.rand(()) < 0.5 else self.images[index], self.labels[index]


def test_images_that_are_others_the_next_time_are_refused_or_kept_as_they_came() -> None:
    with pytest.raises(ValueError, match=r"of 11 images were others when they were read again.*random=True"):
        lw.data(Noisy())
    found = lw.data(Noisy(), random=True)
    assert "each is kept as it came first" in found.notes[0]
    assert found.digest() == found.digest()


def test_pixels_between_the_256_steps_are_rounded_and_that_is_said() -> None:
    found = lw.data((FLOATS * 0.999, LABELS), names=NAMES)
    assert "rounded to 8 bits" in found.notes[0] and "at most" in found.notes[0]
    assert np.abs(found.images[found.rows].astype(int) - IMAGES).max() == 0


def test_images_beyond_the_limit_lie_in_a_file_that_nobody_sees(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spool = Spool(most=200)
    for start in range(0, N, 2):
        spool.add(IMAGES[start : start + 2])
    rows = spool.finish()
    assert isinstance(rows, SpooledImages) and isinstance(rows.array, np.memmap)
    assert np.array_equal(rows[np.array([10, 3])], IMAGES[[10, 3]])
    assert list((tmp_path / "leastwise" / "spool").iterdir()) == []


REFUSED: dict[str, tuple[Any, str]] = {
    "normalised": ((NORMALISED, LABELS), r"they seem to be normalised, which mean=\(0.485.*\(ImageNet's\) undoes"),
    "normalised otherwise": ((FLOATS * 3 - 1.1, LABELS), r"give the mean= and std= that they were normalised with"),
    "floats to 255": ((FLOATS * 255, LABELS), r"divide them by 255"),
    "NaN": ((FLOATS * torch.nan, LABELS), r"NaN or infinite"),
    "16 bits": ((IMAGES.astype(np.int32) * 257, LABELS), r"integer pixels must lie in 0 … 255"),
    "bools": ((IMAGES > 9, LABELS), r"have type bool"),
    "one-hot labels": ((IMAGES, np.eye(3)[LABELS]), r"for one-hot labels give their argmax"),
    "soft labels of items": (Items(labels=list(torch.eye(3)[LABELS])), r"for one-hot labels give their argmax"),
    "float labels": ((IMAGES, LABELS.astype(float)), r"a whole number from 0"),
    "too few labels": ((IMAGES, LABELS[:5]), r"saw 11 images and 5 labels"),
    "images of two sizes": ([(FLOATS[0], 0), (FLOATS[0, :, :3], 1)], r"image 1 is 3x3x5, but the first is 3x6x5"),
    "no labels": ([FLOATS[0], FLOATS[1], FLOATS[2]], r"return \(image, label\)"),
    "keys that say nothing": ([{"a": 1, "b": 2}], r"no image is among a, b"),
    "an empty data set": (Items(labels=[]), r"at least one image"),
    "a loader that draws": (
        DataLoader(Items(), 4, sampler=WeightedRandomSampler([1.0] * N, 40)),
        r"several times \(WeightedRandomSampler\).*loader.dataset",
    ),
    "grey first": (([pillow()[0].convert("L"), pillow()[1]], [0, 1]), r'convert\("RGB"\)'),
    "a number": (3, r"cannot tell images and labels from int"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_mistake_is_refused_in_one_sentence_with_the_fix(what: str) -> None:
    given, words = REFUSED[what]
    with pytest.raises(ValueError, match=words) as error:
        lw.data(given)
    assert "\n" not in str(error.value)


def test_a_wrong_normalisation_and_an_unknown_label_are_refused() -> None:
    with pytest.raises(ValueError, match="not the ones these pixels were normalised with"):
        lw.data((NORMALISED * 2, LABELS), mean=MEAN, std=STD)
    with pytest.raises(ValueError, match="the label 'ants' is none of the names: did you mean ant"):
        lw.data((IMAGES, ["ants"] * N), names=NAMES)
    with pytest.raises(ValueError, match="mean means nothing for a file or a known data set"):
        lw.data("fashion-mini", mean=(0.5,), std=(0.5,))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    found = [tmp_path / f"{number}.png" for number in range(N)]
    for image, path in zip(pillow(), found, strict=True):
        image.save(path)
    return found


def test_a_frame_of_paths_and_labels_is_read_as_it_stands(files: list[Path]) -> None:
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    words = [NAMES[y] for y in LABELS]
    absolute = pandas.DataFrame({"path": [str(file) for file in files], "label": words})
    relative = pandas.DataFrame({"file": [file.name for file in files], "kind": LABELS})
    categories = absolute.assign(label=pandas.Categorical(words, NAMES))
    root = files[0].parent
    found = [
        lw.data(absolute),
        lw.data(relative, root=root, columns=("file", "kind"), names=NAMES),
        lw.data(categories),
        lw.data(pyarrow.table({"image": [str(file) for file in files], "class": words})),
    ]
    for one in found:
        pixels = one.images[one.rows]
        assert np.array_equal(pixels, IMAGES) and one.names == NAMES and one.labels.tolist() == LABELS.tolist()
    with pytest.raises(ValueError, match=r"give the folder that paths begin in as root="):
        lw.data(relative, columns=("file", "kind"))
    with pytest.raises(ValueError, match=r"no column of labels is among file, kind: call it"):
        lw.data(relative)


def test_a_data_set_of_hugging_face_is_read_as_it_says_itself() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"img": datasets.Image(), "fine": datasets.ClassLabel(names=list(NAMES))})
    made = datasets.Dataset.from_dict({"img": pillow(), "fine": LABELS.tolist()}, features=features)
    for given in (made, datasets.DatasetDict({"test": made}), made.to_iterable_dataset(), made.with_format("torch")):
        assert lw.data(given).digest() == KNOWN.digest()

    def prepare(rows: dict[str, Any]) -> dict[str, Any]:
        return {
            "pixel_values": [1 - np.asarray(one).transpose(2, 0, 1) / 255 for one in rows["img"]],
            "y": rows["fine"],
        }

    changed = lw.data(made.with_transform(prepare), names=NAMES)
    assert np.array_equal(changed.images[changed.rows], 255 - IMAGES) and np.array_equal(changed.labels, LABELS)
    with pytest.raises(ValueError, match="no split 'test': choose train"):
        lw.data(datasets.DatasetDict({"train": made}))
    with pytest.raises(ValueError, match="needs one column of class labels"):
        lw.data(made.remove_columns("fine"))


def test_the_reader_of_pixels_needs_mean_and_std_together() -> None:
    with pytest.raises(ValueError, match="the same number of channels"):
        PixelReader(mean=(0.5,))


MEMORY = """
import sys, threading, time, numpy as np, torch, leastwise as lw

def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))

def stream(n):
    rng = np.random.default_rng(0)
    for i in range(n):
        yield torch.from_numpy(rng.integers(0, 256, (3, 32, 32), dtype=np.uint8)).float() / 255, i % 10

lw.data(stream(100))
before, peak, done = anonymous(), 0, False
def look():
    global peak
    while not done:
        peak = max(peak, anonymous())
        time.sleep(0.005)
thread = threading.Thread(target=look); thread.start()
data = lw.data(stream(int(sys.argv[1])))
found = lw.audit(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10)), data, "clean", force=True,
                 progress=False) if hasattr(lw, "audit") else data.digest()
done = True; thread.join()
print(peak - before)
"""


@pytest.mark.slow
def test_a_stream_of_fifty_thousand_images_takes_the_memory_of_twenty_five_thousand() -> None:
    """Both lie in files; an audit included."""
    if not Path("/proc/self/status").exists():
        pytest.skip("anonymous memory is read from /proc")
    few, many = (
        int(subprocess.run([sys.executable, "-c", MEMORY, str(n)], capture_output=True, text=True, check=True).stdout)
        for n in (25_000, 50_000)
    )
    print(f"growth of anonymous memory: {few / 1024:.0f} MB for 25,000 images, {many / 1024:.0f} MB for 50,000")
    assert many < 1.1 * few + 8_000, (few, many)
