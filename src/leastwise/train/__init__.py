"""Training: the recipe as a value, and the only loop."""

from leastwise.train.keeping import BEST, EPOCHS, FILES, LAST, MANIFEST, MODEL, ON_TEST, RESUME, WEIGHTS, Course, Look
from leastwise.train.loop import FOLDED, Snapshot, Step, fit
from leastwise.train.measure import measured
from leastwise.train.ranks import ALONE, Ranks, joined
from leastwise.train.training import OPTIMISERS, SGD, Adam, Optimiser, Rule, Training, Validation, optimiser, score

__all__ = [
    "ALONE",
    "BEST",
    "EPOCHS",
    "FILES",
    "FOLDED",
    "LAST",
    "MODEL",
    "ON_TEST",
    "OPTIMISERS",
    "RESUME",
    "SGD",
    "WEIGHTS",
    "Adam",
    "Course",
    "Look",
    "Optimiser",
    "Ranks",
    "Rule",
    "Snapshot",
    "Step",
    "Training",
    "Validation",
    "fit",
    "joined",
    "measured",
    "optimiser",
    "score",
]
