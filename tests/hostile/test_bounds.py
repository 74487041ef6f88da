"""Small files that would cost much: hangs, memory, programs. Each gets one sentence, soon."""

import io
import json
import os
import pickle
import re
import resource
import struct
import subprocess
import sys
import time
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from leastwise.cli.main import main
from leastwise.core.files import LOCK, lock_folder, write_atomic
from leastwise.core.pickles import check_pickle
from leastwise.data.loading import load
from leastwise.data.raster import RASTERS, open_raster
from leastwise.jobs.shards import open_ledger
from leastwise.models.load.checkpoint import load_checkpoint
from leastwise.models.load.hf_config import check_config
from leastwise.models.load.torch_file import read_torch
from tests.hostile.files import NAMES, checkpoint

SOON = 20.0  # seconds on a busy machine, where the file would take years


def nested_key(levels: int) -> bytes:
    """A pickle of {t: 0} where every t is a pair of the one before: 2 to the power of `levels` leaves."""
    return b"\x80\x02}" + b")" + b"q\x00h\x00\x86" * levels + b"K\x00s."


def in_archive(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/byteorder", b"little")
        archive.writestr("archive/version", b"3\n")
    return path


def test_a_key_of_few_levels_is_read_and_one_of_many_is_refused_at_once() -> None:
    assert pickle.loads(nested_key(3)) == {((((), ()), ((), ())), (((), ()), ((), ()))): 0}
    check_pickle(io.BytesIO(nested_key(10)))
    begun = time.monotonic()
    for levels in (30, 60, 100_000):
        with pytest.raises(pickle.UnpicklingError, match=r"too long|too deeply"):
            check_pickle(io.BytesIO(nested_key(levels)))
    assert time.monotonic() - begun < SOON


def test_honest_pickles_pass_the_count() -> None:
    values: list[object] = [{"a": [1, 2.5, None, "é", b"x", (1, (2, 3))]}, OrderedDict(a=1), {1, 2}, {(1, 2): 3}]
    values += [list(range(5000)), {i: str(i) for i in range(3000)}, np.arange(100)]
    for value in values:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            check_pickle(io.BytesIO(pickle.dumps(value, protocol)))


@pytest.mark.parametrize("form", ["archive", "legacy", "cifar"])
def test_nested_keys_never_hang(form: str, tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(ValueError, match=r"not a checkpoint of plain weights|not a plain pickle"):
        if form == "archive":
            read_torch(in_archive(tmp_path / "w.pt", nested_key(60)))
        elif form == "legacy":
            head = b"".join(pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
            (tmp_path / "w.pt").write_bytes(head + nested_key(60))
            read_torch(tmp_path / "w.pt")
        else:
            place = tmp_path / "cifar-10-batches-py"
            place.mkdir()
            (place / "test_batch").write_bytes(nested_key(60))
            os.environ["LEASTWISE_DATA"] = str(tmp_path)
            try:
                load("cifar10/test")
            finally:
                del os.environ["LEASTWISE_DATA"]
    assert time.monotonic() - begun < SOON


def test_entries_that_share_bytes_are_refused(tmp_path: Path) -> None:
    """The directory of the archive names one storage ten times."""
    torch.save({"w": torch.zeros(1000)}, tmp_path / "w.pt")
    content = (tmp_path / "w.pt").read_bytes()
    with zipfile.ZipFile(tmp_path / "w.pt") as archive:
        start = archive.start_dir
        directory = content[start : content.index(b"PK\x06\x06", start) if b"PK\x06\x06" in content else None]
        count = len(archive.infolist())
    at = directory.index(b"/data/0") - len("w") - 46
    entry = directory[at : at + 46 + int.from_bytes(directory[at + 28 : at + 30], "little")]
    extra = int.from_bytes(directory[at + 30 : at + 32], "little")
    entry = directory[at : at + len(entry) + extra]
    copies = b"".join(entry.replace(b"/data/0", f"/data/{n}".encode()) for n in range(1, 10))
    made = directory[: at + len(entry)] + copies + directory[at + len(entry) :]
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count + 9, count + 9, len(made), start, 0)
    (tmp_path / "w.pt").write_bytes(content[:start] + made + end)
    with zipfile.ZipFile(tmp_path / "w.pt") as archive:
        assert [archive.getinfo(f"w/data/{n}").file_size for n in range(10)] == [4000] * 10
    with pytest.raises(ValueError, match="share bytes"):
        read_torch(tmp_path / "w.pt")


def peak(code: str, folder: Path) -> tuple[int, str]:
    """The most memory that a piece of code takes, beside its imports, and what it printed."""
    text = "import resource, torch\nfrom pathlib import Path\nfrom leastwise.models.load.dispatch import load_model\n"
    text += "from leastwise.data.loading import load\nbefore = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
    text += f"try:\n    {code}\nexcept ValueError as error:\n    print(error)\n"
    text += "print('PEAK', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    made = subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, timeout=300)
    assert "PEAK" in made.stdout, made.stderr[-1000:]
    return int(made.stdout.split("PEAK ")[1]) * 1024, made.stdout


def test_no_network_is_built_before_the_shapes_are_compared(tmp_path: Path) -> None:
    """A checkpoint of a few kilobytes that says its images have ten million channels: 5 GB of weights."""
    checkpoint(tmp_path, shape=[10_000_000, 32, 32])
    used, said = peak("load_model('model.pt', (1, 28, 28), [str(c) for c in range(10)])", tmp_path)
    assert "do not fit" in said and used < 300 << 20


def test_weights_that_announce_more_than_the_file_holds_are_refused(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(1).expand(100_000, 1000)}, tmp_path / "w.pt")
    with pytest.raises(ValueError, match="announces weights of 400,000,000 bytes"):
        load_checkpoint(tmp_path / "w.pt", "convnet", (1, 28, 28), k=10)


def test_a_packed_archive_of_nothing_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(
        tmp_path / "set.npz", images=np.zeros((90_000, 1, 28, 28), np.uint8), labels=np.zeros(90_000, int)
    )
    assert (tmp_path / "set.npz").stat().st_size < 1 << 20
    with pytest.raises(ValueError, match="would unpack to"):
        load(str(tmp_path / "set.npz"))


ODD: dict[str, tuple[Callable[[], object], str]] = {
    "sparse": (lambda: torch.eye(3).to_sparse(), "a sparse tensor"),
    "compressed rows": (lambda: torch.eye(3).to_sparse_csr(), "a sparse tensor"),
    "complex": (lambda: torch.ones(3, 3, dtype=torch.complex64), "complex numbers"),
    "quantised": (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "quantised numbers"),
    "without numbers": (lambda: torch.ones(3, 3, device="meta"), "model.pt"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ODD)
def test_weights_that_are_no_plain_numbers_are_one_sentence(name: str, tmp_path: Path) -> None:
    make, said = ODD[name]
    state = torch.load(tmp_path / checkpoint(tmp_path), weights_only=True)["state_dict"]
    checkpoint(tmp_path, state_dict=dict(state) | {next(iter(state)): make()})
    with pytest.raises(ValueError, match=said):
        load_checkpoint(tmp_path / "model.pt")


@pytest.mark.parametrize("notes", [5, "text", [5], [b"x"], {"a": 1}])
def test_notes_that_are_no_texts_are_one_sentence(notes: object, tmp_path: Path) -> None:
    checkpoint(tmp_path, notes=notes)
    with pytest.raises(ValueError, match="notes is wrong"):
        load_checkpoint(tmp_path / "model.pt")


def test_a_flipped_bit_of_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / checkpoint(tmp_path)
    good = load_checkpoint(path)
    needle = next(good.parameters()).detach().numpy().tobytes()[:16]
    content = bytearray(path.read_bytes())
    content[content.index(needle) + 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged or was edited"):
        load_checkpoint(path)


def test_notes_of_a_checkpoint_cannot_write_lines_or_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint(tmp_path, notes=["\x1b[2J\x1b]0;owned\x07 a\nwarning: all is well"])
    assert main(["audit", "model.pt", "--attack", "clean", "--per-class", "1", "--force", "--out", "o"]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\x07" not in said and "\nwarning: all is well" not in said
    assert r"\x1b[2J\x1b]0;owned\x07 a\nwarning: all is well" in said


GHOSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


def test_an_eps_called_png_starts_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for Ghostscript leaves a trace when it is started, which Pillow alone does do."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/STARTED\n")
    (tools / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for part in ("a", "b"):
        (tmp_path / "set" / part).mkdir(parents=True)
        (tmp_path / "set" / part / "1.png").write_bytes(GHOSTSCRIPT)
    with pytest.raises(ValueError, match="can be read"):
        load(str(tmp_path / "set"))
    assert not (tmp_path / "STARTED").exists()
    import PIL.EpsImagePlugin

    monkeypatch.setattr(PIL.EpsImagePlugin, "gs_binary", None)
    with pytest.raises(Exception), Image.open(tmp_path / "set" / "a" / "1.png") as image:  # noqa: B017
        image.load()
    assert (tmp_path / "STARTED").exists()  # so this is what was kept from happening


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP"])
def test_the_usual_formats_are_read(kind: str) -> None:
    held = io.BytesIO()
    Image.new("RGB", (9, 7), (10, 200, 30)).save(held, kind)
    with open_raster(io.BytesIO(held.getvalue())) as image:
        assert image.size == (9, 7) and kind in RASTERS


def test_no_module_opens_images_by_itself() -> None:
    import leastwise

    root = Path(leastwise.__file__).parent
    found = [path.name for path in root.rglob("*.py") if "Image.open(" in path.read_text()]
    assert found == ["raster.py"]


def test_a_lock_that_is_a_link_is_refused_and_what_is_behind_it_stays(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for make in (lambda path: path.symlink_to(victim), lambda path: path.hardlink_to(victim), os.mkfifo):
        folder = tmp_path / f"folder{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        make(folder / LOCK)
        with pytest.raises(ValueError, match="is a link or no plain file"), lock_folder(folder):
            pass
        assert victim.read_text() == "precious"


def test_a_ledger_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / "shards" / "ledger.sqlite").symlink_to(tmp_path / "other")
    with pytest.raises(ValueError, match="reached by a link"), open_ledger(tmp_path / "shards"):
        pass
    (tmp_path / "linked").symlink_to(tmp_path / "shards")
    with pytest.raises(ValueError, match="reached by a link"), open_ledger(tmp_path / "linked"):
        pass
    assert (tmp_path / "other").read_bytes() == b""


def test_new_files_have_the_users_permissions_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask was touched"))
    write_atomic(tmp_path / "a", b"x")
    monkeypatch.undo()
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "b", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o640 and sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def huggingface(folder: Path, **config: object) -> Path:
    from safetensors.torch import save_file

    (folder / "config.json").write_text(json.dumps({"model_type": "vit", "num_labels": 10} | config))
    save_file({f"w{n}": torch.zeros(4, 4) for n in range(20)}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"num_hidden_layers": 10_000_000}, "describes a network with num_hidden_layers 10,000,000"),
        ({"depths": [2, 9_000_000]}, "describes a network with depths 9,000,000"),
        ({"num_labels": 10**10}, "describes a network with num_labels"),
        ({"backbone": {"auto_map": {"AutoModel": "m.M"}}}, r"brings its own code \(auto_map"),
        ({"attn_implementation": "kernels-community/evil"}, "asks for the code kernels-community/evil"),
        ({"text_config": {"_attn_implementation": "a/b"}}, "asks for the code a/b"),
        ({"quantization_config": {"quant_method": "x"}}, "brings its own code"),
    ],
)
def test_descriptions_that_bring_code_or_too_much_are_refused(
    config: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=said):
        check_config(huggingface(tmp_path, **config), trust=False)


def test_usual_descriptions_pass_and_trust_opens_code(tmp_path: Path) -> None:
    check_config(huggingface(tmp_path, num_hidden_layers=12, attn_implementation="sdpa", image_size=224), trust=False)
    check_config(huggingface(tmp_path, attn_implementation="a/b", auto_map={"a": "b"}), trust=True)


def test_a_tight_limit_on_files_is_one_sentence(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    command = [
        sys.executable,
        "-m",
        "leastwise",
        "audit",
        "model.pt",
        "--attack",
        "clean",
        "--per-class",
        "1",
        "--force",
    ]
    for size in (0, 2000):
        made = subprocess.run(
            [*command, "--out", f"o{size}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            # Under the limit Python would keep compiled files that end in the middle, and later runs would stumble.
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
            preexec_fn=lambda size=size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        )
        assert made.returncode == 2 and len(made.stderr.splitlines()) == 1, made.stderr
        # With dill on the machine torch asks for a temporary folder first, and finds none either.
        assert re.search("cannot use o|No usable temporary directory", made.stderr) and len(NAMES) == 10


# Some end while torch, numpy or scipy is loaded: OpenBLAS would wait for ever at 700, torch abort at 500.
@pytest.mark.faults
@pytest.mark.parametrize("size", [150, 400, 500, 600, 700, 750])
def test_a_tight_limit_on_memory_is_one_sentence(size: int, tmp_path: Path) -> None:
    checkpoint(tmp_path)
    command = [
        sys.executable,
        "-m",
        "leastwise",
        "audit",
        "model.pt",
        "--attack",
        "clean",
        "--per-class",
        "1",
        "--force",
    ]
    made = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size << 20, size << 20)),
    )
    assert made.returncode == 2 and "there is not enough memory" in made.stderr and "Traceback" not in made.stderr


