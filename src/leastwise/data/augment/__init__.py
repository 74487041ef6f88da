"""Augmentation: what happens to training images before the network sees them.

`transforms` has the changes as values, `registry` their names. Corruptions, which test images are given, are in
`leastwise.data.corrupt`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.data.augment.registry import AUGMENTATIONS, IDBH, find_augmentation
    from leastwise.data.augment.transforms import Augment, Chain

__all__ = ["AUGMENTATIONS", "IDBH", "Augment", "Chain", "find_augmentation"]

__getattr__ = lazy_names(__name__, {"registry": "AUGMENTATIONS IDBH find_augmentation", "transforms": "Augment Chain"})
