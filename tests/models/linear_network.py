"""What several files of tests hand over as models."""

import os
from pathlib import Path

import torch

from tests.conftest import SHAPE, K, random_linear

NAMES = ("ant", "bee", "cow", "dog", "elk")
SIZE = SHAPE[0] * SHAPE[1] * SHAPE[2]
MEAN, STD = (0.25, 0.5, 0.125), (0.5, 0.25, 0.75)

LINEAR = random_linear(K, torch.float32)
WEIGHT, BIAS = LINEAR.net.weight.detach(), LINEAR.net.bias.detach()

Batch = tuple[torch.Tensor, torch.Tensor]


class Payload:
    """What a hostile file would run when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.mkdir, (str(self.path), 0o700)
