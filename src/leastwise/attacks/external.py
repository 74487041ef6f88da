"""Attacks of other libraries (torchattacks, Foolbox, ART) as conditions.

    def pgd(model, x, y):
        return torchattacks.PGD(model, eps=8 / 255)(x, y)

    ExternalAttack("pgd", pgd, Linf(8 / 255), "torchattacks 3.5.1")

The function gets the network to attack: under an audit that is the prepared one, so an attack that was made for a
network of its own would craft on another.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from leastwise.attacks.base import BROKEN, FINE, Attack, ModelAccess, Outcome, Passes, ask, make_outcome
from leastwise.attacks.goals import is_mistaken
from leastwise.attacks.threats import Ball, Radius, is_in_ball, is_in_pixel_range, known_ball
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, Mask, PerExample

ROUNDING = 1e-5  # how far outside a foreign point may be (relative to eps above 1) and is put back

Outside = Literal["refuse", "drop"]


class MissingVersion:
    """Stands where a version should be; a recipe refuses it."""


MISSING = MissingVersion()


@dataclass(frozen=True)
class ExternalAttack(Attack):
    """A function `(model, x, y) -> x_adv`, tensors in and a tensor or array out.

    Its point counts, judged by one forward pass of ours. A point further outside the ball or [0, 1] than rounding is
    refused as a mistake in units; with `outside="drop"`, for attacks that look for the nearest mistake at any distance,
    the image itself takes its place. A point that is not finite is replaced so too, and reported as trouble.

    A recipe knows the attack by name, version and ball: give a new version when library or settings change; without one
    the attack runs, but evidence made with it has no key. Its random numbers come from the global generators, which
    are seeded from the noise and restored: they repeat for the same batch, but depend on who is in it.
    `step` is 1, as how the function spent its passes is not known; the passes themselves are counted.
    """

    recipe_name: ClassVar[str] = "Foreign"
    needs: ClassVar[ModelAccess | None] = None

    name: str
    function: Callable[..., Any] = field(compare=False, repr=False, metadata={"recipe": False})
    ball: Ball
    version: str | MissingVersion = MISSING
    outside: Outside = "refuse"
    gradients: bool = True  # whether the function needs the network's
    # The most passes for one image, if they are known; without, a plan says that the time is unknown.
    passes: Passes | None = field(default=None, compare=False, metadata={"recipe": False})

    def __post_init__(self) -> None:
        if self.outside not in get_args(Outside):
            raise ValueError(f"outside must be {' or '.join(get_args(Outside))}, but saw {self.outside!r}")

    def __str__(self) -> str:
        version = f" ({self.version})" if isinstance(self.version, str) else ""
        return f"{self.name}{version}, {self.ball}, the returned point counts"

    @property
    def logits(self) -> bool:
        return self.gradients  # of the others nobody knows, and a model that names classes alone will tell

    def with_radius(self, eps: Radius, step: Radius | None) -> "ExternalAttack":
        raise ValueError(f"{self.name} holds its own radius, which cannot be changed here: make another ExternalAttack")

    @property
    def common_ball(self) -> Ball | None:
        return known_ball(self.ball)

    def is_within_threat(self, x: Images, x_adv: Images) -> Mask:
        return is_in_ball(self.ball, x, x_adv)

    def cost(self, k: int) -> Passes | None:
        return self.passes

    def run(self, model: nn.Module, x: Images, y: Labels, noise: Noise) -> Outcome:
        seed = int(noise.fork(self.name).words((1,)).sum()) % 2**32
        passes = CountedPasses()
        with seed_generators(seed), restore_model(model), count_passes(model, passes), torch.enable_grad():
            answer = self.function(model, x.detach().clone(), y.clone())
        found = to_images(self.name, answer, x)
        broken = ~found.flatten(1).isfinite().all(dim=1)
        x_adv = legal_points(self, x, torch.where(broken.view(-1, 1, 1, 1), x, found))
        z, finite = ask(model, x_adv)
        trouble = torch.where(finite & ~broken, FINE, BROKEN)
        forwards = passes.forwards + len(x)
        return make_outcome(
            x_adv,
            finite & is_mistaken(z, y),
            torch.ones_like(y),
            forwards=forwards,
            backwards=passes.backwards,
            trouble=trouble,
        )


def legal_points(attack: ExternalAttack, x: Images, found: Images) -> Images:
    """The points, with rounding put back; those inside keep their bits."""
    far = overshoot(attack.ball, x, found)
    out = far > ROUNDING
    if bool(out.any()) and attack.outside == "refuse":
        raise ValueError(
            f"{attack.name} returned {int(out.sum())} of {len(x)} points outside {attack.ball} or [0, 1], "
            f"by up to {float(far.max()):.3g}: give it the same eps, in pixel units such as 8/255"
        )
    near = (x + attack.ball.project(found - x)).clamp(0, 1)
    inside = is_in_ball(attack.ball, x, found) & is_in_pixel_range(found)
    kept = torch.where(inside.view(-1, 1, 1, 1), found.clamp(0, 1), near)
    return torch.where(out.view(-1, 1, 1, 1), x, kept)


def from_foolbox(
    attack: Any, ball: Ball, version: str | MissingVersion = MISSING, *, name: str = "", gradients: bool = True
) -> ExternalAttack:
    """A Foolbox attack such as `foolbox.attacks.LinfPGD(steps=20)`, with the ball's eps.

    Foolbox shortens a perturbation that is longer than eps, so attacks that look for the nearest mistake fit too.
    """
    foolbox = import_library("foolbox")
    if isinstance(ball.eps, Tensor):
        raise ValueError("a Foolbox attack takes one eps for all examples, but the ball has one for each")

    def craft(model: nn.Module, x: Images, y: Labels) -> Any:
        target = foolbox.PyTorchModel(model, bounds=(0, 1), device=x.device)
        _, clipped, _ = attack(target, x, y, epsilons=ball.eps)
        return clipped

    return ExternalAttack(name or f"foolbox {type(attack).__name__}", craft, ball, version, gradients=gradients)


def from_art(
    make: Callable[[Any], Any],
    ball: Ball,
    version: str | MissingVersion = MISSING,
    *,
    name: str = "art",
    outside: Outside = "refuse",
    gradients: bool = True,
) -> ExternalAttack:
    """An attack of the Adversarial Robustness Toolbox: `make(classifier)` gives it, with the same eps as the ball.

    ART works on float32 arrays, so the model must be float32.
    """
    classification = import_library("art.estimators.classification")

    def craft(model: nn.Module, x: Images, y: Labels) -> Any:
        if x.dtype != torch.float32:
            raise ValueError(f"ART works in float32, but the images are {x.dtype}: use a float32 model and images")
        classifier = classification.PyTorchClassifier(
            model=model,
            loss=nn.CrossEntropyLoss(),
            input_shape=tuple(x.shape[1:]),
            nb_classes=ask(model, x[:1])[0].shape[1],
            clip_values=(0.0, 1.0),
            device_type="gpu" if x.is_cuda else "cpu",
        )
        return make(classifier).generate(x=x.cpu().numpy(), y=y.cpu().numpy())

    return ExternalAttack(name, craft, ball, version, outside, gradients)


def import_library(name: str) -> Any:
    """A library that is not installed with this package."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ValueError(f"this attack needs the library {name.partition('.')[0]}, which is not installed") from error


