"""What a lift tries, from cheap to dear: edits of the head, short fine-tunings, longer ones, and edits of these."""

from dataclasses import dataclass, replace

from torch import nn

from leastwise.attacks.goals import CE, KL
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Ball, Gaussian, Uniform
from leastwise.core.types import Shape
from leastwise.data.augment.registry import find_augmentation
from leastwise.training.averaging import SWA
from leastwise.training.base import Objective, Policy
from leastwise.training.edits.base import NetworkEdit
from leastwise.training.edits.head import DecoSAM, EqualNorms, Offsets
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.trades import TRADES
from leastwise.training.policies.aiming import TRIX
from leastwise.training.policies.cfol import CFOL
from leastwise.training.policies.confusion import CSR
from leastwise.training.policies.faal import FAAL
from leastwise.training.policies.wat import WAT
from leastwise.training.policies.weighting import FairWeighting
from leastwise.training.recipe import Training, Validation
from leastwise.training.schedules import Cosine, OneCycle

STEPS = 5  # of the attack while fine-tuning
BATCH = 128
RATE, BARE_RATE = 0.05, 0.005  # the highest rate of a fine-tuning; of a network without BatchNorm
SHORT_EPOCHS = 2
VALIDATED = 20  # images of each class that policies with a look of their own get, of those that are trained on
LONG = 3  # epochs from which weights are averaged


@dataclass(frozen=True)
class EditWay:
    """An edit of the network as it is, or of what another way made of it."""

    name: str
    edit: NetworkEdit
    after: str = ""  # the way whose network it changes


@dataclass(frozen=True)
class TuneWay:
    """A fine-tuning of the network as it is."""

    name: str
    training: Training
    per_class: int | None = None  # on so many training images of each class


@dataclass(frozen=True)
class SoupWay:
    """A mean of the networks of two ways; "" is the network as it is."""

    name: str
    first: str
    second: str
    share: float


Way = EditWay | TuneWay | SoupWay


def list_edits(after: str = "") -> list[EditWay]:
    """Edits that need no training, the mildest first."""
    mark = f"{after}+" if after else ""
    powers = [EditWay(f"{mark}norms{round(100 * power)}", EqualNorms(power), after) for power in (0.25, 0.5, 0.75, 1.0)]
    return [*powers, EditWay(f"{mark}offsets", Offsets(), after)]


def list_head_trainings() -> list[EditWay]:
    """Edits that take an epoch."""
    return [EditWay("decosam", DecoSAM())]


def list_tunings(model: nn.Module, ball: Ball, shape: Shape, *, seed: int) -> list[TuneWay]:
    """Fine-tunings by name, without and with a policy; the first is the control that has none."""
    step = ball.eps / 4
    trades = TRADES(PGD(ball, KL(), step, STEPS, Gaussian(0.001)))
    pgd_at = PGDAT(PGD(ball, CE(), step, STEPS, Uniform()))
    found: list[tuple[str, Objective, tuple[Policy, ...]]] = [
        ("trades", trades, ()),
        ("trades-wat", trades, (WAT(),)),
        ("trades-trix", trades, (TRIX(warmup=0.0),)),
        ("trades-csr", trades, (CSR(),)),
        ("pgd-cfol", pgd_at, (CFOL(),)),
        ("pgd-faal", pgd_at, (FAAL(),)),
        ("trades-fair", trades, (FairWeighting(alpha=0.2),)),
    ]
    flips = find_augmentation("flip" if shape[0] == 3 else "none")
    held = [VALIDATED if any(p.needs_validation for p in policies) else 0 for _, _, policies in found]
    return [
        TuneWay(
            name,
            Training(
                objective, SHORT_EPOCHS, BATCH, Cosine(highest_rate(model)), seed=seed, policies=policies,
                augment=flips, validation=Validation(images, "last"),
            ),
        )
        for (name, objective, policies), images in zip(found, held, strict=True)
    ]  # fmt: skip


def lengthen(way: TuneWay, epochs: int, model: nn.Module) -> TuneWay:
    """The same fine-tuning for longer, on all images; with averaged weights where there are epochs to average."""
    training = replace(
        way.training,
        epochs=epochs,
        schedule=OneCycle(highest_rate(model)) if epochs >= LONG else Cosine(highest_rate(model)),
        averaging=SWA() if epochs >= LONG else None,
    )
    return TuneWay(f"{way.name}-{epochs}", training)


def highest_rate(model: nn.Module) -> float:
    """Networks without BatchNorm stand a tenth of the rate."""
    normed = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())
    return RATE if normed else BARE_RATE
