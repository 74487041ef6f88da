"""Models that look odd and are fine."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tests.audit.tiny_networks import K, Patches, Through, Whole, convolutional, other, plain, train, with_other


class SoundModel(NamedTuple):
    name: str
    make: Callable[[], nn.Module]
    known: bool  # whether it is the plain network in other clothes, with the same numbers


@dataclass
class Answer:
    logits: Tensor


def sound_models() -> Iterator[SoundModel]:

    def same(name: str, **change: Any) -> SoundModel:
        return SoundModel(name, lambda: Through(plain(), **change), known=True)

    yield SoundModel("plain", plain, known=True)
    yield same("a dict with logits", after=lambda z: {"logits": z, "features": z})
    yield same("a tuple of one", after=lambda z: (z,))
    yield same("an object with logits", after=Answer)
    yield SoundModel("data parallel", lambda: nn.DataParallel(plain()), known=True)
    yield SoundModel(
        "double", lambda: Through(copy.deepcopy(plain()).double(), before=lambda x: x.double()), known=True
    )
    yield SoundModel(
        "bfloat16", lambda: Through(copy.deepcopy(plain()).bfloat16(), before=lambda x: x.bfloat16()), known=False
    )
    yield SoundModel(
        "bfloat16 inside",
        lambda: Through(copy.deepcopy(plain()).bfloat16(), before=lambda x: x.bfloat16(), after=lambda z: z.float()),
        False,
    )
    yield same("log-probabilities", after=lambda z: z.log_softmax(1))
    yield same("logits times 100", after=lambda z: 100 * z)
    yield same("logits times 10", after=lambda z: 10 * z)
    yield same("logits divided by 3", after=lambda z: z / 3)
    yield same("logits that sum to zero", after=lambda z: z - z.mean(1, keepdim=True))
    yield same("logits around 100", after=lambda z: z + 100)
    yield same("clamps its input", before=lambda x: x.clamp(0, 1))
    yield same("undoes a normalisation", before=lambda x: ((x - 0.5) / 0.5) * 0.5 + 0.5)
    yield SoundModel(
        "one by one", lambda: Whole(plain(), lambda net, x: torch.cat([net(one) for one in x.split(1)])), known=True
    )
    yield SoundModel("traced", lambda: torch.jit.trace(plain(), torch.rand(2, 1, 28, 28)), known=True)
    yield SoundModel("parameters that want gradients", lambda: copy.deepcopy(plain()).requires_grad_(True), known=True)
    yield SoundModel("in training mode", lambda: copy.deepcopy(plain()).train(), known=True)
    yield SoundModel(
        "resizes inside",
        lambda: train(
            nn.Sequential(
                nn.Upsample(size=(20, 20), mode="bilinear"),
                nn.Conv2d(1, 8, 5, 2),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(512, K),
            )
        ),
        False,
    )
    yield SoundModel("tanh", lambda: train(convolutional(nn.Tanh)), known=False)
    yield SoundModel("GELU", lambda: train(convolutional(nn.GELU)), known=False)
    yield SoundModel("BatchNorm", lambda: train(convolutional(norm=nn.BatchNorm2d(8))), known=False)
    yield SoundModel("GroupNorm", lambda: train(convolutional(norm=nn.GroupNorm(2, 8))), known=False)
    yield SoundModel(
        "max pooling and dropout",
        lambda: train(
            nn.Sequential(
                nn.Conv2d(1, 8, 5), nn.MaxPool2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(288, K)
            )
        ),
        False,
    )
    yield SoundModel("no bias", lambda: train(convolutional(bias=False)), known=False)
    yield SoundModel("fully connected", other, known=False)
    yield SoundModel("linear", lambda: train(nn.Sequential(nn.Flatten(), nn.Linear(784, K))), known=False)
    yield SoundModel("transformer", lambda: train(Patches(), 16), known=False)
    yield SoundModel(
        "two networks' mean", lambda: with_other(lambda net, second, x: (net(x) + second(x)) / 2), known=False
    )
    yield SoundModel(
        "averages mirror images", lambda: Whole(plain(), lambda net, x: (net(x) + net(x.flip(3))) / 2), known=False
    )
