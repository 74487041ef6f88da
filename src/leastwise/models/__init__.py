"""Classifiers: networks by name, files of others, and the fastest equivalent form of a network.

Pixels in [0, 1] go in and logits come out: normalisation belongs to the model. Training is in `leastwise.training`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.models.classifier import Classifier, inference, wrap
    from leastwise.models.fast.prepare import Form, prepare
    from leastwise.models.load.checkpoint import load_checkpoint, save_checkpoint
    from leastwise.models.load.dispatch import load_model
    from leastwise.models.preflight import check_model
    from leastwise.models.zoo.registry import ARCHITECTURES, build

__all__ = [
    "ARCHITECTURES",
    "Classifier",
    "Form",
    "build",
    "check_model",
    "inference",
    "load_checkpoint",
    "load_model",
    "prepare",
    "save_checkpoint",
    "wrap",
]

__getattr__ = lazy_names(
    __name__,
    {
        "classifier": "Classifier inference wrap",
        "zoo.registry": "ARCHITECTURES build",
        "load.checkpoint": "load_checkpoint save_checkpoint",
        "load.dispatch": "load_model",
        "fast.prepare": "Form prepare",
        "preflight": "check_model",
    },
)
