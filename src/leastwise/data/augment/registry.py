"""Augmentations by name, as `train --augment` and the papers' courses take them."""

from typing import NamedTuple

from leastwise.data.augment.idbh import ColorShape, PolicyKind
from leastwise.data.augment.transforms import Chain, CropShift, Cutout, Erase, Flip, PadCrop


def make_idbh(kind: PolicyKind, crop: int, erase: Erase) -> Chain:
    """The order of Li & Spratling: flip, CropShift, ColorShape, erase. It replaces padding and cropping."""
    return Chain((Flip(), CropShift(0, crop), ColorShape(kind), erase))


IDBH: dict[str, Chain] = {
    "cifar10-weak": make_idbh("colour", 10, Erase(p=0.5)),
    "cifar10-strong": make_idbh("colour", 10, Erase(p=1.0)),
    "svhn": make_idbh("shape", 8, Erase(p=1.0, scale=(0.02, 0.5))),
}


class NamedAugmentation(NamedTuple):
    """An augmentation and the sentence that lists show beside its name."""

    augment: Chain
    about: str


AUGMENTATIONS: dict[str, NamedAugmentation] = {
    "none": NamedAugmentation(Chain(), "the images as they are"),
    "flip": NamedAugmentation(Chain((Flip(),)), "mirror every other image"),
    "crop-flip": NamedAugmentation(
        Chain((PadCrop(4), Flip())), "pad by 4 pixels, crop at random, mirror every other image"
    ),
    "reflect-crop-flip": NamedAugmentation(
        Chain((PadCrop(4, reflect=True), Flip())), "crop-flip, padded by the mirrored image instead of black"
    ),
    "cutout": NamedAugmentation(
        Chain((PadCrop(4), Flip(), Cutout(16))), "crop-flip and a black square of 16 pixels (DeVries & Taylor 2017)"
    ),
    "idbh-weak": NamedAugmentation(IDBH["cifar10-weak"], "IDBH as published for CIFAR-10, erasing half of the images"),
    "idbh-strong": NamedAugmentation(IDBH["cifar10-strong"], "IDBH as published for CIFAR-10, erasing every image"),
    "idbh-svhn": NamedAugmentation(IDBH["svhn"], "IDBH as published for SVHN; it mirrors digits too"),
}


def find_augmentation(name: str) -> Chain:
    """The augmentation of that name."""
    if name not in AUGMENTATIONS:
        raise ValueError(f"there is no augmentation {name!r}: choose {' or '.join(AUGMENTATIONS)}")
    return AUGMENTATIONS[name].augment
