"""What a network does on images that it is not trained on, class by class."""

import numpy as np
import torch
from torch import Tensor, nn

from leastwise.attacks.pgd import PGD
from leastwise.core.losses import ce
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels
from leastwise.data.dataset import Batch, Dataset
from leastwise.models.classifier import inference
from leastwise.training.base import NetworkLook, Objective, PolicyStates, Seen, Terms
from leastwise.training.distributed import ALONE, Ranks

BATCH = 250
# Training images that policies look at after every epoch: so many in all, and of each class no fewer than that.
LOOKED_AT_IN_ALL, FEWEST_LOOKED_AT = 500, 20


def measure_classes(
    model: nn.Module,
    data: Dataset,
    attack: PGD | None,
    *,
    seed: int = 0,
    device: str = "cpu",
    crafted_on: nn.Module | None = None,
    losses_of: Objective | None = None,
    ranks: Ranks = ALONE,
) -> Seen:
    """Counts by class, clean and under attack; losses are cross-entropies, or those of a method in evaluation mode.

    The noise is the same at every call, so that two epochs differ by their weights alone.
    """
    total = Seen.empty(data.k)
    dtype = next(model.parameters()).dtype
    target = crafted_on or model
    with inference(model):
        for positions in np.array_split(np.arange(len(data)), -(-len(data) // BATCH)):
            x, y, ids = Batch(*(part.to(device) for part in data.batch(ranks.own_part(positions))))
            if len(y) == 0:
                continue
            x, noise = x.to(dtype), Noise(seed, ids, "/valid")
            terms = ask_clean_and_attacked(model, x, y, None if attack is None else attack.perturb(target, x, y, noise))
            if losses_of is not None:
                crafted = losses_of.craft(target, x, y, noise.fork("loss"))
                with torch.no_grad():
                    terms = terms._replace(label=losses_of.loss(model, x, y, crafted).per_example)
            total = total + Seen.of(terms, y, data.k)
    return ranks.total(total)


def ask_clean_and_attacked(model: nn.Module, x: Images, y: Labels, x_adv: Images | None) -> Terms:
    """The model's logits with their cross-entropies: those under attack where there is one, else the clean ones."""
    with torch.no_grad():
        clean = model(x)
        if x_adv is None:
            return Terms(ce(clean, y), clean)
        adversarial = model(x_adv)
    return Terms(ce(adversarial, y), clean, adversarial)


def observe_network(
    model: nn.Module, objective: Objective, policies: PolicyStates, *, data: Dataset, seed: int, device: str
) -> dict[str, Tensor]:
    """What policies want to know of a network as it is now, from some of the training images."""
    found: dict[str, Tensor] = {}
    some = data.take(max(-(-LOOKED_AT_IN_ALL // data.k), FEWEST_LOOKED_AT))
    with inference(model):
        look = NetworkLook(model, objective, some, seed, device)
        for policy, s in policies:
            found |= policy.observe(look, s)
    return found
