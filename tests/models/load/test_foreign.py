"""Exported programs, Hugging Face folders and ONNX files give the logits they give elsewhere, or say why not."""

import copy
import json
import pickle
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from leastwise.models.classifier import inference, wrap
from leastwise.models.load.dispatch import load_model
from leastwise.models.load.huggingface import read_normalisation
from leastwise.models.zoo.registry import build
from tests.conftest import SHAPE, B, K
from tests.models.linear_network import BIAS, LINEAR, MEAN, NAMES, SIZE, STD, WEIGHT, Batch, Payload


class Constant(nn.Module):
    """A number that is no parameter, and a tensor that is no buffer."""

    def __init__(self, shift: float) -> None:
        super().__init__()
        self.shift, self.linear = shift, nn.Linear(SIZE, K)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.flatten(1)) * 2.0 + torch.tensor([self.shift] * K)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    net = build("small", SHAPE, K, seed=4).eval().net
    x = torch.rand(2, *SHAPE)
    batches = ({0: torch.export.Dim("b")},)
    nets: dict[str, tuple[nn.Module, object]] = {"any": (net, batches), "two": (net, None)}
    for name, shift in (("zero", 0.0), ("one", 1.0)):
        torch.manual_seed(0)
        nets[name] = Constant(shift), batches
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about weights in channels-last order
        for name, (module, shapes) in nets.items():
            torch.export.save(torch.export.export(module, (x,), dynamic_shapes=shapes), folder / f"{name}.pt2")
    return folder


def test_exported_programs_need_trust_and_sense(tmp_path: Path) -> None:
    path = tmp_path / "x.pt2"
    for content in (b"", b"rubbish" * 9, pickle.dumps(Payload(tmp_path / "executed"))):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="can run code that is inside it: add --trust"):
            load_model(path, SHAPE, NAMES)
        assert not (tmp_path / "executed").exists()
    path.write_bytes(b"rubbish" * 9)
    with pytest.raises(ValueError, match=r"is not an exported program \(.*\): write it with torch.export.save"):
        load_model(path, SHAPE, NAMES, trust=True)


@pytest.mark.medium
def test_an_exported_program_gives_the_same_logits_and_gradients(programs: Path, batch: Batch) -> None:
    original = build("small", SHAPE, K, mean=MEAN, std=STD, seed=4).eval()
    model = load_model(programs / "any.pt2", SHAPE, NAMES, mean=MEAN, std=STD, trust=True)
    twin = copy.deepcopy(model)
    with inference(model), inference(twin):
        for n in (1, 3, B):
            x = batch[0][:n].clone().requires_grad_()
            ours, theirs = (torch.autograd.grad(m(x)[:, 1].sum(), x)[0] for m in (model, original))
            assert torch.allclose(model(x), original(x), atol=1e-6) and torch.allclose(ours, theirs, atol=1e-6)
            assert torch.equal(model(x), twin(x))
    assert model.gradients
    with pytest.raises(ValueError, match="was exported, which leaves no layers"):
        model.features(batch[0])
    program = torch.export.load(programs / "any.pt2")
    for given in (program, program.module()):
        with inference(wrap(given, K, mean=MEAN, std=STD)) as same:
            assert torch.allclose(same(batch[0]), original(batch[0]), atol=1e-6)


@pytest.mark.medium
def test_exported_programs_that_do_not_suit_say_why(programs: Path) -> None:
    with pytest.raises(ValueError, match=r"exactly 2, but attacks need any number: .*dynamic_shapes=\(\{0: torch"):
        load_model(programs / "two.pt2", SHAPE, NAMES, trust=True)
    with pytest.raises(ValueError, match="takes images of 3 × 8 × 6, but the data has 3 × 9 × 9"):
        load_model(programs / "any.pt2", (3, 9, 9), NAMES, trust=True)
    with pytest.raises(ValueError, match="has 5 outputs, but the data has 3 classes"):
        load_model(programs / "any.pt2", SHAPE, NAMES[:3], trust=True)


