"""Tiny files in each official format, written here and read back; damaged, renamed and hostile ones are refused."""

import contextlib
import gzip
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import loadmat, savemat

from leastwise.data.classes import (
    CIFAR10,
    CIFAR10_GROUPS,
    CIFAR100,
    CIFAR100_GROUPS,
    DIGITS,
    STL10,
    STL10_GROUPS,
    read_groups,
)
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.data.readers.arrays import ChannelsLast, read_member, read_npy, read_npz, save_npz
from leastwise.data.readers.cifar import read_cifar10, read_cifar10_c, read_cifar100
from leastwise.data.readers.huggingface import read_huggingface
from leastwise.data.readers.imagenet import read_imagenet, read_tiny_imagenet
from leastwise.data.readers.mnist import read_idx, read_idx_set
from leastwise.data.readers.safe_pickle import read_plain_pickle
from leastwise.data.readers.stl10 import read_stl10
from leastwise.data.readers.svhn import read_mat, read_svhn

RNG = np.random.default_rng(0)

# methods.md §0.1, written out once more: the coarse class of each fine class.
FINE_TO_COARSE = [
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7, 6, 13, 15, 3, 15),
    *(0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17),
    *(10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19),
    *(18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
]


def pixels(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def all_pixels(data: Dataset) -> np.ndarray:
    return np.asarray(data.images[data.rows])


# idx


def write_idx(path: Path, array: np.ndarray) -> None:
    head = bytes((0, 0, 8, array.ndim)) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    content = head + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_reads_back(tmp_path: Path, suffix: str) -> None:
    images, labels = pixels(7, 28, 28), np.array([3, 1, 4, 1, 5, 9, 2], np.uint8)
    write_idx(tmp_path / f"t10k-images-idx3-ubyte{suffix}", images)
    write_idx(tmp_path / f"t10k-labels-idx1-ubyte{suffix}", labels)
    data = read_idx_set(tmp_path, "test", DIGITS)
    assert np.array_equal(all_pixels(data)[:, 0], images)
    assert data.labels.tolist() == labels.tolist() and data.names == DIGITS


def test_idx_refuses_what_is_cut_off_or_something_else(tmp_path: Path) -> None:
    path = tmp_path / "t10k-images-idx3-ubyte"
    write_idx(path, pixels(5, 28, 28))
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(ValueError, match=r"cut off .* 3,920 values .* but 3,820 bytes follow"):
        read_idx(path)
    path.write_bytes(b"<html>no such page</html>")
    with pytest.raises(ValueError, match="is not an idx file of bytes"):
        read_idx(path)
    zipped = tmp_path / "t10k-images-idx3-ubyte.gz"
    zipped.write_bytes(gzip.compress(whole)[:-20])
    with pytest.raises(ValueError, match="cannot be unpacked"):
        read_idx(zipped)
    zipped.write_bytes(whole)  # a plain file renamed
    with pytest.raises(ValueError, match="cannot be unpacked"):
        read_idx(zipped)


# CIFAR


def test_cifar10_binary_reads_back(tmp_path: Path) -> None:
    images, labels = pixels(10, 3, 32, 32), np.arange(10, dtype=np.uint8)
    records = np.concatenate([labels[:, None], images.reshape(10, -1)], axis=1)
    for batch in range(5):
        (tmp_path / f"data_batch_{batch + 1}.bin").write_bytes(records[2 * batch : 2 * batch + 2].tobytes())
    (tmp_path / "test_batch.bin").write_bytes(records.tobytes())
    for split in ("train", "test"):
        data = read_cifar10(tmp_path, split)
        assert np.array_equal(all_pixels(data), images) and data.labels.tolist() == labels.tolist()
        assert data.names == CIFAR10 and data.groups == CIFAR10_GROUPS


def write_python(path: Path, images: np.ndarray, **labels: list[int]) -> None:
    content: dict[bytes, object] = {b"data": images.reshape(len(images), -1), b"batch_label": b"a batch"}
    path.write_bytes(pickle.dumps(content | {key.encode(): value for key, value in labels.items()}, protocol=2))


def test_cifar_python_archives_read_back(tmp_path: Path) -> None:
    images = pixels(4, 3, 32, 32)
    write_python(tmp_path / "test_batch", images, labels=[3, 8, 8, 0])
    data = read_cifar10(tmp_path, "test")
    assert np.array_equal(all_pixels(data), images) and data.labels.tolist() == [3, 8, 8, 0]
    write_python(tmp_path / "test", images, fine_labels=[49, 33, 72, 51], coarse_labels=[10, 10, 0, 4])
    data = read_cifar100(tmp_path, "test")
    assert np.array_equal(all_pixels(data), images) and data.labels.tolist() == [49, 33, 72, 51]
    assert data.names == CIFAR100 and data.groups == CIFAR100_GROUPS


def test_cifar_python_as_python_2_wrote_it(tmp_path: Path) -> None:
    """The official files name numpy's functions as they were called in 2009."""
    content = pickle.dumps({b"data": pixels(2, 3072), b"labels": [1, 2]}, protocol=2)
    assert b"numpy._core.multiarray" in content or b"numpy.core.multiarray" in content
    (tmp_path / "test_batch").write_bytes(content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert read_cifar10(tmp_path, "test").labels.tolist() == [1, 2]


def test_cifar100_binary_reads_back(tmp_path: Path) -> None:
    images, fine = pixels(3, 3, 32, 32), np.array([49, 33, 72], np.uint8)
    coarse = np.array([FINE_TO_COARSE[c] for c in fine], np.uint8)
    records = np.concatenate([coarse[:, None], fine[:, None], images.reshape(3, -1)], axis=1)
    (tmp_path / "test.bin").write_bytes(records.tobytes())
    data = read_cifar100(tmp_path, "test")
    assert np.array_equal(all_pixels(data), images) and data.labels.tolist() == [49, 33, 72]
    records[1, 0] = 3  # class 33 belongs to superclass 10
    (tmp_path / "test.bin").write_bytes(records.tobytes())
    with pytest.raises(ValueError, match="class 33 with the superclass 3, but CIFAR-100 has it in 10"):
        read_cifar100(tmp_path, "test")


def test_wrong_superclasses_in_other_forms_of_cifar100(tmp_path: Path) -> None:
    images, fine, coarse = pixels(3, 3, 32, 32), [49, 33, 33], [10, 10, 9]
    write_python(tmp_path / "test", images, fine_labels=fine, coarse_labels=coarse)
    with pytest.raises(ValueError, match="class 33 with the superclass 9"):
        read_cifar100(tmp_path, "test")
    write_python(tmp_path / "test", images, fine_labels=fine)  # told nothing, checked nothing
    assert read_cifar100(tmp_path, "test").labels.tolist() == fine
    (tmp_path / "test").unlink()
    named = {"fine_names": list(CIFAR100), "coarse_names": [name for name, _ in CIFAR100_GROUPS]}
    for second in (10, 9):
        np.savez(tmp_path / "test.npz", images=images, fine_labels=fine, coarse_labels=[10, second, second], **named)
        if second == 10:
            assert dict(read_cifar100(tmp_path, "test").groups)["large natural outdoor scenes"] == (33, 49)
        else:
            with pytest.raises(ValueError, match="class 33 with the superclass 9"):
                read_cifar100(tmp_path, "test")


def test_cifar10_sheets_read_back(tmp_path: Path) -> None:
    images = pixels(6, 3, 32, 32)
    Image.fromarray(images.transpose(0, 2, 3, 1).reshape(6, 1024, 3)).save(tmp_path / "test_batch.png")
    (tmp_path / "test_lables.json").write_text(json.dumps([3, 8, 8, 0, 6, 6]))
    data = read_cifar10(tmp_path, "test")
    assert np.array_equal(all_pixels(data), images) and data.labels.tolist() == [3, 8, 8, 0, 6, 6]


def test_cut_off_cifar_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(bytes(3073 + 100))
    with pytest.raises(ValueError, match="not whole records of 3,073"):
        read_cifar10(tmp_path, "test")
    (tmp_path / "test_batch.bin").unlink()
    write_python(tmp_path / "test_batch", pixels(4, 3, 32, 32), labels=[0, 1, 2, 3])
    (tmp_path / "test_batch").write_bytes((tmp_path / "test_batch").read_bytes()[:-2000])
    with pytest.raises(ValueError, match="not a plain pickle of arrays"):
        read_cifar10(tmp_path, "test")
    write_python(tmp_path / "test_batch", pixels(4, 3, 32, 32), labels=[0, 1, 2])
    with pytest.raises(ValueError, match="one integer in labels per image"):
        read_cifar10(tmp_path, "test")
    (tmp_path / "test_batch").unlink()
    Image.fromarray(pixels(6, 1024, 3)).save(tmp_path / "test_batch.png")
    whole = (tmp_path / "test_batch.png").read_bytes()
    (tmp_path / "test_batch.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises((ValueError, OSError)):
        read_cifar10(tmp_path, "test")


class Payload:
    """Unpickling it with Python's own loader would create the file."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.made),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    made = tmp_path / "owned"
    hostile = {b"data": Payload(made), b"labels": [1]}
    (tmp_path / "test_batch").write_bytes(pickle.dumps(hostile, protocol=protocol))
    with pytest.raises(ValueError, match=r"asks for posix\.mkdir, which is code.*nothing in it was run"):
        read_cifar10(tmp_path, "test")
    assert not made.exists()
    pickle.loads((tmp_path / "test_batch").read_bytes())  # the payload is real
    assert made.exists()


@pytest.mark.parametrize(
    "name", ["builtins eval", "builtins getattr", "numpy.testing runstring", "numpy load", "os system"]
)
def test_no_other_function_can_be_named(tmp_path: Path, name: str) -> None:
    module, function = name.split()
    (tmp_path / "p").write_bytes(f"c{module}\n{function}\n(S'x'\ntR.".encode())
    with pytest.raises(ValueError, match="which is code"):
        read_plain_pickle(tmp_path / "p")


def test_cifar10_c_blocks_are_severities(tmp_path: Path) -> None:
    images, labels = pixels(15, 32, 32, 3), np.tile(np.array([3, 8, 8], np.uint8), 5)
    np.save(tmp_path / "fog.npy", images)
    np.save(tmp_path / "labels.npy", labels)
    data = read_cifar10_c(tmp_path, "fog-4")
    assert np.array_equal(all_pixels(data), images[9:12].transpose(0, 3, 1, 2))
    assert data.ids.tolist() == [0, 1, 2]  # those of the clean test images
    assert isinstance(data.images, ChannelsLast) and isinstance(data.images.array, np.memmap)


def test_g5_cifar100_superclasses() -> None:
    assert all(len(classes) == 5 for _, classes in CIFAR100_GROUPS)
    coarse = {c: index for index, (_, classes) in enumerate(CIFAR100_GROUPS) for c in classes}
    assert [coarse[c] for c in range(100)] == FINE_TO_COARSE
    named = {"chair": 20, "fox": 34, "apple": 0, "worm": 99, "lawn_mower": 41, "sweet_pepper": 83}
    assert {name: CIFAR100.index(name) for name in named} == named


def test_groups_of_tian() -> None:
    assert [CIFAR10[c] for c in dict(CIFAR10_GROUPS)["transportation"]] == ["airplane", "automobile", "ship", "truck"]
    assert [STL10[c] for c in dict(STL10_GROUPS)["transportation"]] == ["airplane", "car", "ship", "truck"]
    assert len(dict(STL10_GROUPS)["animals"]) == 6


def test_g5_groups_of_the_real_cifar100(test_data: Path) -> None:
    data = load(str(test_data / "cifar100_test.npz"))
    assert data.names == CIFAR100
    assert [classes for _, classes in data.groups] == [classes for _, classes in CIFAR100_GROUPS]
    assert data.counts.tolist() == [100] * 100


# SVHN, STL-10


def test_svhn_calls_ten_zero(tmp_path: Path) -> None:
    images = pixels(4, 3, 32, 32)
    savemat(
        tmp_path / "test_32x32.mat",
        {"X": images.transpose(2, 3, 1, 0), "y": np.array([[10], [1], [10], [9]], np.uint8)},
    )
    data = read_svhn(tmp_path, "test")
    assert np.array_equal(all_pixels(data), images)
    assert data.labels.tolist() == [0, 1, 0, 9] and data.counts.tolist() == [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]


def test_a_damaged_mat_is_refused(tmp_path: Path) -> None:
    savemat(tmp_path / "test_32x32.mat", {"X": pixels(32, 32, 3, 2), "y": np.array([[1], [2]])})
    whole = (tmp_path / "test_32x32.mat").read_bytes()
    (tmp_path / "test_32x32.mat").write_bytes(whole[:500])
    with pytest.raises(ValueError, match="not a whole MATLAB file"):
        read_svhn(tmp_path, "test")
    savemat(tmp_path / "test_32x32.mat", {"Z": pixels(2, 2)})
    with pytest.raises(ValueError, match="not a whole MATLAB file"):
        read_svhn(tmp_path, "test")


@pytest.mark.parametrize("packed", [False, True])
def test_mat_files_are_read_as_scipy_reads_them(packed: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {f"a{kind}": rng.integers(0, 100, (3, 4, 2)).astype(kind) for kind in ("u1", "i2", "u4", "i8", "f4", "f8")}
    arrays |= {"small": np.array([[1, 2]], np.uint8), "empty": np.zeros((0, 3)), "another": np.arange(5.0)}
    savemat(tmp_path / "x.mat", arrays, do_compression=packed)
    found, wanted = read_mat(tmp_path / "x.mat", set(arrays) - {"another"}), loadmat(tmp_path / "x.mat")
    assert found.keys() == arrays.keys() - {"another"}
    for name, array in found.items():
        assert array.dtype == wanted[name].dtype and np.array_equal(array, wanted[name])


def test_mat_files_that_crash_scipy_are_refused(tmp_path: Path) -> None:
    """Found by fuzzing: a size of few bytes too many takes SciPy's compiled reader outside its memory."""
    savemat(
        tmp_path / "x.mat", {"X": np.zeros((2, 3), np.uint8), "text": "hello", "cell": np.array([2.0, 1.0], object)}
    )
    whole = (tmp_path / "x.mat").read_bytes()
    with pytest.raises(ValueError, match="text is not a plain array of numbers"):
        read_mat(tmp_path / "x.mat", ("text",))
    for place in range(128, len(whole)):
        for value in (0, 1, 127, 255):
            (tmp_path / "y.mat").write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            with contextlib.suppress(ValueError):
                read_mat(tmp_path / "y.mat", ("X", "text", "cell"))


def test_stl10_reads_back(tmp_path: Path) -> None:
    images = pixels(3, 3, 96, 96)
    (tmp_path / "test_X.bin").write_bytes(np.ascontiguousarray(images.transpose(0, 1, 3, 2)).tobytes())  # by columns
    (tmp_path / "test_y.bin").write_bytes(bytes((1, 10, 4)))
    data = read_stl10(tmp_path, "test")
    assert np.array_equal(all_pixels(data), images)
    assert data.labels.tolist() == [0, 9, 3] and data.names[7] == "monkey" and data.groups == STL10_GROUPS
    (tmp_path / "test_X.bin").write_bytes(bytes(1000))
    with pytest.raises(ValueError, match="cut off"):
        read_stl10(tmp_path, "test")


# arrays


def test_npz_stored_is_mapped_and_compressed_is_read(tmp_path: Path) -> None:
    images, labels = pixels(500, 3, 32, 32), np.arange(500) % 4
    np.savez(tmp_path / "stored.npz", images=images, labels=labels)
    np.savez_compressed(tmp_path / "packed.npz", images=images, labels=labels)
    stored, packed = (load(str(tmp_path / name)) for name in ("stored.npz", "packed.npz"))
    assert isinstance(read_member(tmp_path / "stored.npz", "images"), np.memmap)
    assert np.array_equal(all_pixels(stored), images) and np.array_equal(all_pixels(packed), images)
    assert stored.digest() == packed.digest()


def test_a_saved_set_reads_back(tmp_path: Path, unbalanced: Dataset) -> None:
    save_npz(tmp_path / "new" / "set.npz", unbalanced.without("ant"))
    data = load(str(tmp_path / "new" / "set.npz"))
    assert data.digest() == unbalanced.without("ant").digest() and data.names == unbalanced.names
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["set.npz"]
    large = Dataset.of(pixels(600, 3, 32, 32), np.arange(600) % 4)
    save_npz(tmp_path / "large.npz", large)
    assert isinstance(read_member(tmp_path / "large.npz", "images"), np.memmap)
    assert load(str(tmp_path / "large.npz")).digest() == large.digest()


def test_npz_of_objects_runs_nothing(tmp_path: Path) -> None:
    made = tmp_path / "owned"
    array = np.empty(1, dtype=object)
    array[0] = Payload(made)
    np.savez(tmp_path / "x.npz", images=pixels(1, 3, 4, 4), labels=array)
    with pytest.raises(ValueError, match=r"not a readable \.npz of plain arrays"):
        read_npz(tmp_path / "x.npz")
    np.save(tmp_path / "images.npy", array, allow_pickle=True)
    np.save(tmp_path / "labels.npy", np.array([0]))
    with pytest.raises(ValueError, match=r"not a readable \.npy of plain numbers"):
        read_npy(tmp_path / "images.npy")
    assert not made.exists()


def test_npz_that_is_cut_off(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=pixels(9, 3, 8, 8), labels=np.arange(9))
    whole = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"not a readable \.npz"):
        load(str(tmp_path / "x.npz"))


def npy_header(shape: str) -> bytes:
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode()


HUGE = "(1000000, 3, 1000000, 1000000)"  # 3e18 bytes


def hostile_npz(path: Path, case: str) -> None:
    np.savez_compressed(path, images=np.tile(pixels(1, 3, 64, 64), (99, 1, 1, 1)), labels=np.arange(99) % 3)
    whole = bytearray(path.read_bytes())
    if case == "packed bytes changed":
        whole[200:260] = bytes(60)
    elif case == "encrypted":
        for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            whole[whole.index(mark) + offset] |= 1
    if case in ("packed bytes changed", "encrypted"):
        path.write_bytes(whole)
        return
    content = {"not an array": b"hello" * 9, "huge": npy_header(HUGE) + bytes(9)}
    large = npy_header("(10000000, 3, 5, 5)") + bytes(2 << 20)  # large enough to be mapped
    content |= {"too long for its file": large, "negative": npy_header("(-4, 3, 5, 5)") + bytes(300)}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", content[case])
        archive.writestr("labels.npy", npy_header("(4,)") + bytes(4))


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("packed bytes changed", "invalid|error|CRC"),
        ("encrypted", "encrypted"),
        ("not an array", "magic string"),
        ("huge", "3,000,000,000,000,000,000 bytes are announced, but 9 are there"),
        ("too long for its file", "750,000,000 bytes are announced"),
        ("negative", "cannot have the shape"),
    ],
)
def test_hostile_archives_get_one_sentence(tmp_path: Path, case: str, reason: str) -> None:
    hostile_npz(tmp_path / "x.npz", case)
    with pytest.raises(ValueError, match=rf"(?s)not a readable \.npz of plain arrays \(.*({reason})") as seen:
        load(str(tmp_path / "x.npz"))
    assert "\n" not in str(seen.value)


