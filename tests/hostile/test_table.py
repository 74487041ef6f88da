"""Bad and hostile input, one table: each gets one clear sentence and exit code 2; nothing is written or executed."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from leastwise.cli.main import main
from tests.hostile import files
from tests.hostile.files import CANARY, NAMES, checkpoint, folder_of, nested, npz, pictures, safetensors, written

Make = Callable[[Path], object]


class Case(NamedTuple):
    arguments: str  # MODEL: a good checkpoint
    said: str  # a part of the sentence
    make: Make = lambda folder: None  # writes the files


def model(make: Make, said: str, more: str = "") -> Case:
    return Case(f"audit model.pt --attack clean {more}", said, make)


def data(make: Make, said: str, more: str = "--data ./set.npz") -> Case:
    return Case(f"audit MODEL --attack clean {more}", said, make)


def option(arguments: str, said: str) -> Case:
    return Case(f"audit MODEL {arguments}", said)


def gate(demand: str, said: str) -> Case:
    return Case("gate summary.json|" + demand, said, lambda folder: written(folder, "summary.json", files.summary()))


def study(text: str, said: str) -> Case:
    return Case("study s.toml", said, lambda folder: written(folder, "s.toml", text))


IMAGES = np.zeros((20, 1, 28, 28), np.uint8)
DEEP = nested()
SAFE = "--arch convnet"

CASES: dict[str, Case] = {
    # Checkpoints
    "a pickle that runs code": model(files.raw_pickle, "not a checkpoint of plain weights"),
    "code among the weights": model(files.torch_pickle, "not a checkpoint of plain weights"),
    "code in a .pth": Case(
        "audit net.pth", "not a checkpoint of plain weights", lambda f: files.raw_pickle(f, "net.pth")
    ),
    "code in a .bin": Case(
        "audit net.bin", "not a checkpoint of plain weights", lambda f: files.torch_pickle(f, "net.bin")
    ),
    "an exported program": Case(
        "audit net.pt2", "add --trust if you trust", lambda f: files.torch_pickle(f, "net.pt2")
    ),
    "a damaged program, trusted": Case(
        "audit net.pt2 --trust", "is not an exported program", lambda f: written(f, "net.pt2", b"PK\3\4 nothing")
    ),
    "a compressed checkpoint": model(files.packed_checkpoint, "is a compressed archive"),
    "a web page": model(
        lambda f: written(f, "model.pt", "<!DOCTYPE html><html>quota exceeded</html>"), "not a checkpoint"
    ),
    "an empty file": model(lambda f: written(f, "model.pt", b""), "not a checkpoint of plain weights"),
    "a checkpoint that is cut off": model(
        lambda f: written(f, "model.pt", (f / checkpoint(f)).read_bytes()[:5000]), "not a checkpoint of plain weights"
    ),
    "a pickle nested without end": model(lambda f: written(f, "model.pt", b"(" * 100_000 + b"."), "not a checkpoint"),
    "a folder called like a file": model(lambda f: (f / "model.pt").mkdir(), "there is no model 'model.pt'"),
    "a pipe": model(files.pipe, "model.pt is not a file that can be read"),
    "a device without end": model(lambda f: files.linked(f, "/dev/zero"), "model.pt is not a file that can be read"),
    "a link to nothing": model(lambda f: files.linked(f, "gone"), "there is no model 'model.pt'"),
    "a link to itself": model(lambda f: files.linked(f, "model.pt"), "model.pt"),
    "weights that are no numbers": model(lambda f: checkpoint(f, float("nan")), "not finite"),
    "infinite weights": model(lambda f: checkpoint(f, float("inf")), "not finite"),
    "other classes": model(lambda f: checkpoint(f, names=NAMES[::-1]), "was trained on the classes"),
    "fewer classes": model(lambda f: checkpoint(f, names=NAMES[:7]), "was trained on the classes"),
    "an absurd shape": model(lambda f: checkpoint(f, shape=[1, 10**9, 10**9]), "was trained on images of shape"),
    "a shape of two numbers": model(
        lambda f: checkpoint(f, shape=[1, 28]), "is not a whole checkpoint (shape is wrong)"
    ),
    "a shape of words": model(lambda f: checkpoint(f, shape=["a", "b", "c"]), "is not a whole checkpoint"),
    "no spread": model(lambda f: checkpoint(f, mean=[0.5], std=[0.0]), "std positive"),
    "a mean that is no number": model(lambda f: checkpoint(f, mean=[float("nan")], std=[1.0]), "mean must be finite"),
    "an architecture that is code": model(
        lambda f: checkpoint(f, arch="os.system"), "there is no architecture 'os.system'"
    ),
    "weights that are text": model(lambda f: checkpoint(f, state_dict={"a": "b"}), "model.pt"),
    "safetensors that promise too much": Case(
        f"audit model.safetensors {SAFE}", "not a checkpoint", lambda f: safetensors(f, b"{}", 2**62)
    ),
    "safetensors nested too deeply": Case(
        f"audit model.safetensors {SAFE}", "not a checkpoint", lambda f: safetensors(f, DEEP.encode())
    ),
    "safetensors of an absurd shape": Case(
        f"audit model.safetensors {SAFE}",
        "not a checkpoint",
        lambda f: safetensors(f, b'{"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}'),
    ),
    "a network nobody understands": Case(
        "audit net.onnx", "net.onnx", lambda f: written(f, "net.onnx", b"\x08\x01hello")
    ),
    "a folder with code": Case(
        "audit hf",
        "hf",
        lambda f: (
            written(
                f, "hf/config.json", '{"model_type": "evil", "auto_map": {"AutoModelForImageClassification": "m.M"}}'
            ),
            written(f, "hf/m.py", f"import os; os.mkdir({CANARY!r})"),
        ),
    ),
    "a folder whose description is nested": Case("audit hf", "", lambda f: written(f, "hf/config.json", DEEP)),
    # Data sets
    "objects in an archive": data(
        lambda f: npz(f, labels=np.array([files.Payload()] * 20)), "object arrays would need pickle"
    ),
    "objects as images": data(
        lambda f: npz(f, images=np.array([files.Payload()] * 20)), "object arrays would need pickle"
    ),
    "objects in a .npy": data(files.npy, "object arrays would need pickle", "--data ./images.npy"),
    "a zip bomb": data(files.npz_bomb, "would unpack to"),
    "an archive with ../ members": data(
        lambda f: files.npz_members(f, "../../EXECUTED.npy", "/tmp/EXECUTED.npy"), "needs the arrays images and labels"
    ),
    "an archive of nothing": data(lambda f: files.npz_members(f), "needs the arrays images and labels"),
    "an archive that is none": data(lambda f: written(f, "set.npz", b"PK\3\4 no"), "not a readable .npz"),
    "an absurd number of images": data(lambda f: files.npz_promise(f, f"({10**15}, 1, 28, 28)"), "bytes are announced"),
    "a negative number of images": data(lambda f: files.npz_promise(f, "(-5, 1, 28, 28)"), "cannot have the shape"),
    "a shape that is code": data(
        lambda f: files.npz_promise(f, "__import__('os').mkdir('EXECUTED')"), "not a readable .npz"
    ),
    "no labels": data(lambda f: npz(f, labels=None), "needs the arrays images and labels"),
    "labels with a fraction": data(lambda f: npz(f, labels=np.arange(20) / 2), "labels need an integer type"),
    "labels out of range": data(lambda f: npz(f, names=np.array(NAMES), labels=np.arange(20)), "labels must be 0 to 9"),
    "negative labels": data(lambda f: npz(f, labels=np.arange(20) - 5), "labels must be 0 to"),
    "absurd labels": data(lambda f: npz(f, labels=np.arange(20) * 10**12), "renumber them from 0"),
    "too few labels": data(lambda f: npz(f, labels=np.arange(19)), "every image needs one label"),
    "an id twice": data(lambda f: npz(f, ids=np.zeros(20, int)), "every image needs its own id"),
    "ids with a fraction": data(lambda f: npz(f, ids=np.arange(20) / 2), "ids need an integer type"),
    "a class name twice": data(lambda f: npz(f, names=np.array(["a"] * 10)), "every class needs its own name"),
    "images as floats": data(lambda f: npz(f, images=IMAGES / 255), "images need the type uint8"),
    "images of five dimensions": data(lambda f: npz(f, images=IMAGES[None]), "images need the shape"),
    "images without pixels": data(lambda f: npz(f, images=IMAGES[:, :, :0]), "at least one pixel"),
    "no images": data(lambda f: npz(f, images=IMAGES[:0], labels=np.zeros(0, int)), "at least one image"),
    "images of another size": data(
        lambda f: npz(f, images=IMAGES[..., :27], names=np.array(NAMES)), "was trained on images"
    ),
    "one class": data(lambda f: npz(f, labels=np.zeros(20, int)), "class"),
    "several sizes": Case(
        "audit net.py:build --attack clean --data ./set", "have 2 sizes", lambda f: pictures(f, (28, 28), (20, 28))
    ),
    "several sizes for a model of other classes": data(
        lambda f: pictures(f, (28, 28), (20, 28)), "was trained on the classes", "--data ./set"
    ),
    "an absurd crop": data(lambda f: pictures(f, (28, 28), (28, 28)), "size", "--data ./set --size 100000000"),
    "a folder without classes": data(lambda f: (f / "set").mkdir(), "has no sub-folders", "--data ./set"),
    "classes without images": data(lambda f: (f / "set" / "a").mkdir(parents=True), "holds no images", "--data ./set"),
    "text called .png": data(
        lambda f: folder_of(f, {"a/1.png": "hello", "b/1.png": "bye"}), "can be read", "--data ./set"
    ),
    "a picture bomb": data(files.picture_bomb, "can be read", "--data ./set"),
    "pictures that are pipes": data(
        lambda f: ((f / "set" / "a").mkdir(parents=True), files.os.mkfifo(f / "set" / "a" / "1.png")),
        "can be read",
        "--data ./set",
    ),
    "pictures that link out to nothing": data(
        lambda f: ((f / "set" / "a").mkdir(parents=True), (f / "set/a/1.png").symlink_to("/gone")),
        "can be read",
        "--data ./set",
    ),
    "code in a CIFAR batch": data(files.cifar, "which is code", "--data cifar10/test --data-dir d"),
    "a CIFAR batch that is cut": data(
        lambda f: written(f, "d/cifar-10-batches-bin/test_batch.bin", bytes(3073 * 4 - 1)),
        "test_batch",
        "--data cifar10/test --data-dir d",
    ),
    "digits that promise too much": data(
        lambda f: (
            written(f, "d/mnist/t10k-images-idx3-ubyte", struct.pack(">IIII", 0x803, 2**31, 28, 28)),
            written(f, "d/mnist/t10k-labels-idx1-ubyte", struct.pack(">II", 0x801, 2**31)),
        ),
        "idx",
        "--data mnist/test --data-dir d",
    ),
    "house numbers of noise": data(
        lambda f: written(f, "d/svhn/test_32x32.mat", bytes(range(256)) * 8),
        "test_32x32.mat",
        "--data svhn/test --data-dir d",
    ),
    "a data folder that is a file": data(
        lambda f: written(f, "d", b""), "must name a folder", "--data mnist/test --data-dir d"
    ),
    "groups of unknown classes": data(lambda f: written(f, "g.txt", "pets: cat, dog"), "cat", "--groups g.txt"),
    "groups that are no text": data(lambda f: written(f, "g.txt", bytes(range(256))), "g.txt", "--groups g.txt"),
    "costs of the wrong size": data(lambda f: written(f, "c.csv", "a,b\n1,2\n"), "c.csv", "--costs c.csv"),
    "costs that are formulas": data(lambda f: written(f, "c.csv", '=cmd|"/C calc"!A0,b\n'), "c.csv", "--costs c.csv"),
    # Options
    "eps of nothing": option("--eps=", "eps must be a number"),
    "eps twice divided": option("--eps 8/255/2", "eps must be a number"),
    "eps of code": option("--eps __import__('os')", "eps must be a number"),
    "eps in hexadecimal": option("--eps 0x8p3", "eps must be a number"),
    "an endless eps": option("--eps inf", "eps must be a finite number"),
    "eps beyond floats": option("--eps 1e999", "eps must be a finite number"),
    "eps over nothing": option("--eps 1/0", "eps must be a number"),
    "eps that is no number": option("--eps nan/nan", "eps must be a finite number"),
    "eps in a list with a hole": option("--eps 8/255,,4/255", "eps must be a number"),
    "a negative eps in a list": option("--eps 8/255,-1/255", "eps must be a finite number"),
    "no steps": option("--attack pgd0", "pgd0"),
    "negative steps": option("--attack pgd-5", "there is no attack 'pgd-5'"),
    "steps of code": option("--attack pgd$(id)", "there is no attack 'pgd$(id)'"),
    "a negative step size": option("--step -1", "the step must be zero or more"),
    "a step that is no number": option("--step nan", "step"),
    "negative shards": option("--shard -3", "a shard needs 1 image or more"),
    "a time budget backwards": option("--time-budget -5m", "the time budget must be like"),
    "a time budget for ever": option("--time-budget forever", "the time budget must be like"),
    "a class that is not there": option("--only <script>", "there is no class '<script>'"),
    "a name that commands the terminal": option("--only \x1b[2J", "\\x1b[2J"),
    "a mean that is text": option("--mean a,b", "mean must be a number"),
    "a module that is not there": Case("audit nowhere.land:build", "cannot import 'nowhere.land'"),
    "a function that exits": Case(
        "audit mine.py:build",
        "failed with SystemExit",
        lambda f: written(f, "mine.py", "def build():\n    raise SystemExit\n"),
    ),
    "workers without an engine": option("--workers 2", "--workers needs --engine dask"),
    "fewer workers than none": option("--engine dask --workers -2", "--workers must be 1 or more"),
    "an engine of another kind": option("--engine ray", "invalid choice 'ray'"),
    "a scheduler of code": option("--engine dask --scheduler $(id)", "is like tls://machine:8786"),
    "a scheduler without encryption": option("--engine dask --scheduler tcp://10.9.8.7:8786", "without encryption"),
    "no certificate": option("--engine dask --scheduler tls://10.9.8.7:8786 --tls gone", "there is no gone/cert.pem"),
    "a limit of nothing": option("--engine dask --shard-limit 0s", "--shard-limit must be like"),
    "a setting nobody has": Case("train trades --set betta=6", "did you mean beta"),
    "a setting that is code": Case("train trades --set beta=__import__('os').mkdir('EXECUTED')", "beta"),
    "a setting that is no number": Case("train trades --set beta=nan", "finite numbers only"),
    "an epoch of words": Case("train standard --test-at soon", "test-at takes whole numbers"),
    # Studies and reproductions
    "a study nested too deeply": study("methods = " + DEEP, "nested too deeply"),
    "a study that is no text": Case("study s.toml", "s.toml", lambda f: written(f, "s.toml", bytes(range(256)))),
    "a study with a key nobody knows": study("metods = ['trades']", "did you mean methods?"),
    "a study of code": study("methods = ['trades']\nseeds = ['open(1)']", "whole number"),
    "a study with an endless radius": study("methods = ['trades']\neps = [inf]", "eps must be a finite number"),
    "a study of negative steps": study("methods = ['trades']\n[train]\nsteps = -1", "steps"),
    "a study without an end": study("methods = ['trades'", "s.toml"),
    "a paper that is a path": Case("reproduce ../../etc/passwd --scale smoke", "there is no paper '..'"),
    "a row that is a pattern of code": Case(
        "reproduce ahn/table1 --scale smoke --only $(id)", "no row is called '$(id)'"
    ),
    "a reproduction by workers without an engine": Case(
        "reproduce ahn/table1 --scale smoke --workers 2", "--workers needs --engine dask"
    ),
    # Gates and results
    "a gate of code": gate("__import__('os').mkdir('EXECUTED') >= 0", "the gate"),
    "a gate that calls": gate("worst(open('/etc/passwd')) >= 0", "no readable argument"),
    "a gate that goes on": gate("worst(clean) >= 0; import os", "where a comparison belongs"),
    "a gate with a lambda": gate("(lambda: 0)() >= 0", "the gate"),
    "a gate without a number": gate("worst(clean) >= nan", "where a comparison belongs"),
    "a gate of brackets": gate("worst(" * 5000, "no readable argument"),
    "a gate under no condition": gate("worst(pgd20) >= 0.1", "pgd20"),
    "a gate of a class that is not there": gate("accuracy(<img onerror=x>, clean) >= 0.1", "<img onerror=x>"),
    "an endless gate": gate("worst(clean) >= 1e999", "never crosses"),
    "a summary nested too deeply": Case(
        "gate summary.json|worst(clean) >= 0", "", lambda f: written(f, "summary.json", '{"classes": ' + DEEP + "}")
    ),
    "a summary of more right than there are": Case(
        "gate summary.json|worst(clean) >= 0",
        "is not a summary",
        lambda f: written(f, "summary.json", files.summary(conditions={"clean": {"correct": [3] * 10, "n": [2] * 10}})),
    ),
    "a summary of endless numbers": Case(
        "gate summary.json|worst(clean) >= 0",
        "is not a summary",
        lambda f: written(f, "summary.json", f'{{"classes": {"9" * 9999}}}'),
    ),
    "evidence of code": Case(
        "report r", "is not evidence", lambda f: (f / "r").mkdir() or files.raw_pickle(f, "r/evidence.safetensors")
    ),
    "evidence that promises too much": Case(
        "compare r r2", "is not evidence", lambda f: written(f, "r/evidence.safetensors", struct.pack("<Q", 2**63))
    ),
    "evidence nested too deeply": Case(
        "report r", "", lambda f: written(f, "r/evidence.safetensors", struct.pack("<Q", len(DEEP)) + DEEP.encode())
    ),
    "results of unknown origin": Case(
        "audit MODEL --per-class 1 --attack clean --out r",
        "of unknown origin",
        lambda f: written(f, "r/evidence.safetensors", b"mine"),
    ),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("good")
    return str(folder / checkpoint(folder))


def inside(folder: Path) -> list[tuple[str, bytes]]:
    return sorted(
        (str(path.relative_to(folder)), path.read_bytes() if path.is_file() and not path.is_symlink() else b"")
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts  # the interpreter's own, of a file that was named as code
    )


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_one_sentence(
    name: str, good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEASTWISE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path.parent / "cache"))
    case.make(tmp_path)
    before = inside(tmp_path)
    words, _, demand = case.arguments.partition("|")
    arguments = [good if word == "MODEL" else word for word in words.split()] + ([demand] if demand else [])
    code = main(arguments)
    said = capsys.readouterr().err.splitlines()
    assert code == 2 and len(said) == 1 and said[0].startswith("leastwise: ") and case.said in said[0], said
    assert "Traceback" not in said[0] and "EXECUTED'" not in str(sorted(Path().iterdir()))
    assert inside(tmp_path) == before
