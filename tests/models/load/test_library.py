"""Networks by name: those of timm, torchvision and RobustBench (stand-ins, as none of them can be installed here)."""

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from leastwise.models.load.dispatch import load_model
from tests.conftest import SHAPE
from tests.models.linear_network import NAMES, Batch, Payload
from tests.models.load.libraries_made_up import PretrainedCfg, robustbench, timm, tiny, torchvision

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
LARGE = (3, 12, 12)  # the size that the networks say they take


def by_hand(x: torch.Tensor, seed: int = 1) -> torch.Tensor:
    return tiny(seed)((x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1))


@pytest.mark.parametrize("library", ["timm", "torchvision", "robustbench"])
def test_a_library_that_is_not_there_is_one_sentence(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ValueError, match=rf"the model {library}:tiny needs {library}.*: pip install {library}"):
        load_model(f"{library}:tiny", SHAPE, NAMES)


def test_timm_uses_its_weights_normalisation_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: Batch
) -> None:
    timm(monkeypatch, PretrainedCfg(url="http://nowhere.invalid/tiny.pth"))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(
        ValueError, match="timm:tiny has no weights on this machine, and nothing is fetched unasked: py"
    ):
        load_model("timm:tiny", LARGE, NAMES)
    (tmp_path / "checkpoints").mkdir()
    torch.save(tiny(1).state_dict(), tmp_path / "checkpoints" / "tiny.pth")
    model, x = load_model("timm:tiny", LARGE, NAMES), torch.rand(3, *LARGE)
    assert torch.allclose(model(x), by_hand(x), atol=1e-6) and (model.mean, model.std) == (MEAN, STD)
    assert not model.net.training and "mean 0.5, 0.4, 0.3 and std 0.2, 0.3, 0.4 are those of timm:tiny" in model.notes
    small = load_model("timm:tiny.a1", SHAPE, NAMES)
    assert "resizes the data's 8 × 6 to 12 × 12 (shorter side 16, bicubic and cut to 12 × 12)" in small.notes[-1]
    resized = torch.nn.functional.interpolate(batch[0], (21, 16), mode="bicubic", antialias=True)[..., 4:16, 2:14]
    assert torch.allclose(small(batch[0]), by_hand(resized), atol=1e-5)
    plain = load_model("timm:tiny", SHAPE, NAMES, resize=False)
    assert torch.allclose(plain(batch[0]), by_hand(batch[0]), atol=1e-6)
    assert "the data's 8 × 6 are used as they are" in plain.notes[-1]
    alone = load_model("timm:tiny")
    assert alone.k == 5 and torch.allclose(alone(batch[0]), small(batch[0]), atol=1e-6)
    assert load_model(alone, LARGE, NAMES).digest() == model.digest()
    assert load_model(alone, SHAPE, NAMES).digest() == small.digest()
    for name, message in {
        "tresnet": "timm has no model 'tresnet': did you mean tresnet_m?",
        "tiny.b7": "timm has no weights 'tiny.b7': timm.list_models",
    }.items():
        with pytest.raises(ValueError, match=message):
            load_model(f"timm:{name}", LARGE, NAMES)
    with pytest.raises(ValueError, match="has 5 outputs, but the data has 3 classes"):
        load_model("timm:tiny", LARGE, NAMES[:3])
    torch.save({"head.weight": Payload(tmp_path / "executed")}, tmp_path / "checkpoints" / "tiny.pth")
    with pytest.raises(ValueError, match="not a checkpoint of plain weights"):
        load_model("timm:tiny", LARGE, NAMES)
    assert not (tmp_path / "executed").exists()


