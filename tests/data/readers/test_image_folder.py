"""Folders of image files: unbalanced and empty classes, damaged and grey images, memory that stays flat."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leastwise.data.loading import load
from leastwise.data.readers import image_folder as files
from leastwise.data.readers.image_folder import ImageFiles, examine_files

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


def swap(path: Path) -> None:
    """Other pixels in a file of the same size and date."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[-40:-20] = bytes(255 - value or 1 for value in content[-40:-20])
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def bitmaps(folder: Path) -> Path:
    for n in range(6):
        path = folder / f"{'ab'[n % 2]}/{n}.bmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(RNG.integers(0, 256, (16, 20, 3), dtype=np.uint8)).save(path)
    return folder


@pytest.mark.parametrize("believing", [False, True], ids=["dates are looked at", "dates say nothing"])
def test_an_image_swapped_with_the_same_size_and_date_is_noticed(
    believing: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = bitmaps(folder / "empty/bitmaps")
    if believing:  # a file system without numbers of files and times of change
        monkeypatch.setattr(files, "make_stamp", lambda path, folder: str(path.relative_to(folder)))
    first, opened = load(str(place)).digest(), load(str(place))
    assert opened.digest() == first
    swap(place / "b/3.bmp")
    assert opened.digest() != first  # a set that is open already, too
    again = load(str(place))
    assert again.digest() == opened.digest() and again.take(1).digest() == opened.take(1).digest()


def test_files_that_are_too_large_to_be_read_are_compared_by_dates_and_every_result_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = bitmaps(folder / "empty/bitmaps")
    first = load(str(place))
    assert first.part_notes == ()
    monkeypatch.setattr(files, "MOST_READ", 3000)
    told = first.part_notes
    assert (
        len(told) == 1 and told[0].startswith("6 image files have more than") and "compared by their names" in told[0]
    )
    assert first.take(1).part_notes == ()  # two of them are read
    before = first.digest()
    swap(place / "b/3.bmp")
    assert load(str(place)).digest() != before  # the place on the disk or the time of its change


def test_a_file_that_was_written_again_is_not_decoded_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(str(folder)).digest()
    copy = (folder / "zebra/1.jpg").read_bytes()
    (folder / "zebra/1.jpg").unlink()
    (folder / "zebra/1.jpg").write_bytes(copy)
    monkeypatch.setattr(Image, "open", lambda path: pytest.fail(f"{path} was decoded"))
    assert load(str(folder)).digest() == first


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
    found = examine_files([tmp_path / name for name in names], tmp_path, lambda done, total: None)
    assert all(one.fault for one in found)


def test_sixteen_bits_become_eight_and_thirty_two_are_left_out(folder: Path) -> None:
    levels = np.array([0, 128, 129, 257 * 77, 65535], np.uint16)
    deep = np.resize(levels, (16, 20))
    for name in ("deep.png", "deep.tif", "deep.pgm"):
        Image.fromarray(deep).save(folder / "empty" / name)
    Image.fromarray(np.zeros((16, 20), np.float32)).save(folder / "empty/float.tif")
    Image.fromarray(np.zeros((16, 20), np.int32)).save(folder / "empty/integer.tif")
    data = load(str(folder)).only(["empty"])
    assert len(data) == 3
    expected = np.broadcast_to(np.rint(deep / 257).astype(np.uint8), (3, 3, 16, 20))
    assert np.array_equal(data.images[data.rows], expected) and expected[0, 0, 0, :5].tolist() == [0, 0, 1, 77, 255]
    skipped, grey = data.notes
    assert "empty/float.tif (32-bit pixels: save it as 8-bit)" in skipped and "empty/integer.tif (32-bit" in skipped
    assert grey.startswith("4 greyscale images made into three equal channels: ant/3.jpg, empty/deep.pgm")


@pytest.mark.parametrize("held_out", ["test", "val", "validation", "valid", "dev"])
def test_names_of_splits(folder: Path, held_out: str) -> None:
    both = folder.parent / "both"
    both.mkdir()
    folder.rename(both / held_out)
    with pytest.raises(ValueError, match=f"holds {held_out}, but the split 'train' is wanted"):
        load(str(both), split="train")
    jpeg(both / "train/ant/0.jpg")
    assert load(str(both), split="test").names == ("ant", "empty", "zebra")
    assert load(str(both), split="train").names == ("ant",)


def test_classes_called_like_splits(folder: Path) -> None:
    for n, name in enumerate(("train", "truck", "car")):
        jpeg(folder.parent / f"vehicles/{name}/{n}.jpg")
    for split in ("train", "test"):
        assert load(str(folder.parent / "vehicles"), split=split).names == ("car", "train", "truck")
    jpeg(folder.parent / "vehicles/train/steam/9.jpg")  # sub-folders of a class
    assert load(str(folder.parent / "vehicles"), split="train").counts.tolist() == [1, 2, 1]
    jpeg(folder.parent / "no-classes/train/0.jpg")
    jpeg(folder.parent / "no-classes/test/0.jpg")
    with pytest.raises(ValueError, match="holds no class folders, but the split 'test' is wanted"):
        load(str(folder.parent / "no-classes"))


def test_the_first_of_several_held_out_folders(folder: Path) -> None:
    for n, name in enumerate(("valid", "test", "train")):
        for m in range(n + 1):
            jpeg(folder.parent / f"three/{name}/ant/{m}.jpg")
    assert [len(load(str(folder.parent / "three"), split)) for split in ("test", "valid", "val", "train")] == [
        2,
        1,
        2,
        3,
    ]


def test_linked_folders_are_followed_once(folder: Path) -> None:
    jpeg(folder.parent / "elsewhere/b.jpg")
    jpeg(folder.parent / "elsewhere/a/z.jpg")
    (folder / "empty/link").symlink_to(folder.parent / "elsewhere")
    (folder.parent / "elsewhere/back").symlink_to(folder.parent / "elsewhere")  # a cycle
    (folder / "empty/up").symlink_to(folder)  # all classes
    data = load(str(folder))
    assert data.counts.tolist() == [4, 2, 3]
    rows = data.only(["empty"]).rows
    assert isinstance(data.images, ImageFiles)
    listed = [data.images.paths[row].relative_to(folder).as_posix() for row in rows]
    assert listed == ["empty/link/a/z.jpg", "empty/link/b.jpg"]


def test_files_that_cannot_be_opened_are_faults_and_tried_again(folder: Path) -> None:
    (folder / "empty/0.jpg").symlink_to(folder.parent / "later.jpg")
    data = load(str(folder))
    assert data.counts.tolist() == [4, 0, 3] and "empty/0.jpg (No such file or directory)" in data.notes[0]
    jpeg(folder.parent / "later.jpg")
    assert load(str(folder)).counts.tolist() == [4, 1, 3]


def test_a_file_without_permission_is_a_fault(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The administrator may read everything, so the refusal is played."""
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "2.jpg":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        data = load(str(folder))
        assert data.counts.tolist() == [3, 0, 2] and "ant/2.jpg (Permission denied)" in data.notes[0]
    assert load(str(folder)).counts.tolist() == [4, 0, 3]  # a new permission changes neither size nor date


def test_without_a_cache_the_folder_is_read_all_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "file"))  # nothing can be written into a file
    assert len(load(str(folder))) == 7
    assert len(load(str(folder))) == 7


@pytest.mark.parametrize("content", ["[1]", '{"a": 3}', '{"a": [1, 2]}', "\xff"])
def test_a_memory_of_another_form_is_made_anew(folder: Path, content: str) -> None:
    load(str(folder))
    (memory,) = (folder.parent / "cache/leastwise/examined").iterdir()
    memory.write_text(content, "latin-1")
    assert len(load(str(folder))) == 7


def test_names_that_are_not_unicode(folder: Path) -> None:
    try:
        (folder / os.fsdecode(b"b\xe4r")).mkdir()
    except OSError:
        pytest.skip("this file system has only Unicode names")
    jpeg(folder / os.fsdecode(b"b\xe4r") / os.fsdecode(b"\xff.jpg"))
    (folder / os.fsdecode(b"b\xe4r") / os.fsdecode(b"\xfe.jpg")).write_bytes(b"no image")
    seen: list[int] = []
    for _ in range(2):
        data = load(str(folder), watch=lambda done, total: seen.append(done))
        assert data.names == ("ant", "b\\udce4r", "empty", "zebra") and data.counts.tolist() == [4, 1, 0, 3]
        assert "b\\udce4r/\\udcfe.jpg" in data.notes[0]
        data.digest()
    assert seen == list(range(1, 11))  # remembered the second time


def test_an_interrupted_examination_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 2)
    seen: list[tuple[int, int]] = []

    def interrupt(done: int, total: int) -> None:
        seen.append((done, total))
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(str(folder), watch=interrupt)
    assert seen == [(n, 8) for n in range(1, 6)]
    seen.clear()
    assert len(load(str(folder), watch=lambda *progress: seen.append(progress))) == 7
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_memory_is_written_on_the_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 1)
    monkeypatch.setattr(files, "REMEMBERED", 3)
    sizes: list[int] = []
    monkeypatch.setattr(files, "remember", lambda memory, known, stamps: sizes.append(len(known)))
    load(str(folder))
    assert sizes == [3, 6, 8]


def test_large_and_transparent_images_without_warnings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every warning is an error in these tests."""
    palette = Image.new("P", (20, 16), 1)
    palette.putpalette([0, 0, 0, 10, 200, 30])
    palette.save(folder / "empty/palette.png", transparency=bytes((0, 128)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 400)
    jpeg(folder / "empty/large.jpg", (25, 20))  # 500 pixels: Pillow warns, and refuses from 801 on
    data = load(str(folder))
    assert data.counts.tolist() == [4, 1, 3] and "empty/large.jpg (25x20 pixels are too many" in data.notes[0]
    rows = data.only(["empty"]).rows
    assert data.images[rows][0, :, 3, 4].tolist() == [10, 200, 30]


@pytest.mark.parametrize(("spec", "complaint"), [("", "is empty"), (" ", "is empty")])
def test_an_empty_name_is_not_this_folder(spec: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        load(spec)


def test_sizes_beyond_reason(folder: Path) -> None:
    for size in ("1000000", "4097", "9" * 50):
        with pytest.raises(ValueError, match="4096 pixels at most"):
            load(f"{folder}@{size}")
    assert load(f"{folder}@4096").shape == (3, 4096, 4096)


MEMORY = """
import sys, numpy as np, torch
from leastwise.attacks import Clean
from leastwise.jobs import audit
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
evidence = audit(Mean(), data, (("clean", Clean()),), batch_size=50, listen=watch, force=True)  # black images
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


@pytest.mark.slow
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


def test_what_a_reader_cannot_guess_is_said(tmp_path: Path) -> None:
    """Numbers in the order of their letters, transparency, copies, and what an archive of a Mac holds besides."""
    for c in range(12):
        (tmp_path / str(c)).mkdir()
        for number in range(5):
            Image.new("RGBA" if c == 3 else "RGB", (4, 4), (c, 7, 9)).save(tmp_path / str(c) / f"{number}.png")
    (tmp_path / "__MACOSX" / "0").mkdir(parents=True)
    (tmp_path / "11" / "0.png").write_bytes(b"no image")
    data = load(str(tmp_path))
    assert data.names == ("0", "1", "10", "11", *"23456789")
    skipped, clear, order = data.notes
    assert "transparency of 5 images was left out" in clear and "class 2 is 10" in order
    assert data.part_notes == (skipped,)  # every result repeats it
    assert "47 of 59 images are exact copies of others: " in data.describe_copies()
    for c in range(10):
        (tmp_path / str(c)).rename(tmp_path / f"0{c}")
    assert not any("numbers" in note for note in load(str(tmp_path)).notes)
