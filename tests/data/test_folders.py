"""Folders of image files: unbalanced and empty classes, damaged and grey images, memory that stays flat."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leastwise.data import load
from leastwise.data.files import examine

RNG = np.random.default_rng(1)


def jpeg(path: Path, size: tuple[int, int] = (20, 16), grey: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = size[::-1] if grey else (*size[::-1], 3)
    Image.fromarray(RNG.integers(0, 256, shape, dtype=np.uint8)).save(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three classes of 3, 0 and 5 files; in the last one a JPEG that is cut off and a grey one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = tmp_path / "photos"
    for n in range(3):
        jpeg(place / f"zebra/{n}.jpg")
    (place / "empty").mkdir()
    for n in range(5):
        jpeg(place / f"ant/{n}.jpg", grey=n == 3)
    cut = place / "ant/1.jpg"
    cut.write_bytes(cut.read_bytes()[:-300])
    (place / "ant/notes.txt").write_text("not an image")
    return place


def test_an_untidy_folder_is_read_and_says_what_it_left_out(folder: Path) -> None:
    data = load(str(folder))
    assert data.names == ("ant", "empty", "zebra")
    assert data.counts.tolist() == [4, 0, 3] and data.labels.tolist() == [0, 0, 0, 0, 2, 2, 2]
    assert data.ids.tolist() == [0, 2, 3, 4, 5, 6, 7]  # a damaged file does not renumber the others
    assert data.shape == (3, 16, 20)
    skipped, empty, grey = data.notes
    assert skipped.lower().startswith("skipped 1 file that cannot be read: ant/1.jpg (truncated file read")
    assert empty == "1 class without images: empty"
    assert grey == "1 greyscale image made into three equal channels: ant/3.jpg"
    channels = data.images[np.array([2])][0]
    assert np.array_equal(channels[0], channels[1]) and np.array_equal(channels[0], channels[2])


def test_pixels_are_pils(folder: Path) -> None:
    data = load(str(folder))
    expected = np.asarray(Image.open(folder / "zebra/0.jpg")).transpose(2, 0, 1)
    assert np.array_equal(data.images[np.array([4])][0], expected)


def test_different_sizes_need_a_size(folder: Path) -> None:
    jpeg(folder / "zebra/large.jpg", (64, 48))
    with pytest.raises(ValueError, match=r"2 sizes, 20x16 to 64x48: say which square to cut out"):
        load(str(folder))
    data = load(f"{folder}@12")
    assert data.shape == (3, 12, 12) and len(data) == 8
    assert data.digest() != load(f"{folder}@10").digest()  # the size is part of what the pixels are


def test_a_folder_is_examined_once_and_changes_are_noticed(folder: Path) -> None:
    seen: list[int] = []
    load(str(folder), watch=lambda done, total: seen.append(total))
    assert seen == [8] * 8
    seen.clear()
    first = load(str(folder), watch=lambda done, total: seen.append(total)).digest()
    assert seen == []
    jpeg(folder / "zebra/1.jpg")
    assert load(str(folder), watch=lambda done, total: seen.append(total)).digest() != first
    assert seen == [1]


def test_a_damaged_memory_of_the_examination_is_made_anew(folder: Path, tmp_path: Path) -> None:
    load(str(folder))
    (memory,) = (tmp_path / "cache/leastwise/examined").iterdir()
    memory.write_text("{")
    assert len(load(str(folder))) == 7
    assert len(json.loads(memory.read_text())) == 8


def test_split_folders(folder: Path) -> None:
    (folder.parent / "both").mkdir()
    folder.rename(folder.parent / "both/val")
    jpeg(folder.parent / "both/train/ant/0.jpg")
    jpeg(folder.parent / "both/train/zebra/0.jpg")
    assert len(load(str(folder.parent / "both"), split="test")) == 7
    assert len(load(str(folder.parent / "both"), split="train")) == 2


def test_folders_without_images_or_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = tmp_path / "photos"
    place.mkdir()
    with pytest.raises(ValueError, match="has no sub-folders"):
        load(str(place))
    (place / "a").mkdir()
    with pytest.raises(ValueError, match="holds no images"):
        load(str(place))
    (place / "a/x.jpg").write_bytes(b"\xff\xd8 not really")
    with pytest.raises(ValueError, match="none of the 1 images"):
        load(str(place))


def test_files_of_other_kinds_are_faults_not_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names = {"empty.png": b"", "text.png": b"hello", "half.gif": b"GIF89a\x01", "page.webp": b"<html></html>"}
    for name, content in names.items():
        (tmp_path / name).write_bytes(content)
    found = examine([tmp_path / name for name in names], tmp_path, lambda done, total: None)
    assert all(one.fault for one in found)


MEMORY = """
import sys, numpy as np, torch
from leastwise.attacks import Clean
from leastwise.audit import audit
from leastwise.data import load
from torch import nn

class Mean(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))

def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))

peak = 0
def watch(event):
    global peak
    peak = max(peak, anonymous())

data = load(sys.argv[1])
evidence = audit(Mean(), data, (("clean", Clean()),), batch_size=50, watch=watch, force=True)  # black images
print(len(evidence.ids), peak)
"""


def anonymous_memory(folder: Path, n: int) -> int:
    """Peak anonymous memory, in MB, of auditing n images of 224 x 224; the file has holes, so it costs no disk."""
    if not Path("/proc/self/status").exists():
        pytest.skip("anonymous memory is read from /proc")
    path = folder / f"images{n}" / "images.npy"
    path.parent.mkdir()
    np.lib.format.open_memmap(path, "w+", np.uint8, (n, 3, 224, 224)).flush()
    np.save(path.with_name("labels.npy"), np.arange(n) % 3)
    done = subprocess.run([sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, check=True)
    count, peak = map(int, done.stdout.split())
    assert count == n
    return peak // 1024


@pytest.mark.medium
def test_memory_does_not_grow_with_the_number_of_images(tmp_path: Path) -> None:
    """2,000 more images are 300 MB of pixels, and would be 1,200 MB as floats."""
    few, many = (anonymous_memory(tmp_path, n) for n in (500, 2500))
    assert many < few + 200, (few, many)  # the allocator alone wobbles by 100


@pytest.mark.slow
def test_a_hundred_thousand_images_of_224(tmp_path: Path) -> None:
    """15 GB of pixels."""
    few, many = (anonymous_memory(tmp_path, n) for n in (500, 100_000))
    print(f"peak anonymous memory: {few} MB for 500 images, {many} MB for 100,000")
    assert many < few + 200, (few, many)