@pytest.mark.parametrize("shape", [HUGE, "(10, 3, 5, 5)", "(-1, 3, 5, 5)"])
def test_hostile_npy_files_get_one_sentence(tmp_path: Path, shape: str) -> None:
    (tmp_path / "images.npy").write_bytes(npy_header(shape) + bytes(300))
    np.save(tmp_path / "labels.npy", np.zeros(10, int))
    with pytest.raises(ValueError, match=r"not a readable \.npy of plain numbers \(.*(announced|cannot have)"):
        load(str(tmp_path / "images.npy"))


def test_names_in_an_archive(tmp_path: Path) -> None:
    arrays = {"images": pixels(2, 3, 5, 5), "labels": np.array([0, 1])}
    np.savez(tmp_path / "x.npz", names=np.array(["ant", "Bär"]).astype(object).astype("U"), **arrays)
    assert load(str(tmp_path / "x.npz")).names == ("ant", "Bär")
    np.savez(tmp_path / "x.npz", names=np.array([b"ant", "Bär".encode()]), **arrays)
    assert load(str(tmp_path / "x.npz")).names == ("ant", "Bär")
    np.savez(tmp_path / "x.npz", names=np.array("ant"), **arrays)
    with pytest.raises(ValueError, match=r"names need the shape \[classes\], but have \[\]"):
        load(str(tmp_path / "x.npz"))


