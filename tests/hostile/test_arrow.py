"""Arrow files that lie: nothing is unpacked or believed before it was looked at."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from leastwise.data.loading import load

pyarrow = pytest.importorskip("pyarrow", reason="reading Hugging Face data sets needs the extra hf")
FILE = "data-00000-of-00001.arrow"


def encoded(seed: int = 0) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def write_set(folder: Path, table: Any, compression: str | None = None) -> Path:
    folder.mkdir(parents=True)
    options = pyarrow.ipc.IpcWriteOptions(compression=compression)
    with pyarrow.OSFile(str(folder / FILE), "wb") as file:
        with pyarrow.ipc.new_stream(file, table.schema, options=options) as writer:
            writer.write_table(table)
    features = {"image": {"_type": "Image"}, "label": {"names": ["ant", "bee"], "_type": "ClassLabel"}}
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": FILE}]}))
    return folder


def make_table(contents: list[bytes], labels: list[int] | None = None, **more: Any) -> Any:
    kind = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    images = pyarrow.array([{"bytes": content, "path": None} for content in contents], kind)
    numbers = pyarrow.array(labels or [0] * len(contents), pyarrow.int64())
    return pyarrow.table({"image": images, "label": numbers, **more})


def read_pixels(folder: Path) -> "np.ndarray":
    data = load(str(folder))
    return np.round(255 * data.batch(np.arange(len(data)))[0].numpy()).astype(np.uint8)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_compressed_columns_are_read_as_they_were(compression: str | None, tmp_path: Path) -> None:
    contents = [encoded(seed) for seed in range(40)]
    found = read_pixels(write_set(tmp_path / "set", make_table(contents), compression))
    expected = [np.asarray(Image.open(io.BytesIO(content))).transpose(2, 0, 1) for content in contents]
    assert np.array_equal(found, np.stack(expected))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("where", ["image", "beside", "dictionary"])
def test_a_stream_that_unpacks_to_a_multiple_is_refused_before_it_does(
    where: str, compression: str, tmp_path: Path
) -> None:
    nothing, first = bytes(48 << 20), encoded()
    more = {}
    if where == "beside":
        more["note"] = pyarrow.array([nothing], pyarrow.binary())
    if where == "dictionary":
        more["note"] = pyarrow.array([nothing], pyarrow.binary()).dictionary_encode()
    contents = [first] if more else [first + nothing]
    folder = write_set(tmp_path / "set", make_table(contents, **more), compression)
    assert (folder / FILE).stat().st_size < 1 << 20
    usual = pyarrow.default_memory_pool()
    counted = pyarrow.proxy_memory_pool(usual)
    pyarrow.set_memory_pool(counted)
    try:
        with pytest.raises(ValueError, match="would unpack to"):
            load(str(folder))
        assert counted.max_memory() < 1 << 20
    finally:
        pyarrow.set_memory_pool(usual)


def test_offsets_that_point_elsewhere_are_refused(tmp_path: Path) -> None:
    content = encoded()
    folder = write_set(tmp_path / "set", make_table([content] * 3))
    raw, offsets = (folder / FILE).read_bytes(), np.arange(4, dtype="<i4") * len(content)
    assert raw.count(offsets.tobytes()) == 1
    wrong = offsets.copy()
    wrong[2] = 1 << 30
    (folder / FILE).write_bytes(raw.replace(offsets.tobytes(), wrong.tobytes()))
    with pytest.raises(ValueError, match="contradicts itself"):
        load(str(folder))


def test_columns_of_other_kinds_are_refused(tmp_path: Path) -> None:
    numbers = pyarrow.array([0, 1], pyarrow.int64())
    images = make_table([encoded()] * 2).column("image")
    for place, table, said in (
        ("a", pyarrow.table({"image": pyarrow.nulls(2), "label": numbers}), "no encoded images"),
        ("b", pyarrow.table({"image": pyarrow.array(["x", "y"]), "label": numbers}), "no encoded images"),
        ("c", pyarrow.table({"image": images, "label": pyarrow.array([0.0, 1.0])}), "must be whole numbers"),
        ("d", pyarrow.table({"image": images, "label": pyarrow.nulls(2)}), "must be whole numbers"),
    ):
        with pytest.raises(ValueError, match=said):
            load(str(write_set(tmp_path / place, table)))


def test_an_endless_list_beside_the_bytes_is_not_read(tmp_path: Path) -> None:
    """Two thousand million times nothing take no room in the file, and sixteen gigabytes as a list of Python."""
    count = 2_000_000_000
    endless = pyarrow.ListArray.from_arrays(pyarrow.array([0, count], pyarrow.int32()), pyarrow.nulls(count))
    content = pyarrow.array([encoded()], pyarrow.binary())
    images = pyarrow.StructArray.from_arrays([content, endless], ["bytes", "path"])
    table = pyarrow.table({"image": images, "label": pyarrow.array([1], pyarrow.int64())})
    assert read_pixels(write_set(tmp_path / "set", table)).shape == (1, 3, 8, 8)


def test_changed_bytes_are_a_sentence_or_data(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", make_table([encoded(seed) for seed in range(3)], [0, 1, 0]), "zstd")
    raw, rng = (folder / FILE).read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        changed = bytearray(raw)
        for place in rng.integers(0, len(raw), rng.integers(1, 4)):
            changed[place] = int(rng.integers(0, 256))
        (folder / FILE).write_bytes(changed)
        try:
            read_pixels(folder)
        except ValueError as error:
            refused += 1
            assert str(error)
    assert refused > 0