@dataclass
class CountedPasses:
    """Counts of single examples; hooks add to it."""

    forwards: int = 0
    backwards: int = 0


@contextmanager
def count_passes(model: nn.Module, passes: CountedPasses) -> Iterator[None]:
    """Count what goes through the model inside."""

    def backward(gradient: Tensor) -> None:
        passes.backwards += len(gradient)

    def forward(_: nn.Module, __: tuple[Any, ...], z: Tensor) -> None:
        passes.forwards += len(z)
        if z.requires_grad:
            z.register_hook(backward)  # type: ignore[no-untyped-call]

    hook = model.register_forward_hook(forward)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def restore_model(model: nn.Module) -> Iterator[None]:
    """On leaving, parameters have the `.grad` and `requires_grad` they had, and every submodule its mode."""
    modes = [(module, module.training) for module in model.modules()]
    before = [(parameter, parameter.grad, parameter.requires_grad) for parameter in model.parameters()]
    for parameter, _, _ in before:
        parameter.grad = None  # else a backward pass inside would add to the caller's tensor
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter, gradient, requires_grad in before:
            parameter.requires_grad_(requires_grad)
            parameter.grad = gradient


@contextmanager
def seed_generators(seed: int) -> Iterator[None]:
    """The global generators of torch, numpy and Python start from the seed; on leaving they are where they were."""
    arrays, plain = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(arrays)
            random.setstate(plain)


def to_images(name: str, answer: Any, x: Images) -> Images:
    """The answer as a tensor like x."""
    found = torch.from_numpy(answer) if isinstance(answer, np.ndarray) else answer
    if not isinstance(found, Tensor):
        raise ValueError(f"{name} must return images as a tensor or an array, but returned {type(answer).__name__}")
    if found.shape != x.shape or not found.is_floating_point():
        raise ValueError(
            f"{name} must return floating-point images of shape {tuple(x.shape)}, "
            f"but returned {found.dtype} of shape {tuple(found.shape)}"
        )
    return found.detach().to(x)


def overshoot(ball: Ball, x: Images, found: Images) -> PerExample:
    """How far each point is outside its ball (relative to eps above 1) or outside [0, 1]; at most 0 inside."""
    eps = torch.as_tensor(ball.eps, dtype=torch.float64, device=x.device)
    distance = (ball.norm(found - x).double() - eps) / eps.clamp_min(1)
    pixels = found.flatten(1).double()
    return distance.maximum(pixels.amax(dim=1) - 1).maximum(-pixels.amin(dim=1))
