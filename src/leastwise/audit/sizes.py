"""How much is done at a time: images of a look beforehand, of a batch and of a shard, by the memory that they take."""

import math

from leastwise.audit.record import MOST_SUMMED
from leastwise.core.types import Images, Shape
from leastwise.models.classifier import Classifier, backward_bytes, inference

MOST_IMAGES, MOST_BYTES = 1000, 1 << 30  # of a batch whose size nobody chose: images, and memory for their gradients
PIXEL_BYTES = 64 << 20  # of the pixels of such a batch: attacks hold them about ten times over
PREFLIGHT_IMAGES, PREFLIGHT_BYTES = 100, 64 << 20  # of the images that are looked at first, and of their pixels


def count_preflight(shape: Shape) -> int:
    """How many images are looked at before an audit or a training: fewer where they are large."""
    return max(1, min(PREFLIGHT_IMAGES, PREFLIGHT_BYTES // (4 * math.prod(shape))))


def usual_shard(k: int, batch: int) -> int:
    """Images of a shard: ten batches, a thousand images at most; but twice the classes where sums are kept by class."""
    return max(min(MOST_IMAGES, 10 * batch), 2 * min(k, MOST_SUMMED))


def usual_batch(model: Classifier, some: Images) -> int:
    """As many images as fit into the memory that a batch may take, at most a thousand.

    Large batches suit small networks, and more so when most examples have left them.
    """
    with inference(model):
        each = backward_bytes(model, some) // len(some)
    return max(1, min(MOST_IMAGES, MOST_BYTES // max(1, each), PIXEL_BYTES // some[0].nbytes))
