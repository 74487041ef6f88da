"""Networks by name, anything a user has as a Classifier, and its fastest equivalent."""

from leastwise.models.architectures import ARCHITECTURES, architecture, build
from leastwise.models.checkpoint import load_checkpoint, own_classes, read_torch, save_checkpoint, write_torch
from leastwise.models.classifier import Classifier, backward_bytes, inference, wrap
from leastwise.models.heads import BottleneckHead, CosineHead, with_head
from leastwise.models.norms import BatchInstanceNorm2d, clip_gates, gate_parameters, with_bin
from leastwise.models.preflight import preflight
from leastwise.models.prepare import Form, Prepared, prepare
from leastwise.models.resolve import resolve

__all__ = [
    "ARCHITECTURES",
    "BatchInstanceNorm2d",
    "BottleneckHead",
    "Classifier",
    "CosineHead",
    "Form",
    "Prepared",
    "architecture",
    "backward_bytes",
    "build",
    "clip_gates",
    "gate_parameters",
    "inference",
    "load_checkpoint",
    "own_classes",
    "preflight",
    "prepare",
    "read_torch",
    "resolve",
    "save_checkpoint",
    "with_bin",
    "with_head",
    "wrap",
    "write_torch",
]
