"""What a network does on images that it is not trained on."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from leastwise.attacks.pgd import PGD
from leastwise.core.losses import ce
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels
from leastwise.data.dataset import Batch, Dataset
from leastwise.models.classifier import inference
from leastwise.training.base import Objective, Seen, Terms
from leastwise.training.distributed import ALONE, Ranks

BATCH = 250


def measured(
    model: nn.Module,
    data: Dataset,
    attack: PGD | None,
    *,
    seed: int = 0,
    device: str = "cpu",
    crafted_on: nn.Module | None = None,
    losses_of: Objective | None = None,
    ranks: Ranks = ALONE,
    heard: Callable[[], None] = lambda: None,
) -> Seen:
    """Counts by class, clean and under attack; losses are cross-entropies, or those of a method in evaluation mode.

    The noise is the same at every call, so that two epochs differ by their weights alone.
    """
    total = Seen.empty(data.k)
    dtype = next(model.parameters()).dtype
    with inference(model):
        for positions in np.array_split(np.arange(len(data)), -(-len(data) // BATCH)):
            x, y, ids = Batch(*(part.to(device) for part in data.batch(ranks.mine(positions))))
            if len(y):
                noise = Noise(seed, ids, "/valid")
                terms = asked(model, x.to(dtype), y, noise, attack, crafted_on or model)
                if losses_of is not None:
                    terms = with_losses(terms, losses_of, model, crafted_on or model, x.to(dtype), y, noise)
                total = total + Seen.of(terms, y, data.k)
            heard()
    return ranks.total(total)


def asked(model: nn.Module, x: Images, y: Labels, noise: Noise, attack: PGD | None, crafted_on: nn.Module) -> Terms:
    with torch.no_grad():
        clean = model(x)
    if attack is None:
        return Terms(ce(clean, y), clean)
    x_adv = attack.perturb(crafted_on, x, y, noise)
    with torch.no_grad():
        adversarial = model(x_adv)
    return Terms(ce(adversarial, y), clean, adversarial)


def with_losses(
    terms: Terms, objective: Objective, model: nn.Module, crafted_on: nn.Module, x: Images, y: Labels, noise: Noise
) -> Terms:
    crafted = objective.craft(crafted_on, x, y, noise.fork("loss"))
    with torch.no_grad():
        return terms._replace(label=objective.loss(model, x, y, crafted).per_example)