@pytest.mark.medium
def test_the_digest_of_a_program_covers_weights_graph_and_constants(programs: Path) -> None:
    def digest(name: str) -> str:
        return load_model(programs / name, SHAPE, NAMES, trust=True).digest()

    assert digest("any.pt2") == digest("any.pt2")
    assert len({digest(name) for name in ("any.pt2", "zero.pt2", "one.pt2")}) == 3
    given = [wrap(torch.export.load(programs / name), K).digest() for name in ("zero.pt2", "one.pt2", "one.pt2")]
    assert given[0] != given[1] == given[2]


def transformers() -> Any:
    return pytest.importorskip("transformers", reason="needs the extra hf")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny ResNet with BatchNorm, freshly made."""
    hf = transformers()
    path = tmp_path_factory.mktemp("hf") / "resnet"
    torch.manual_seed(0)
    labels = dict(enumerate(NAMES))
    config = hf.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", num_labels=K, id2label=labels
    )
    hf.AutoModelForImageClassification.from_config(config).save_pretrained(path)
    return path


def copied(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to)
    return to


def edited(folder: Path, name: str = "config.json", **changes: object) -> Path:
    path = folder / name
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**old, **changes}))
    return folder


PROCESSOR: dict[str, Any] = {"do_normalize": True, "image_mean": list(MEAN), "image_std": list(STD)}


@pytest.mark.medium
def test_a_huggingface_folder_gives_its_logits(folder: Path, tmp_path: Path, batch: Batch) -> None:
    x, _ = batch
    theirs = transformers().AutoModelForImageClassification.from_pretrained(folder).eval()
    model = load_model(folder, SHAPE, NAMES).eval()
    with torch.no_grad():
        assert torch.equal(model(x), theirs(x).logits)
        assert torch.allclose(theirs.classifier[1](model.features(x)), model(x), atol=1e-6)
    assert model.gradients and model.mean == () and model.notes[0].endswith("give --mean and --std")

    path = edited(copied(folder, tmp_path / "a"), "preprocessor_config.json", **PROCESSOR, size={"shortest_edge": 224})
    model = load_model(str(path), SHAPE, ("1", "2", "3", "4", "5"), resize=False).eval()
    by_hand = (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    with torch.no_grad():
        assert torch.allclose(model(x), theirs(by_hand).logits, atol=1e-5)
    assert (model.mean, model.std) == (MEAN, STD)
    assert "mean 0.25, 0.5, 0.125 and std 0.5, 0.25, 0.75 are those of" in model.notes[0]
    assert "resizes images to 298 × 224; the data's 8 × 6 are used as they are" in model.notes[1]
    assert "calls its classes ant, bee, cow, dog, elk, the data 1, 2, 3, 4, 5: check" in model.notes[2]
    assert load_model(path, SHAPE, NAMES, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)).mean == (0.0, 0.0, 0.0)
    resized = load_model(f"hf:{path}", SHAPE, NAMES).eval()
    assert "resizes the data's 8 × 6 to 298 × 224 (shorter side 224, bilinear), inside the network" in resized.notes[-1]
    with torch.no_grad():
        larger = nn.functional.interpolate(by_hand, (298, 224), mode="bilinear", antialias=True)
        assert torch.allclose(resized(x), theirs(larger).logits, atol=1e-5)
    newer = edited(copied(folder, tmp_path / "b"), "processor_config.json", image_processor=PROCESSOR)
    assert load_model(newer, SHAPE, ("0", "1", "2", "3", "4")).mean == MEAN


@pytest.mark.parametrize(
    ("processor", "expected"),
    [
        ({}, lambda p: p / 255),
        ({**PROCESSOR, "do_normalize": False}, lambda p: p / 255),
        ({"do_rescale": False}, lambda p: p),
        ({"do_normalize": True, "image_mean": 0.5, "image_std": 0.25}, lambda p: (p / 255 - 0.5) / 0.25),
        ({"rescale_factor": 1 / 127.5, "rescale_offset": True}, lambda p: p / 127.5 - 1),
        (
            {"rescale_factor": 1 / 127.5, "rescale_offset": True, "image_mean": [0.5], "image_std": [2.0]},
            lambda p: (p / 127.5 - 1 - 0.5) / 2,
        ),
    ],
)
def test_the_processors_arithmetic_on_pixels(
    processor: dict[str, Any], expected: Callable[[np.ndarray], np.ndarray]
) -> None:
    bytes_ = np.arange(256.0)
    mean, std = read_normalisation(processor, 1)
    x = bytes_ / 255
    assert np.allclose((x - mean[0]) / std[0] if mean else x, expected(bytes_))


@pytest.mark.medium
def test_the_digest_of_a_folder_is_its_content(folder: Path, tmp_path: Path) -> None:
    digest = load_model(folder, SHAPE, NAMES).digest()
    assert load_model(copied(folder, tmp_path / "elsewhere"), SHAPE, NAMES).digest() == digest
    changed = edited(copied(folder, tmp_path / "changed"), hidden_act="gelu")
    assert load_model(changed, SHAPE, NAMES).digest() != digest
    more = copied(folder, tmp_path / "more")
    save_file(
        {**load_file(more / "model.safetensors"), "extra": torch.zeros(1)}, more / "model.safetensors", {"format": "pt"}
    )
    assert load_model(more, SHAPE, NAMES).notes[-1].endswith("are not used: extra")


@pytest.mark.medium
def test_pickled_weights_load_only_as_plain_weights(folder: Path, tmp_path: Path, batch: Batch) -> None:
    model = load_model(folder, SHAPE, NAMES).eval()
    plain = copied(folder, tmp_path / "plain")
    (plain / "model.safetensors").unlink()
    torch.save(model.net.net.state_dict(), plain / "pytorch_model.bin")
    (plain / "training_args.bin").write_bytes(pickle.dumps(Payload(tmp_path / "executed")))  # nobody reads it
    assert torch.equal(load_model(plain, SHAPE, NAMES).eval()(batch[0]), model(batch[0]))
    for trust in (False, True):
        torch.save({"state_dict": Payload(tmp_path / "executed")}, plain / "pytorch_model.bin")
        with pytest.raises(ValueError, match=r"pytorch_model.bin is not a checkpoint of plain weights"):
            load_model(plain, SHAPE, NAMES, trust=trust)
    assert not (tmp_path / "executed").exists()


@pytest.mark.medium
def test_folders_that_are_no_finished_classifier_are_refused(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    with pytest.raises(ValueError, match=r"calls its 5 classes .* the data its 4 "):
        load_model(folder, SHAPE, NAMES[:4])
    headless = copied(folder, tmp_path / "headless")
    load_model(folder, SHAPE, NAMES).net.net.resnet.save_pretrained(headless)
    capfd.readouterr()  # saving shows a bar
    with pytest.raises(ValueError, match=r"no weights that fit classifier.1.bias, classifier.1.weight, which"):
        load_model(headless, SHAPE, NAMES)
    other = edited(copied(folder, tmp_path / "other"), id2label={str(c): str(c) for c in range(7)})
    with pytest.raises(ValueError, match=r"no weights that fit classifier.1.bias, classifier.1.weight, which"):
        load_model(other, SHAPE, (*NAMES, "fox", "gnu"))
    bare = copied(folder, tmp_path / "bare")
    (bare / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"is not an image classifier that transformers can load \(OSError"):
        load_model(bare, SHAPE, NAMES)
    (bare / "model.safetensors").write_bytes(b"rubbish" * 9)
    with pytest.raises(ValueError, match=r"transformers can load \(SafetensorError"):
        load_model(bare, SHAPE, NAMES)
    text = edited(copied(folder, tmp_path / "text"), model_type="bert")
    with pytest.raises(ValueError, match=r"transformers can load \(ValueError: Unrecognized configuration"):
        load_model(text, SHAPE, NAMES)
    assert capfd.readouterr() == ("", "")  # one sentence, not the library's report


def test_folders_that_need_code_or_the_extra_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    auto = {"AutoModelForImageClassification": "mine.Mine"}
    (tmp_path / "mine.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'executed')!r})\n")
    edited(tmp_path, model_type="mine", auto_map=auto)
    with pytest.raises(ValueError, match=r"brings its own code \(auto_map in config.json\): add --trust"):
        load_model(tmp_path, SHAPE, NAMES)
    assert not (tmp_path / "executed").exists()
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json is not readable JSON"):
        load_model(tmp_path, SHAPE, NAMES)
    monkeypatch.setitem(sys.modules, "transformers", None)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"needs transformers .*: pip install 'leastwise\[hf\]'"):
        load_model(tmp_path, SHAPE, NAMES)


def onnx_linear(
    path: Path, batch: str | int = "b", outputs: tuple[str, ...] = ("z",), double: bool = False, external: bool = False
) -> Path:
    """z = W x + b in ONNX; further outputs are copies of it."""
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    onnx = pytest.importorskip("onnx", reason="needs onnx to write the file")
    number = onnx.TensorProto.DOUBLE if double else onnx.TensorProto.FLOAT
    weights = [WEIGHT.numpy(), BIAS.numpy()]
    stored = [
        onnx.numpy_helper.from_array(w.astype(np.float64) if double else w, n)
        for w, n in zip(weights, "wb", strict=True)
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Flatten", ["x"], ["flat"]),
            onnx.helper.make_node("Gemm", ["flat", "w", "b"], ["inner"], transB=1),
            *(onnx.helper.make_node("Identity", ["inner"], [name]) for name in outputs),
        ],
        "linear",
        [value("x", number, [batch, *SHAPE])],
        [value(name, number, [batch, K]) for name in outputs],
        stored,
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 10
    onnx.save(model, path, save_as_external_data=external, location="w.data", size_threshold=0)
    return path


@pytest.mark.parametrize("batch_size", ["b", 1, 5, 12, 20])
@pytest.mark.parametrize("double", [False, True])
def test_an_onnx_file_gives_the_logits_of_its_graph(
    batch_size: str | int, double: bool, tmp_path: Path, batch: Batch
) -> None:
    path = onnx_linear(tmp_path / "m.onnx", batch_size, double=double)
    model = load_model(path, SHAPE, NAMES, mean=MEAN, std=STD)
    expected = wrap(LINEAR.net, K, mean=MEAN, std=STD)
    for n in (1, 7, B):
        assert torch.allclose(model(batch[0][:n]), expected(batch[0][:n]), atol=1e-3)
    assert not model.gradients and "only query attacks" in model.notes[0]
    assert [f"takes exactly {batch_size} image" in note for note in model.notes[1:]] == [True] * (batch_size != "b")
    assert torch.equal(copy.deepcopy(model)(batch[0]), model(batch[0]))


def test_onnx_files_that_do_not_suit_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = onnx_linear(tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="has 5 outputs, but the data has 3 classes"):
        load_model(path, SHAPE, NAMES[:3])
    with pytest.raises(ValueError, match="takes images of 3 × 8 × 6, but the data has 1 × 8 × 6"):
        load_model(path, (1, 8, 6), NAMES)
    with pytest.raises(ValueError, match=r"must have one output of 5 logits per image, but has p .*, q "):
        load_model(onnx_linear(tmp_path / "two.onnx", outputs=("p", "q")), SHAPE, NAMES)
    assert load_model(onnx_linear(tmp_path / "named.onnx", outputs=("p", "logits")), SHAPE, NAMES).k == K
    for content in (b"", b"rubbish" * 9, path.read_bytes()[:200]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"cannot be read as an ONNX model \(.*\): check the file"):
            load_model(path, SHAPE, NAMES)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match=r"needs onnxruntime .*: pip install 'leastwise\[onnx\]'"):
        load_model(path, SHAPE, NAMES)


def test_the_digest_of_an_onnx_file_covers_the_weights_beside_it(tmp_path: Path) -> None:
    path = onnx_linear(tmp_path / "m.onnx", external=True)
    assert (tmp_path / "w.data").stat().st_size > WEIGHT.numel() * 4
    digest = load_model(path, SHAPE, NAMES).digest()
    (tmp_path / "unrelated.txt").write_text("x")
    assert load_model(path, SHAPE, NAMES).digest() == digest
    weights = bytearray((tmp_path / "w.data").read_bytes())
    weights[2] ^= 1
    (tmp_path / "w.data").write_bytes(weights)
    assert load_model(path, SHAPE, NAMES).digest() != digest
