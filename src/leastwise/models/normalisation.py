"""Which normalisation a network was trained with: what its layout says, or what labelled images say."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from scipy.special import bdtr
from torch import nn

from leastwise.core.types import Images, Labels
from leastwise.models.classifier import Classifier
from leastwise.models.concern import Concern

ENOUGH = 100  # images that can tell
FEW = 32  # images that every candidate is tried on; the best is tried on all
GAIN = 0.1  # of the images: less is not worth a word
CHANCE = 1e-3  # that so many more are right by luck


class Normalisation(NamedTuple):
    """A mean and std per channel, and who uses it."""

    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


IMAGENET = Normalisation("ImageNet's", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CIFAR10 = Normalisation("CIFAR-10's", (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616))
CIFAR10_OLD = Normalisation("CIFAR-10's as often copied", (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
CIFAR100 = Normalisation("CIFAR-100's", (0.5070, 0.4865, 0.4409), (0.2673, 0.2564, 0.2761))
SVHN = Normalisation("SVHN's", (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970))
MNIST = Normalisation("MNIST's", (0.1307,), (0.3081,))
FASHION = Normalisation("Fashion-MNIST's", (0.2860,), (0.3530,))


def list_candidates(channels: int) -> tuple[Normalisation, ...]:
    """The usual ones for images of so many channels."""
    plain = (
        Normalisation("none", (), ()),
        Normalisation("pixels from -1 to 1", (0.5,) * channels, (0.5,) * channels),
        Normalisation("pixels from 0 to 255", (0.0,) * channels, (1 / 255,) * channels),
    )
    known = (IMAGENET, CIFAR10, CIFAR10_OLD, CIFAR100, SVHN, MNIST, FASHION)
    return (*plain, *(one for one in known if len(one.mean) == channels))


def doubt_normalisation(model: nn.Module, x: Images, y: Labels, *, right: int) -> Iterator[Concern]:
    """A concern if the network is far better with another normalisation than the one it has."""
    n = len(x)
    if n < ENOUGH or right > (1 - GAIN) * n or not isinstance(model, Classifier):
        return
    own = (model.mean, model.std)
    others = [one for one in list_candidates(x.shape[1]) if (one.mean, one.std) != own]
    few = [(int(count_right(model, x[:FEW], y[:FEW], with_=one).sum()), one) for one in others]
    best = max(few, key=lambda found: found[0])[1]
    # Images that only one of the two gets right: a fair coin if both are as good.
    mine = count_right(model, x, y, with_=Normalisation("own", *own))
    theirs = count_right(model, x, y, with_=best)
    gained, lost = int((theirs & ~mine).sum()), int((mine & ~theirs).sum())
    if gained - lost >= GAIN * n and float(bdtr(lost, gained + lost, 0.5)) < CHANCE:
        flags = (
            f"--mean {join_numbers(best.mean)} --std {join_numbers(best.std)}" if best.mean else "no --mean and --std"
        )
        used = (
            f"mean {join_numbers(model.mean)} and std {join_numbers(model.std)}" if model.mean else "no normalisation"
        )
        yield Concern(
            f"with {used} the model is right on {int(mine.sum())} of {n} images, but with {best.name} on "
            f"{int(theirs.sum())}: it seems to have been trained so; give {flags}",
            serious=False,
        )


def count_right(model: Classifier, x: Images, y: Labels, *, with_: Normalisation) -> torch.Tensor:
    """Which images are right if the network gets them normalised so."""
    twin = Classifier(model.net, model.k, with_.mean, with_.std).to(x.device)
    twin.training = model.training
    with torch.no_grad():
        return twin(x).argmax(dim=1) == y.to(x.device)


def join_numbers(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:.4g}" for value in values)
