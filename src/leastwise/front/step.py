"""Any training method as a step of a loop that somebody else writes: the loss of a batch, and what an epoch saw.

It is the step of `leastwise train` (`leastwise.training.step`): the same crafting, losses, policies and counts. What a
loop does besides (the order of images, the optimiser, precision, processes) stays with whoever writes it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import check_pixels
from leastwise.core.noise import Noise
from leastwise.core.recipe import describe_difference, name_of_type, to_plain_json
from leastwise.core.types import Images
from leastwise.data.dataset import Dataset
from leastwise.front.meter import ClassMeter
from leastwise.front.sampler import ClassSampler
from leastwise.front.step_inputs import read_classes, read_policies, read_valid
from leastwise.models.classifier import Classifier, wrap
from leastwise.models.fast.prepare import ORIGINAL
from leastwise.training.attack_steps import AttackSteps, find_attack_steps
from leastwise.training.awp import AWP
from leastwise.training.base import Epoch, Objective, Policy, Seen
from leastwise.training.choices import CraftMode
from leastwise.training.compose import check_policies, class_shares
from leastwise.training.distributed import find_ranks
from leastwise.training.recipe import Training, Validation
from leastwise.training.step import FOLDED, MethodLoss, check_loss, mean_loss, prepare_copy
from leastwise.training.timetable import Timetable
from leastwise.training.validate import measure_classes, observe_network

EpochListener = Callable[[Epoch, Sequence[str]], None]  # what an epoch saw, and the names of the classes
WRAPPERS = (nn.parallel.DistributedDataParallel, nn.DataParallel)


class MethodStep:
    """A training method with its policies, a batch at a time: call it for the loss, and `end_epoch` after each epoch.

    `classes` is their number, their names, or the training data; policies that go by the number of images of a class
    need the data, or `counts`. Policies that learn from validation images need `valid`; those that begin at a share of
    the training need `epochs`. Attacks look at the network in evaluation mode unless `craft` is "train", and at a copy
    with BatchNorm folded, which follows the weights, where the network is a `Classifier` (`lw.model`, or `folded`).

    >>> import leastwise as lw, torch
    >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
    >>> step = lw.TRADES(eps=0.1, steps=2, policy=lw.CFA(), classes=["cat", "dog", "owl"])
    >>> loss = step(net, torch.rand(6, 3, 2, 2), torch.tensor([0, 1, 2, 0, 1, 2]))
    >>> loss.backward()
    >>> step.end_epoch().number
    1
    """

    def __init__(
        self,
        objective: Objective,
        *,
        classes: int | Sequence[str] | Dataset,
        policy: Policy | str | Sequence[Any] = (),
        counts: Sequence[int] | None = None,
        epochs: int | None = None,
        valid: Any = None,
        valid_attack: PGD | None = None,
        awp: AWP | float | None = None,
        teacher: nn.Module | None = None,
        attack_steps: AttackSteps | str | None = None,
        timetables: Sequence[Timetable] = (),
        craft: CraftMode = "eval",
        folded: bool | None = None,
        seed: int = 0,
        listen: Sequence[EpochListener] = (),
    ) -> None:
        self.policies = read_policies(policy)
        self.training = Training(
            objective if teacher is None else objective.taught_by(teacher),
            epochs or 1,
            seed=seed,
            policies=self.policies,
            awp=AWP(awp) if isinstance(awp, int | float) else awp,
            craft=craft,
            attack_steps=find_attack_steps(attack_steps) if isinstance(attack_steps, str) else attack_steps,
            timetables=tuple(timetables),
        )
        self.names, found = read_classes(classes)
        self.data = classes if isinstance(classes, Dataset) else None
        self.counts = found if counts is None else torch.as_tensor(counts, dtype=torch.int64)
        self.epochs, self.seed, self.folded = epochs, seed, folded
        self.valid = None if valid is None else read_valid(valid, self.names)
        self.valid_attack = Validation(attack=valid_attack).attack_for(objective)
        self.listen = list(listen)
        self.finished = 0  # epochs
        self.check()
        self.meter = ClassMeter(self.names)
        self.states = tuple(one.init(self.known_counts) for one in self.policies)
        self.met = 0  # images since the epoch began, in this process
        self.batches = 0
        self.sampled = False
        self.network: FittedNetwork | None = None

    @property
    def k(self) -> int:
        """The number of classes."""
        return len(self.names)

    @property
    def known_counts(self) -> Tensor:
        """Training images of each class; ones where nobody said and no policy minds."""
        return torch.ones(self.k, dtype=torch.int64) if self.counts is None else self.counts

    @property
    def objective(self) -> Objective:
        """The method as it is in this epoch."""
        return self.training.objective_in(self.finished)

    @property
    def shares(self) -> Tensor | None:
        """How often each class is to be drawn now, in proportion; None for every image once."""
        return class_shares(tuple(zip(self.policies, self.states, strict=True)))

    def check(self) -> None:
        """Refuse what could not act, or would fail later."""
        check_policies(self.objective, self.policies)
        if self.counts is not None and self.counts.shape != (self.k,):
            raise ValueError(f"counts needs one number for each of {self.k} classes, but saw {self.counts.tolist()}")
        for one in self.policies:
            name = name_of_type(type(one))
            if one.needs_counts and self.counts is None:
                raise ValueError(f"{name} goes by the number of training images of each class: give counts=[…]")
            if one.observes and self.data is None:
                raise ValueError(f"{name} looks at training images after each epoch: give classes=data, all of them")
            if one.needs_length and self.epochs is None:
                raise ValueError(f"{name} begins at a share of the training: give epochs=…, how many there will be")
            if (one.needs_validation or one.needs_first_look) and self.valid is None:
                raise ValueError(f"{name} learns from validation images: give valid=…, which are not trained on")
        awp, changes = self.training.awp, self.training.attack_steps is not None or self.training.timetables
        if awp is not None and awp.warmup and self.epochs is None:
            raise ValueError("AWP begins at a share of the training: give epochs=…, or AWP(…, warmup=0)")
        if changes and self.epochs is None:
            raise ValueError("settings change at shares of the training: give epochs=…, how many there will be")

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor, ids: Tensor | None = None) -> Tensor:
        """The mean loss of a batch, to call backward on. Pixels lie in [0, 1].

        `ids` are numbers that belong to the images: with them an image has the same noise wherever it stands in the
        order. Without them noise goes by the place in the epoch.
        """
        self.check_batch(net, x, y)
        if self.network is None or self.network.given is not net:
            self.network = self.fit_network(net, x)
        if self.batches == 0 and self.finished == 0:
            self.look_first()
        ranks = find_ranks()
        if ids is None:
            ids = (self.met + torch.arange(len(x), device=x.device)) * ranks.size + ranks.rank
        noise = Noise(self.seed, ids.to(x.device), "/train", self.finished)
        policies = tuple(zip(self.policies, self.states, strict=True))
        progress = self.finished / self.epochs if self.epochs else 1.0
        terms = self.network.loss.terms(x, y, noise, policies=policies, size=len(x), progress=progress)
        mean = mean_loss(terms, len(x))
        check_loss(mean.item(), ids, step=self.batches)
        self.meter.see(Seen.of(terms, y, self.k))
        self.met, self.batches = self.met + len(x), self.batches + 1
        return mean

    def end_epoch(self) -> Epoch:
        """What the epoch saw; the policies learn from it. In every process of a group."""
        if self.network is None or self.batches == 0:
            raise ValueError("no batch was seen in this epoch: call step(net, x, y) for each, and end_epoch after them")
        seen = Epoch(
            number=self.finished + 1,
            of=self.epochs or self.finished + 1,
            rate=float("nan"),  # the optimiser is not ours
            train=find_ranks().total(self.meter.running),
            valid=self.validate(),
            states=self.states,
            observed=self.observe(),
        )
        self.states = tuple(one.update(s, seen) for one, s in zip(self.policies, self.states, strict=True))
        self.finished, self.met, self.batches = self.finished + 1, 0, 0
        self.network = self.network.with_objective(self.objective)
        self.meter.end_epoch(seen)
        if find_ranks().first:
            for listener in self.listen:
                listener(seen, self.names)
        return seen

    def look_first(self) -> None:
        """Before the first step: policies that fine-tune look at the network, and nobody samples in vain."""
        if self.shares is not None and not self.sampled:
            raise ValueError(
                "this policy says how often each class is drawn, which is up to your loader: give it "
                "sampler=step.sampler(labels), with the labels of the training images"
            )
        if any(one.needs_first_look for one in self.policies):
            look = Epoch(0, self.epochs or 0, 0.0, Seen.empty(self.k), self.validate())
            self.states = tuple(
                one.update(s, look) if one.needs_first_look else s
                for one, s in zip(self.policies, self.states, strict=True)
            )

    def validate(self) -> Seen | None:
        """What the network does on the validation images now; None without any."""
        if self.valid is None or self.network is None:
            return None
        prepared = self.network.loss.prepared
        if prepared is not None:
            prepared.refresh()
        wants_losses = any(one.needs_validation_loss for one in self.policies)
        return measure_classes(
            self.network.inner,
            self.valid,
            self.valid_attack,
            seed=self.seed,
            device=str(self.network.device),
            crafted_on=None if prepared is None else prepared.model,
            losses_of=self.training.objective if wants_losses else None,
            ranks=find_ranks(),
        )

    def observe(self) -> dict[str, Tensor]:
        """What policies want to know of the network as it is now, from some training images."""
        if self.data is None or self.network is None or not any(one.observes for one in self.policies):
            return {}
        policies = tuple(zip(self.policies, self.states, strict=True))
        seed, device = self.seed, str(self.network.device)
        asked = self.training.objective
        return observe_network(self.network.inner, asked, policies, data=self.data, seed=seed, device=device)

    def fit_network(self, net: nn.Module, x: Images) -> "FittedNetwork":
        """What the loss asks, and what attacks look at: the network itself, and what parallel wrappers hold."""
        inner = net.module if isinstance(net, WRAPPERS) else net
        asked = wrap(net, self.k)
        looked_at = asked if inner is net else wrap(inner, self.k)
        self.objective.check_network(looked_at)
        folded = isinstance(inner, Classifier) if self.folded is None else self.folded
        attacks = self.objective.attack is not None or self.valid is not None
        loss = MethodLoss(
            model=asked,
            inner=looked_at,
            objective=self.objective,
            prepared=prepare_copy(looked_at, x, FOLDED if folded else ORIGINAL) if attacks else None,
            mode=self.training.craft,
            awp=self.training.awp,
            sum_=find_ranks().sum_,
        )
        return FittedNetwork(net, looked_at, loss, x.device)

    def check_batch(self, net: nn.Module, x: Tensor, y: Tensor) -> None:
        """Refuse a batch or a network that would give a wrong number without a word."""
        if not net.training:
            raise ValueError("the network is in evaluation mode: call net.train() before step(net, x, y)")
        if x.dim() != 4:
            raise ValueError(f"images must be [batch, channels, height, width], but saw {list(x.shape)}")
        if not x.is_floating_point():
            raise ValueError(f"images must be floats in [0, 1], but saw {x.dtype}: divide them by 255")
        check_pixels(x)
        if y.is_floating_point() or y.shape != x.shape[:1]:
            raise ValueError(f"labels must be one whole number for each of {len(x)} images, but saw {list(y.shape)}")
        if len(y) == 0:
            raise ValueError("a batch needs at least one image, but this one is empty")
        if int(y.min()) < 0 or int(y.max()) >= self.k:
            raise ValueError(f"labels must be 0 to {self.k - 1}, but saw {int(y.min())} to {int(y.max())}")

    def sampler(self, labels: Any, ids: Any = None) -> ClassSampler:
        """The order of an epoch for a loader, as `leastwise train` has it: each image once, or as the policies draw.

        `labels` are those of all training images; `ids`, if images have others than their positions, keep their order
        when some are left out. In a group of processes each gets its share of the order.
        """
        numbers = np.asarray(labels, dtype=np.int64)
        rows = np.arange(len(numbers)) if ids is None else np.asarray(ids, dtype=np.int64)
        if self.counts is None and self.finished == 0 and self.batches == 0:
            self.counts = torch.from_numpy(np.bincount(numbers, minlength=self.k))
            self.states = tuple(one.init(self.counts) for one in self.policies)
        self.sampled = True
        return ClassSampler(numbers, rows, self.seed, now=lambda: (self.finished, self.shares))

    def recipe(self) -> str:
        """What a state belongs to, as JSON: the method, what changes in it, its policies, the classes and the seed."""
        training = self.training
        parts: dict[str, Any] = {
            "method": training.objective,
            "awp": training.awp,
            "attack_steps": training.attack_steps,
        }
        parts |= {"timetables": training.timetables} | {name_of_type(type(one)): one for one in self.policies}
        return json.dumps({"classes": self.k, "seed": self.seed} | {name: tell(part) for name, part in parts.items()})

    def state_dict(self) -> dict[str, Any]:
        """What is remembered, as tensors and plain values; `torch.load(…, weights_only=True)` reads it."""
        return {
            "recipe": self.recipe(),
            "finished": self.finished,
            "met": self.met,
            "batches": self.batches,
            "states": [dict(state) for state in self.states],
            "meter": self.meter.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a step of the same method and policies stood."""
        try:
            recipe, states = state["recipe"], tuple(dict(one) for one in state["states"])
            numbers = [int(state[name]) for name in ("finished", "met", "batches")]
            differs = describe_difference(json.loads(recipe), json.loads(self.recipe()))
            meter = ClassMeter(self.names)
            meter.load_state_dict(state["meter"])
            kept = [{name: value.shape for name, value in one.items()} for one in states]
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"this is not the state of a step ({type(error).__name__}: {error})") from None
        if differs:
            raise ValueError(f"this is the state of another step: {differs}")
        if kept != [{name: value.shape for name, value in one.items()} for one in self.states]:
            raise ValueError("this is the state of another step: its policies remember something else")
        self.states, self.meter = states, meter
        self.finished, self.met, self.batches = numbers
        self.network = None  # which would go on with the method of another epoch


@dataclass(frozen=True, eq=False)
class FittedNetwork:
    """A network as a step uses it."""

    given: nn.Module
    inner: nn.Module  # without what several processes need around it
    loss: MethodLoss
    device: torch.device

    def with_objective(self, objective: Objective) -> "FittedNetwork":
        """The same network for another epoch."""
        return replace(self, loss=replace(self.loss, objective=objective))


def tell(part: Any) -> Any:
    """A method or a policy as JSON values; of one that is no recipe only what it is called."""
    try:
        return to_plain_json(part)
    except ValueError:
        return name_of_type(type(part))
