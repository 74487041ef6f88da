"""A declared part of a known data set: read and said wherever it is declared, refused wherever that is not true."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from leastwise.attacks.base import Clean
from leastwise.audit.evidence import load_evidence
from leastwise.data.loading import load
from leastwise.data.registry import SOURCES
from leastwise.data.verify import verify
from leastwise.jobs.audit_task import audit
from leastwise.jobs.folder import read_run_facts
from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import TrainJob
from leastwise.jobs.train_task import prepare_training
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.models.zoo.registry import build
from leastwise.report.summary import summarise
from leastwise.training.methods.standard import Standard
from leastwise.training.recipe import Training

WHY = "the first ones"
IDS = tuple(f"n{c:03d}" for c in range(200))
SAID = f"tiny-imagenet/train is a declared part: 1 of 3 images of each class ({WHY})"


def write_tiny_imagenet(folder: Path, train: int, val: int) -> None:
    """The official layout with 200 classes and so many images of each."""
    (folder / "val" / "images").mkdir(parents=True)
    (folder / "wnids.txt").write_text("\n".join(IDS))
    lines = []
    for c, wnid in enumerate(IDS):
        (folder / "train" / wnid / "images").mkdir(parents=True)
        for n in range(train):
            Image.new("RGB", (64, 64), (c, n, 200)).save(folder / "train" / wnid / "images" / f"{wnid}_{n}.png")
        for n in range(val):
            Image.new("RGB", (64, 64), (c, n, 209)).save(folder / "val" / "images" / f"val_{c}_{n}.png")
            lines.append(f"val_{c}_{n}.png\t{wnid}\t0\t0\t62\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tiny-ImageNet as if it had three training images and one validation image of each class; one of three is here."""
    tiny = SOURCES["tiny-imagenet"]
    facts = replace(tiny.facts, per_class={"train": 3, "val": 1})
    monkeypatch.setitem(SOURCES, "tiny-imagenet", replace(tiny, facts=facts))
    monkeypatch.setenv("LEASTWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "data" / "tiny-imagenet"
    write_tiny_imagenet(folder, train=1, val=1)
    return folder


def declare(place: Path, **said: object) -> None:
    (place / "part.json").write_text(json.dumps(said))


def add_images(place: Path, classes: int, numbers: range) -> None:
    for c, wnid in enumerate(IDS[:classes]):
        for n in numbers:
            Image.new("RGB", (64, 64), (c, n, 200)).save(place / "train" / wnid / "images" / f"{wnid}_{n}.png")


def test_a_part_that_nobody_declared_is_refused_with_the_file_to_write(place: Path) -> None:
    with pytest.raises(ValueError, match="3 images of each class are known, but it has 200 ") as refused:
        load("tiny-imagenet/train")
    told = f'declare it: into {place / "part.json"} write {{"train": 1, "why": "how they were chosen"}}'
    assert str(refused.value).endswith(told)
    (place / "part.json").write_text(str(refused.value).rpartition(" write ")[2])
    assert len(load("tiny-imagenet/train")) == 200


def test_a_declared_part_is_read_and_keeps_its_note_in_every_subset(place: Path) -> None:
    declare(place, train=1, why=WHY)
    data = load("tiny-imagenet/train")
    assert (len(data), data.k, data.shape, data.notes) == (200, 200, (3, 64, 64), (SAID,))
    train, valid = data.keep(range(4)).with_notes("another").take(1), data.only([7])
    assert train.part_notes == valid.part_notes == (SAID,) and train.notes == (SAID, "another")
    declare(place, train=1)
    assert load("tiny-imagenet/train").notes == (SAID.removesuffix(f" ({WHY})"),)


def test_a_split_that_is_whole_needs_no_declaration_and_says_nothing(place: Path) -> None:
    assert load("tiny-imagenet/val").notes == ()
    declare(place, train=1, why=WHY)
    assert load("tiny-imagenet/val").notes == ()
    (place / "part.json").unlink()
    add_images(place, 200, range(1, 3))
    assert load("tiny-imagenet/train").notes == () and len(load("tiny-imagenet/train")) == 600


def test_a_part_has_another_digest_than_the_whole_set(place: Path) -> None:
    declare(place, train=1, why=WHY)
    part = load("tiny-imagenet/train").digest()
    add_images(place, 200, range(1, 3))
    (place / "part.json").unlink()
    whole = load("tiny-imagenet/train")
    assert part not in (whole.digest(), whole.take(1).digest())  # ids are those of the whole listing


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ('{"train": 2}', r"declares 2 images of each class of tiny-imagenet/train, but it has 200 \(\[1, 1"),
        ('{"train": 3}', "as a part, but the whole set has no more: leave the split out"),
        ('{"val": 1}', "3 images of each class are known, but it has 200"),
        ('{"train": true}', "1 image or more of each class in train, but saw True"),
        ('{"train": 0}', "1 image or more of each class in train, but saw 0"),
        ('{"train": "1"}', "1 image or more of each class in train, but saw '1'"),
        ('{"trian": 1}', "declares a split 'trian', but there are only train, val"),
        ('{"train": 1, "why": 7}', "must name splits and perhaps why"),
        ("[1]", "must name splits and perhaps why"),
        ("train: 1", "is not JSON"),
    ],
)
def test_a_declaration_that_is_not_true_or_cannot_be_read(place: Path, said: str, complaint: str) -> None:
    (place / "part.json").write_text(said)
    with pytest.raises(ValueError, match=complaint) as refused:
        load("tiny-imagenet/train")
    assert str(place / "part.json") in str(refused.value) and "\n" not in str(refused.value)


