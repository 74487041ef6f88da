"""How pixels are usually normalised: a mean and a standard deviation per channel, and whose they are."""

from typing import NamedTuple


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