@pytest.mark.parametrize("name", ["images.npy", "test_images.npy"])
def test_npy_with_labels_beside_it(tmp_path: Path, name: str) -> None:
    images = pixels(6, 9, 7, 3)
    np.save(tmp_path / name, images)
    with pytest.raises(ValueError, match="needs its labels beside it"):
        load(str(tmp_path / name))
    np.save(tmp_path / name.replace("images", "labels"), np.array([0, 1, 2, 0, 1, 2]))
    (tmp_path / "names.txt").write_text("ant\nbee\n\ncow\n")
    data = load(str(tmp_path / name))
    assert np.array_equal(all_pixels(data), images.transpose(0, 3, 1, 2)) and data.names == ("ant", "bee", "cow")
    with pytest.raises(ValueError, match="only image files are cut to a size"):
        load(f"{tmp_path / name}@64")


# ImageNet folders


def save_image(path: Path, size: tuple[int, int], colour: tuple[int, int, int] | int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L" if isinstance(colour, int) else "RGB", size, colour).save(path)


def test_tiny_imagenet(tmp_path: Path) -> None:
    (tmp_path / "wnids.txt").write_text("n02\nn01\n")
    (tmp_path / "words.txt").write_text("n01\tgoldfish, Carassius auratus\nn02\ttailed frog\nn03\tunused\n")
    save_image(tmp_path / "train/n01/images/n01_0.png", (64, 64), (255, 0, 0))
    save_image(tmp_path / "train/n02/images/n02_0.png", (64, 64), (0, 0, 255))
    save_image(tmp_path / "val/images/val_0.png", (64, 64), (0, 0, 255))
    save_image(tmp_path / "val/images/val_1.png", (64, 64), 200)
    (tmp_path / "val/val_annotations.txt").write_text("val_0.png\tn02\t0\t0\t62\t62\nval_1.png\tn01\t0\t0\t9\t9\n")
    train, val = (read_tiny_imagenet(tmp_path, split) for split in ("train", "val"))
    assert train.names == val.names == ("goldfish", "tailed frog")  # in the order of the ids
    assert train.labels.tolist() == [0, 1] and val.labels.tolist() == [1, 0]
    assert all_pixels(train)[0, :, 5, 5].tolist() == [255, 0, 0] and val.shape == (3, 64, 64)
    assert all_pixels(val)[1, :, 5, 5].tolist() == [200, 200, 200]


def devkit(folder: Path) -> None:
    data = folder / "ILSVRC2012_devkit_t12" / "data"
    data.mkdir(parents=True)
    kinds = [("ILSVRC2012_ID", object), ("WNID", object), ("words", object)]
    synsets = np.array([(1, "n02", "frog"), (2, "n01", "fish"), (3, "n03", "animal")], dtype=kinds)
    savemat(data / "meta.mat", {"synsets": synsets})
    (data / "ILSVRC2012_validation_ground_truth.txt").write_text("2\n1\n2\n")


def kaggle(folder: Path) -> None:
    rows = ["n01 1 2 3 4 ", "n02 1 2 3 4 n02 5 6 7 8 ", "n01 1 1 2 2 "]
    lines = [f"ILSVRC2012_val_{n:08d},{row}" for n, row in enumerate(rows, start=1)]
    (folder / "LOC_val_solution.csv").write_text("ImageId,PredictionString\n" + "\n".join(lines) + "\n")


@pytest.mark.parametrize("annotate", [devkit, kaggle])
def test_imagenet_with_a_flat_validation_folder(tmp_path: Path, annotate: object) -> None:
    for n in (1, 2, 3):
        save_image(tmp_path / f"val/ILSVRC2012_val_{n:08d}.JPEG", (300 + n, 260), (40 * n, 0, 0))
    with pytest.raises(ValueError, match="images without class folders"):
        read_imagenet(tmp_path, "val")
    assert callable(annotate)
    annotate(tmp_path)
    data = read_imagenet(tmp_path, "val")
    assert data.labels.tolist() == [0, 1, 0] and data.shape == (3, 224, 224) and data.k == 2


def test_imagenet_with_class_folders_and_another_size(tmp_path: Path) -> None:
    save_image(tmp_path / "val/n01/a.JPEG", (500, 333), (9, 90, 200))
    save_image(tmp_path / "val/n02/b.JPEG", (333, 500), (9, 90, 200))
    data = read_imagenet(tmp_path, "val", 299)
    assert data.names == ("n01", "n02") and data.shape == (3, 299, 299) and data.labels.tolist() == [0, 1]


def test_resize_and_centre_crop_against_pil(tmp_path: Path) -> None:
    """The shorter side becomes 256, then the middle 224 x 224: the convention of the public ImageNet networks."""
    image = Image.fromarray(pixels(300, 450, 3))
    (tmp_path / "val/n01").mkdir(parents=True)
    image.save(tmp_path / "val/n01/a.png")
    expected = image.resize((384, 256), Image.Resampling.BILINEAR).crop((80, 16, 304, 240))
    assert np.array_equal(all_pixels(read_imagenet(tmp_path, "val"))[0], np.asarray(expected).transpose(2, 0, 1))


def test_the_longer_side_is_cut_down_not_rounded(tmp_path: Path) -> None:
    """451 x 300: 256 * 451 / 300 is 384.9, and torchvision makes it 384."""
    image = Image.fromarray(pixels(300, 451, 3))
    (tmp_path / "val/n01").mkdir(parents=True)
    image.save(tmp_path / "val/n01/a.png")
    expected = image.resize((384, 256), Image.Resampling.BILINEAR).crop((80, 16, 304, 240))
    assert np.array_equal(all_pixels(read_imagenet(tmp_path, "val"))[0], np.asarray(expected).transpose(2, 0, 1))


TINY = "val_annotations.txt"
KAGGLE = "LOC_val_solution.csv"
GROUND_TRUTH = "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (TINY, b"ILSVRC2012_val_00000001.JPEG\n", f"{TINY}, line 1: an image and its class are needed"),
        (TINY, b"\xff\xfe", f"{TINY} is not text in UTF-8"),
        (KAGGLE, b"ImageId,Box\nILSVRC2012_val_00000001,n01\n", f"{KAGGLE} has no column PredictionString"),
        (KAGGLE, b"", f"{KAGGLE} has no column ImageId and PredictionString"),
        (KAGGLE, b"ImageId,PredictionString\na,n01 1\nb,\n", f"{KAGGLE}, row 2: an image and its class"),
        (KAGGLE, b"ImageId,PredictionString\na\n", f"{KAGGLE}, row 1: an image and its class"),
        (GROUND_TRUTH, b"2\n9\n", "ground_truth.txt, line 2: '9' is not the number of a class"),
        (GROUND_TRUTH, b"x\n", "ground_truth.txt, line 1: 'x' is not the number of a class"),
    ],
)
def test_wrong_annotations_are_named(tmp_path: Path, name: str, text: bytes, complaint: str) -> None:
    save_image(tmp_path / "val/ILSVRC2012_val_00000001.JPEG", (30, 26), (40, 0, 0))
    if name == GROUND_TRUTH:
        devkit(tmp_path)
    (tmp_path / name).write_bytes(text)
    with pytest.raises(ValueError, match=complaint):
        read_imagenet(tmp_path, "val")