def test_classes_that_differ_are_no_part(place: Path) -> None:
    declare(place, train=1, why=WHY)
    add_images(place, 5, range(1, 2))
    with pytest.raises(ValueError, match=r"declares 1 images of each class .* but it has 205 "):
        load("tiny-imagenet/train")
    (place / "part.json").unlink()
    with pytest.raises(ValueError, match=r"--fresh`$"):  # nothing to declare would make it right
        load("tiny-imagenet/train")
    declare(place, train=1)
    (place / "wnids.txt").write_text("\n".join(IDS[:150]))
    with pytest.raises(ValueError, match="200 classes are known, but it has 150"):
        load("tiny-imagenet/train")


def test_a_part_of_an_unbalanced_set_has_all_of_its_small_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASTWISE_DATA", str(tmp_path))
    cifar = SOURCES["cifar10"]
    known = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    monkeypatch.setitem(SOURCES, "cifar10", replace(cifar, facts=replace(cifar.facts, per_class={"test": known})))
    labels = np.repeat(np.arange(10), np.minimum(known, 4))
    (tmp_path / "cifar10").mkdir()
    np.savez(tmp_path / "cifar10/test.npz", images=np.zeros((len(labels), 3, 32, 32), np.uint8), labels=labels)
    with pytest.raises(ValueError, match=r'write \{"test": 4,'):
        load("cifar10/test")
    declare(tmp_path / "cifar10", test=4)
    assert load("cifar10/test").notes == ("cifar10/test is a declared part: at most 4 images of each class",)
    said: list[str] = []
    verify("cifar10", load, said.append)  # the digest of the whole set is not asked of a part
    assert "cifar10/test: 34 images of 10 classes, a declared part, as declared" in said


def test_verify_says_which_split_is_a_part(place: Path) -> None:
    declare(place, train=1, why=WHY)
    said: list[str] = []
    verify("tiny-imagenet", load, said.append)
    assert said == [
        "tiny-imagenet/train: 200 images of 200 classes, a declared part, as declared",
        f"  {SAID}",
        "tiny-imagenet/val: 200 images of 200 classes, facts hold",
    ]


def test_results_of_a_part_say_so(place: Path, tmp_path: Path) -> None:
    """Evidence, the summary of it, what a run writes down, and the checkpoint of a training."""
    declare(place, train=1, why=WHY)
    data = load("tiny-imagenet/train")
    out = tmp_path / "audit"
    audit(build("convnet", data.shape, data.k), data, (("clean", Clean()),), out=out, batch_size=100)
    evidence = load_evidence(out)
    assert SAID in evidence.warnings and SAID in summarise(evidence)["warnings"]
    assert read_run_facts(out)["notes"] == [SAID]
    job = TrainJob(ImageSet("tiny-imagenet", classes=(0, 1)), "convnet", Training(Standard(), epochs=1, batch_size=2))
    prepare_training(job, tmp_path / "training").run()
    assert read_run_facts(tmp_path / "training")["notes"][0] == SAID
    assert f"its training images: {SAID}" in load_checkpoint(tmp_path / "training" / "model.pt").notes
    whole = load("tiny-imagenet/val")
    found = audit(build("convnet", whole.shape, whole.k), whole, (("clean", Clean()),), batch_size=100)
    assert not any("declared part" in warning for warning in found.warnings)


@pytest.mark.parametrize("arch", ["small", "convnet"])
def test_networks_of_the_scale_lite_take_such_images(arch: str) -> None:
    assert build(arch, (3, 64, 64), 200)(torch.zeros(2, 3, 64, 64)).shape == (2, 200)