def test_a_folder_that_timm_wrote_is_read_by_timm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = {
        "architecture": "tiny",
        "num_classes": 5,
        "label_names": ["elk", "ant", "bee", "cow", "dog"],
        "pretrained_cfg": {"input_size": [3, 12, 12], "mean": MEAN, "std": STD, "crop_pct": 1.0},
    }
    (tmp_path / "config.json").write_text(json.dumps(described))
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ValueError, match=r"the timm model in .* needs timm .*: pip install timm"):
        load_model(tmp_path, LARGE, NAMES)
    timm(monkeypatch, PretrainedCfg())
    with pytest.raises(ValueError, match=r"holds no model.safetensors or pytorch_model.bin: save it again"):
        load_model(f"hf:{tmp_path}", LARGE, NAMES)
    save_file(tiny(1).state_dict(), tmp_path / "model.safetensors")
    model, x = load_model(f"hf:{tmp_path}", LARGE, NAMES), torch.rand(3, *LARGE)
    assert torch.allclose(model(x), by_hand(x).roll(-1, dims=1), atol=1e-6)  # ant is output 1, …, elk is output 0
    save_file({"head.weight": torch.zeros(5, 4)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="do not fit its description"):
        load_model(tmp_path, LARGE, NAMES)


def test_torchvision_uses_its_weights_categories_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torchvision(monkeypatch, tmp_path)
    with pytest.raises(ValueError, match=r"no weights on this machine.*get_model\('tiny', weights='V2'\)"):
        load_model("torchvision:tiny", LARGE, NAMES)
    (tmp_path / "checkpoints").mkdir()
    for seed, name in enumerate(("v1", "v2"), start=1):
        torch.save(tiny(seed).state_dict(), tmp_path / "checkpoints" / f"tiny-{name}.pth")
    x = torch.rand(3, *LARGE)
    assert torch.allclose(load_model("torchvision:tiny", LARGE, NAMES)(x), by_hand(x, 2), atol=1e-6)
    first = load_model("torchvision:tiny/V1", LARGE, NAMES)
    assert torch.allclose(first(x), by_hand(x, 1).roll(-1, dims=1), atol=1e-6)
    assert "uses the weights V1" in first.notes[0] and "put into the order of the data's classes" in first.notes[-1]
    assert load_model("torchvision:tiny/V1").class_names[0] == "elk"
    for name, message in {
        "resnet8": "torchvision has no model 'resnet8': did you mean resnet18?",
        "tiny/V9": "torchvision has no weights 'V9' for tiny: choose V1 or V2",
    }.items():
        with pytest.raises(ValueError, match=message):
            load_model(f"torchvision:{name}", LARGE, NAMES)
    with pytest.raises(ValueError, match="brings its own network: leave --arch out"):
        load_model("torchvision:tiny", LARGE, NAMES, arch="small")
    torch.save({"head.weight": Payload(tmp_path / "executed")}, tmp_path / "checkpoints" / "tiny-v2.pth")
    with pytest.raises(ValueError, match="not a checkpoint of plain weights"):
        load_model("torchvision:tiny", LARGE, NAMES)
    assert not (tmp_path / "executed").exists()


def test_robustbench_is_looked_up_below_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: Batch) -> None:
    robustbench(monkeypatch)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"robustbench:Only \(models.*Only.pt\) has no weights on this machine"):
        load_model("robustbench:Only", SHAPE, NAMES)
    folder = tmp_path / "models" / "cifar10" / "Linf"
    folder.mkdir(parents=True)
    for name in ("Only.pt", "Both.pt", "Pair.pt_m0.pt", "Pair.pt_m1.pt"):
        torch.save({"state_dict": tiny(1).state_dict()}, folder / name)
    for name in ("Only", "cifar10/Linf/Only", "Linf/Both", "Pair"):
        model = load_model(f"robustbench:{name}", SHAPE, NAMES)
        assert torch.allclose(model(batch[0]), tiny(1)(batch[0]), atol=1e-6) and model.mean == ()
    for name, message in {
        "Both": "2 models 'Both': write robustbench:cifar10/Linf/Both or robustbench:cifar10/L2/Both",
        "Onli": "RobustBench has no model 'Onli': did you mean Only?",
        "Fetched": "fetches Fetched through timm each time",
    }.items():
        with pytest.raises(ValueError, match=message):
            load_model(f"robustbench:{name}", SHAPE, NAMES)
    torch.save({"state_dict": Payload(tmp_path / "executed")}, folder / "Only.pt")
    with pytest.raises(ValueError, match="not a checkpoint of plain weights"):
        load_model("robustbench:Only", SHAPE, NAMES)
    assert not (tmp_path / "executed").exists()


def test_a_hub_name_is_looked_up_in_the_cache_and_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra hf")
    asked = []

    def snapshot_download(name: str, **settings: object) -> str:
        asked.append((name, settings))
        raise hub.errors.LocalEntryNotFoundError("not here")

    monkeypatch.setattr(hub, "snapshot_download", snapshot_download)
    with pytest.raises(
        ValueError, match=r"is neither a folder nor a model that was fetched before .*`hf download a/b --r"
    ):
        load_model("hf:a/b@v1", SHAPE, NAMES)
    assert asked == [("a/b", {"revision": "v1", "local_files_only": True})]
