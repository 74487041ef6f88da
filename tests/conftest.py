"""Small things every test may use: b = 12, k = 5, odd image sizes, so that no two axes can be confused."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from leastwise.core.types import Images, Labels
from leastwise.data.dataset import Dataset
from leastwise.models.classifier import Classifier
from leastwise.models.zoo.registry import build
from tests.report.page.opened import CHROMIUM, refuse
from tests.shape_checks import counts_calls_anew as counts_calls_anew


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first: a long one at the very end would leave the other worker idle."""
    items.sort(key=lambda item: item.get_closest_marker("medium") is None)


B, K, SHAPE = 12, 5, (3, 8, 6)

torch.set_num_threads(1)


class Linear(nn.Module):
    """z = W x + b on flattened pixels: the model whose attacks have closed forms."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, x: Images) -> torch.Tensor:
        return x.flatten(1) @ self.weight.T + self.bias


def random_linear(k: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Classifier:
    g = torch.Generator().manual_seed(seed)
    size = int(np.prod(SHAPE))
    return Classifier(
        Linear(torch.randn(k, size, generator=g, dtype=dtype), torch.randn(k, generator=g, dtype=dtype)), k
    )


@pytest.fixture
def batch() -> tuple[Images, Labels]:
    g = torch.Generator().manual_seed(1)
    return torch.rand(B, *SHAPE, generator=g), torch.randint(0, K, (B,), generator=g)


@pytest.fixture
def unbalanced() -> Dataset:
    """Five classes with 20, 3, 0, 9 and 1 examples, shuffled, with ids that are not row numbers."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(K), (20, 3, 0, 9, 1)))
    images = rng.integers(0, 256, (len(labels), *SHAPE), dtype=np.uint8)
    ids = 1000 + 7 * rng.permutation(len(labels))
    return Dataset.of(images, labels, ("ant", "bee", "cow", "dog", "elk"), ids=ids)


@pytest.fixture(params=["convnet", "small"])
def network(request: pytest.FixtureRequest) -> Classifier:
    """Each architecture, freshly initialised, with BatchNorm statistics that are not the initial ones."""
    model = build(request.param, SHAPE, K, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.25), seed=3)
    with torch.no_grad():
        g = torch.Generator().manual_seed(2)
        model(torch.rand(64, *SHAPE, generator=g))
    return model.eval()


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder of large real data and networks; tests that need it skip where it is absent."""
    folder = os.environ.get("LEASTWISE_TEST_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs the folder of real data and networks that LEASTWISE_TEST_DATA names")
    return Path(folder)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser for the tests of one file: its event loop would be in the way of other files' tests."""
    if CHROMIUM is None:
        refuse("no chromium was found on the path")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        refuse("playwright is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
