"""Networks by name, and anything a user has as a Classifier."""

from leastwise.models.architectures import ARCHITECTURES, build
from leastwise.models.checkpoint import load_checkpoint, read_torch, save_checkpoint, write_torch
from leastwise.models.classifier import Classifier, inference, wrap
from leastwise.models.preflight import preflight
from leastwise.models.resolve import resolve

__all__ = [
    "ARCHITECTURES",
    "Classifier",
    "build",
    "inference",
    "load_checkpoint",
    "preflight",
    "read_torch",
    "resolve",
    "save_checkpoint",
    "wrap",
    "write_torch",
]
