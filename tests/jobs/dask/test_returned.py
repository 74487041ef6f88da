"""What comes back from workers is written only if it was asked for, and keys of others are not used."""

import json
from pathlib import Path

import pytest

from leastwise.cli.train import Train
from leastwise.core.recipe import recipe_key
from leastwise.jobs.dask.returned import check_image_name, place_files
from leastwise.jobs.dask.security import certificates
from leastwise.jobs.folder import CLAIM
from leastwise.jobs.train_task import TrainRequest
from leastwise.training.resume import EPOCHS, MODEL

pytest.importorskip("distributed", reason="needs the extra cluster")


def test_files_that_nobody_asked_for_are_not_written(tmp_path: Path) -> None:
    job = Train(method="standard").job()
    request = TrainRequest(job, tmp_path / "training", data="")
    claim = json.dumps({"kind": "training", "key": recipe_key(job)}).encode()
    good = {CLAIM: claim, EPOCHS: b"{}\n", MODEL: b"weights"}
    for name in ("../escaped", "/tmp/escaped", "other.py", "sub/model.pt", ".leastwise.lock"):
        with pytest.raises(ValueError, match="not those of a training"):
            place_files(request, good | {name: b"x"})
    for other in ({}, {CLAIM: b"[]"}, {CLAIM: json.dumps({"kind": "training", "key": "another"}).encode()}):
        with pytest.raises(ValueError, match="results of another training"):
            place_files(request, {name: content for name, content in good.items() if name != CLAIM} | other)
    assert list(tmp_path.iterdir()) == []
    place_files(request, dict(good))
    assert {path.name for path in (tmp_path / "training").iterdir()} == {CLAIM, EPOCHS, MODEL}


@pytest.mark.parametrize(
    "name", ["../000001-000-000.safetensors", "000002-000-000.safetensors", "x", "000001-000-0.py"]
)
def test_images_of_other_pieces_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="nobody asked for"):
        check_image_name(name, "000001-000.safetensors", wanted=True)
    check_image_name("000001-000-012.safetensors", "000001-000.safetensors", wanted=True)
    with pytest.raises(ValueError, match="nobody asked for"):
        check_image_name("000001-000-012.safetensors", "000001-000.safetensors", wanted=False)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("x")
    for mode in (0o644, 0o640, 0o604):
        (tmp_path / "key.pem").chmod(mode)
        with pytest.raises(ValueError, match="can be read by others"):
            certificates(tmp_path)
    (tmp_path / "key.pem").chmod(0o600)
    certificates(tmp_path)