def test_tiny_imagenet_with_an_unknown_class(tmp_path: Path) -> None:
    (tmp_path / "wnids.txt").write_text("n02\nn01\n")
    save_image(tmp_path / "val/images/val_0.png", (64, 64), (0, 0, 255))
    (tmp_path / "val/val_annotations.txt").write_text("\nval_0.png\tn77\t0\t0\t62\t62\n")
    with pytest.raises(ValueError, match=r"val_annotations\.txt, line 2: the class 'n77' is not one of the 2"):
        read_tiny_imagenet(tmp_path, "val")


# Hugging Face


def write_huggingface(folder: Path, images: np.ndarray, labels: list[int | None], names: list[str]) -> None:
    """What `datasets.Dataset.save_to_disk` leaves behind, as far as it matters."""
    import io

    pyarrow = pytest.importorskip("pyarrow", reason="reading Hugging Face data sets needs the extra hf")
    folder.mkdir(parents=True)
    encoded = []
    for image in images:
        buffer = io.BytesIO()
        shown = Image.fromarray(image.transpose(1, 2, 0).squeeze())
        shown.save(buffer, "TIFF" if shown.mode == "F" else "PNG")
        encoded.append({"bytes": buffer.getvalue(), "path": None})
    kind = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    table = pyarrow.table({"image": pyarrow.array(encoded, kind), "label": pyarrow.array(labels, pyarrow.int64())})
    with pyarrow.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as file:
        with pyarrow.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))