def test_an_onnx_loop_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    onnx = pytest.importorskip("onnx", reason="needs onnx to write the file")
    make, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    number, truth, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, onnx.TensorProto.INT64
    body = onnx.helper.make_graph(
        [make("Identity", ["go"], ["on"]), make("Add", ["z", "one"], ["z2"])],
        "body",
        [value("i", whole, []), value("go", truth, []), value("z", number, None)],
        [value("on", truth, []), value("z2", number, None)],
    )
    held = [
        onnx.helper.make_tensor("yes", truth, [], [True]),
        onnx.helper.make_tensor("many", whole, [], [2**62]),
        onnx.helper.make_tensor("one", number, [], [1e-9]),
    ]
    graph = onnx.helper.make_graph(
        [make("Flatten", ["x"], ["flat"]), make("Loop", ["many", "yes", "flat"], ["out"], body=body)],
        "endless",
        [value("x", number, ["b", 1, 2, 5])],
        [value("out", number, ["b", 10])],
        held,
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 10
    onnx.save(model, tmp_path / "endless.onnx")
    from leastwise.models.load import onnx as ours
    from leastwise.models.load.dispatch import load_model

    monkeypatch.setattr(ours, "LONGEST", 1.0)
    net = load_model(tmp_path / "endless.onnx", (1, 2, 5), NAMES)
    begun = time.monotonic()
    with pytest.raises(ValueError, match="gave no answer for 2 images within 1 seconds"):
        net(torch.rand(2, 1, 2, 5))
    assert time.monotonic() - begun < SOON


def test_every_line_on_security_names_a_test_that_is_there() -> None:
    root = Path(__file__).parents[2]
    held = (root / "SECURITY.md").read_text().split("## What is held")[1].split("## Reporting")[0]
    lines = held.replace("\n  ", " ").splitlines()
    for line in [line for line in lines if line.startswith("- ") and "loopback" not in line]:
        file, _, name = line.rstrip("`").rpartition("`")[2].partition("::")
        text = (root / "tests" / file).read_text()
        assert f"def {name}(" in text if name else "def test_" in text, line
