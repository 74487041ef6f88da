"""Stand-ins for libraries that cannot be installed here: the calls and attributes of theirs that are used, and no more.

Written after the sources of timm 1.0, torchvision 0.20 and RobustBench 1.1; each has one small network.
"""

import enum
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from tests.conftest import K


class Tiny(nn.Module):
    """Four kernels, pooled: it takes images of any size, and its answers depend on it."""

    def __init__(self, k: int = K) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, k)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.conv(x)).mean(dim=(2, 3)))


def tiny(seed: int, k: int = K) -> Tiny:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Tiny(k).eval()


def install(monkeypatch: pytest.MonkeyPatch, **modules: object) -> None:
    """Modules by their dotted names, with `__` for a dot."""
    for name, content in modules.items():
        module = ModuleType(name.replace("__", "."))
        vars(module).update(vars(content))
        monkeypatch.setitem(sys.modules, module.__name__, module)


@dataclass
class PretrainedCfg:
    """As timm's, with its fields."""

    url: str | None = None
    state_dict: dict[str, Any] | None = None
    hf_hub_id: str | None = None
    hf_hub_filename: str | None = None
    tag: str | None = "a1"
    input_size: tuple[int, int, int] = (3, 12, 12)
    interpolation: str = "bicubic"
    crop_pct: float = 0.75
    crop_mode: str = "center"
    mean: tuple[float, ...] = (0.5, 0.4, 0.3)
    std: tuple[float, ...] = (0.2, 0.3, 0.4)
    num_classes: int = K
    label_names: tuple[str, ...] | None = None


def timm(monkeypatch: pytest.MonkeyPatch, described: PretrainedCfg) -> None:
    """timm with a network `tiny` that has weights `a1`."""

    def get_pretrained_cfg(name: str) -> PretrainedCfg:
        if name not in ("tiny", "tiny.a1"):
            raise RuntimeError("Invalid pretrained tag")
        return replace(described)

    def create_model(
        name: str,
        pretrained: bool = False,
        pretrained_cfg_overlay: dict[str, Any] | None = None,
        num_classes: int = K,
    ) -> nn.Module:
        assert name.partition(".")[0] == "tiny"
        net: Any = tiny(99, num_classes)
        cfg = replace(described, **(pretrained_cfg_overlay or {}))
        if pretrained:
            assert cfg.state_dict is not None, "the stand-in has no network of computers"
            net.load_state_dict(cfg.state_dict)
        net.pretrained_cfg = asdict(cfg)
        return net.train()

    content = SimpleNamespace(
        is_model=lambda name: name == "tiny",
        list_models=lambda: ["tiny", "tresnet_m"],
        get_pretrained_cfg=get_pretrained_cfg,
        create_model=create_model,
    )
    install(monkeypatch, timm=content)


@dataclass
class Preset:
    """As torchvision's ImageClassification."""

    crop_size: list[int] = field(default_factory=lambda: [12])
    resize_size: list[int] = field(default_factory=lambda: [16])
    mean: tuple[float, ...] = (0.5, 0.4, 0.3)
    std: tuple[float, ...] = (0.2, 0.3, 0.4)
    interpolation: Any = field(default_factory=lambda: SimpleNamespace(value="bilinear"))


@dataclass(frozen=True)
class Weights:
    """As torchvision's."""

    url: str
    transforms: Callable[[], Preset]
    meta: dict[str, Any] = field(hash=False, compare=False)


class TinyWeights(enum.Enum):
    """As torchvision's WeightsEnum, whose members pass attributes through."""

    V1 = Weights("http://nowhere.invalid/tiny-v1.pth", Preset, {"categories": ["elk", "ant", "bee", "cow", "dog"]})
    V2 = Weights("http://nowhere.invalid/tiny-v2.pth", Preset, {"categories": ["ant", "bee", "cow", "dog", "elk"]})
    DEFAULT = V2

    def __getattr__(self, name: str) -> Any:
        if name in ("url", "transforms", "meta"):
            return getattr(self.value, name)
        raise AttributeError(name)


def torchvision(monkeypatch: pytest.MonkeyPatch, hub: Path) -> None:
    """torchvision with a network `tiny`, whose weights lie in a folder of the hub."""

    def get_model(name: str, weights: TinyWeights) -> nn.Module:
        assert name == "tiny"
        net = tiny(99)
        net.load_state_dict(torch.load(hub / "checkpoints" / Path(weights.url).name, weights_only=False))
        return net

    models = SimpleNamespace(
        list_models=lambda: ["tiny", "resnet18"], get_model_weights=lambda name: TinyWeights, get_model=get_model
    )
    install(monkeypatch, torchvision=SimpleNamespace(models=models))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(hub))


class Benchmark(enum.Enum):
    cifar_10 = "cifar10"
    imagenet = "imagenet"


class Threat(enum.Enum):
    Linf = "Linf"
    L2 = "L2"


def robustbench(monkeypatch: pytest.MonkeyPatch) -> None:
    """RobustBench with networks that lie below ./models, as one file or as two."""
    zoo = {
        Benchmark.cifar_10: {
            Threat.Linf: {"Only": {"gdrive_id": "x"}, "Both": {"gdrive_id": "x"}, "Pair": {"gdrive_id": ["x", "y"]}},
            Threat.L2: {"Both": {"gdrive_id": "x"}},
        },
        Benchmark.imagenet: {Threat.Linf: {"Fetched": {"gdrive_id": None}}},
    }

    def load_model(name: str, model_dir: str, dataset: str, threat_model: str) -> nn.Module:
        folder = Path(model_dir) / Benchmark(dataset).value / Threat(threat_model).value
        net = tiny(99)
        file = folder / f"{name}.pt"
        held = torch.load(file if file.exists() else Path(f"{file}_m1.pt"), weights_only=False)
        net.load_state_dict(held["state_dict"])
        return net

    install(
        monkeypatch,
        robustbench=SimpleNamespace(),
        robustbench__utils=SimpleNamespace(load_model=load_model),
        robustbench__model_zoo=SimpleNamespace(model_dicts=zoo),
    )