def test_huggingface_reads_back(tmp_path: Path) -> None:
    images = pixels(5, 3, 12, 10)
    write_huggingface(tmp_path / "set/test", images, [2, 0, 1, 2, 2], ["ant", "bee", "cow"])
    (tmp_path / "set/dataset_dict.json").write_text(json.dumps({"splits": ["test"]}))
    data = load(str(tmp_path / "set"))
    assert np.array_equal(all_pixels(data), images) and data.labels.tolist() == [2, 0, 1, 2, 2]
    assert data.names == ("ant", "bee", "cow")
    with pytest.raises(ValueError, match="has no split 'train': choose test"):
        read_huggingface(tmp_path / "set", "train")
    assert load(f"{tmp_path / 'set'}@8").shape == (3, 8, 8)


def test_huggingface_that_is_cut_off(tmp_path: Path) -> None:
    write_huggingface(tmp_path / "set", pixels(5, 3, 12, 10), [0] * 5, ["ant", "bee"])
    arrow = tmp_path / "set/data-00000-of-00001.arrow"
    arrow.write_bytes(arrow.read_bytes()[:200])
    with pytest.raises(ValueError, match="not a whole data set"):
        load(str(tmp_path / "set"))


def test_huggingface_with_deep_pixels(tmp_path: Path) -> None:
    levels = np.array([0, 128, 129, 257 * 77, 65535], np.uint16).reshape(1, 1, 1, 5).repeat(3, axis=2)
    write_huggingface(tmp_path / "set", levels, [0], ["ant"])
    data = load(str(tmp_path / "set"))
    assert data.shape == (1, 3, 5) and all_pixels(data)[0, 0, 0].tolist() == [0, 0, 1, 77, 255]
    write_huggingface(tmp_path / "float", np.zeros((1, 1, 3, 5), np.float32), [0], ["ant"])
    with pytest.raises(ValueError, match="cannot be decoded: 32-bit pixels: save it as 8-bit"):
        all_pixels(load(str(tmp_path / "float")))


def test_huggingface_descriptions(tmp_path: Path) -> None:
    images = pixels(2, 3, 12, 10)
    write_huggingface(tmp_path / "set", images, [1, 0], ["ant", "bee"])
    info = tmp_path / "set/dataset_info.json"
    features = json.loads(info.read_text())["features"]
    boxes = [{"dtype": "float32", "_type": "Value"}]
    info.write_text(json.dumps({"features": features | {"boxes": boxes}}))  # a column of lists is nothing unusual
    assert np.array_equal(all_pixels(load(str(tmp_path / "set"))), images)
    for content, complaint in (
        ("[1]", r"dataset_info\.json needs a JSON object, but holds a list"),
        ("{", r"dataset_info\.json is not JSON"),
        ("{}", r"dataset_info\.json needs the features"),
        (json.dumps({"features": features | {"label": {"_type": "ClassLabel"}}}), "needs the names of the classes"),
    ):
        info.write_text(content)
        with pytest.raises(ValueError, match=complaint):
            load(str(tmp_path / "set"))
    (tmp_path / "set/dataset_dict.json").write_text("{}")
    with pytest.raises(ValueError, match=r"dataset_dict\.json needs a list of splits"):
        load(str(tmp_path / "set"))
    write_huggingface(tmp_path / "holes", images, [1, None], ["ant", "bee"])
    with pytest.raises(ValueError, match=r"1 of the 2 images in .* have no label"):
        load(str(tmp_path / "holes"))


# groups


def test_groups_from_a_text_file(tmp_path: Path, unbalanced: Dataset) -> None:
    path = tmp_path / "groups.txt"
    path.write_text("# by legs\nsix legs: ant, bee\n\nfour legs : cow, 3 , elk  # by index too\n")
    groups = read_groups(path, unbalanced.names)
    assert groups == (("six legs", (0, 1)), ("four legs", (2, 3, 4)))
    assert unbalanced.with_groups(groups).only(["bee"]).groups == groups
    for text, complaint in (
        ("six legs ant", "line 1: write `group: class"),
        ("six legs: ant, fly", "a class 'fly' that the data does not have"),
        ("# nothing", "names no group"),
        ("few: ant\nmany: bee\nfew : cow", "line 3: the group 'few' was there before"),
        ("B\xe4ren: ant", "is not text in UTF-8"),
    ):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(ValueError, match=complaint):
            read_groups(path, unbalanced.names)
    with pytest.raises(ValueError, match="one group only"):
        unbalanced.with_groups((("a", (0, 1)), ("b", (1, 2))))
