"""Is the input gradient the slope of what the model computes, and does it lead uphill as far as an attack goes?

Along the first two steps of a sign attack, all pixels at once and a random half of them, the change of the log-odds is
compared with what the gradient promises: r = (f(x + h d) - f(x)) / (h g·d). A true gradient has r = 1 for small h,
and networks that can be attacked keep r well above 0 up to the size of a step. Small means 1e-7 in float64, which a
copy of the network computes where it can; else as little as its own precision can tell.

The thresholds were chosen on LeNet-5 and SmallCNN trained on MNIST and a small ResNet trained on CIFAR-10 images: 99 %
and more of their ratios are true, all steps at eps up to 0.1 lead uphill, the median ratio is 0.99 to 1.06. Reversals
and rounding of the same networks have no true ratios; ripples pass on the ResNet (96 % uphill, median 0.32), and smooth
stairs and steep sigmoids pass on some. The table of tests/audit/test_wrong_models.py, on Fashion-MNIST, was not quite
unseen: after its first run `NOTHING` was set apart from `LITTLE`, and the rounding of half precision is estimated since
(`SAME`, `ROUGHLY`). The public networks of tests/oracles were looked at last, and changed nothing.

A gradient may also be true along its own sign and still be a part of the slope: one that is zero on half of the pixels,
or turned round for one class. So random directions are tried as well, from a random point beside each image, where no
two pixels tie: there |f(x + h u) - f(x) - h g·u| / (h |g|) is below 0.03 on every sound network of the table (1e-6 in
float64) and about 1 where half of the slope is missing. An image counts if all of its directions say so.
"""

import copy
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from leastwise.core.losses import odds
from leastwise.core.types import Images, Labels, PerExample
from leastwise.models.output_check import Concern

REACH = 8 / 255  # how far an attack goes if nobody says
STEP, SHORT = 1 / 4, 1 / 16  # of the reach: the usual step of an attack, and a shorter one
TINY_STEP = 1e-7  # in pixels, in float64: no network that learned has kinks so near to most images
# Times its rounding error that a change must promise before it is listened to: for its size, and for its sign alone.
AUDIBLE, SIGNED = 50.0, 5.0
SAME, ROUGHLY = 1e-3, 0.05  # of the spread of logits: differences to float64 that rounding, and half precision, explain
MATCH, ROUGH_MATCH = 0.1, 0.3  # how far from 1 a true ratio may be: in float64, and in less
MOSTLY = 0.8  # of the ratios
NOTHING = 1e-3  # of what the gradient promises: a stair
UPHILL = 0.75  # of the steps must raise the loss
LITTLE, MUCH = 0.2, 10.0  # of what the gradient promises: less is a ripple, more is a gradient that has died away
STEPPED = 32  # images that steps are taken from
DIRECTIONS = 2  # random ones, from every image


class StepRatios(NamedTuple):
    """What steps gained over what the gradient promised; one row per image, start and choice of pixels."""

    tiny: Float[Tensor, " n"]  # NaN where the precision of the model cannot tell
    short: Float[Tensor, " n"]
    step: Float[Tensor, " n"]
    match: float  # how far from 1 a tiny ratio may be


def doubt_gradient(model: nn.Module, x: Images) -> Iterator[Concern]:
    """Concerns about input gradients that are zero or not finite."""
    at = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        z = model(at)
        if z.requires_grad:
            (gradient,) = torch.autograd.grad(odds(z, z.argmax(dim=1)).sum(), at, allow_unused=True)
        else:
            gradient = None
    if gradient is None:
        raise ValueError("the model gives its input no gradient: remove no_grad, detach or numpy from its forward")
    if not bool(gradient.isfinite().all()):
        raise ValueError("the input gradient is not finite on real images: check the model for roots or logs of 0")
    still = int((gradient.flatten(1) == 0).all(dim=1).sum())
    if still == len(x):
        yield Concern(
            "the input gradient is zero on all images, so gradient attacks cannot move and every image would look "
            "robust: remove rounding or saturation from the model",
            serious=True,
        )
    elif still:
        yield Concern(
            f"the input gradient is zero on {still} of {len(x)} images, where gradient attacks cannot move and "
            "robustness may be overstated: add a query attack",
            serious=False,
        )


def doubt_steps(model: nn.Module, x: Images, reach: float = REACH) -> Iterator[Concern]:
    """A concern with a name if the gradient is not the model's slope, or leads nowhere at the size of a step."""
    given, few = model, x[:STEPPED].detach()
    exact, rounding = copy_in_float64(given, few)
    model, x, few = (given, x.detach(), few) if exact is None else (exact, x.detach().double(), few.double())
    match = ROUGH_MATCH if exact is None else MATCH
    ratios = measure_steps(model, few, reach, rounding=rounding, match=match)
    fault = None if ratios is None else name_fault(ratios)
    if fault is None:
        fault = name_missing(measure_directions(model, x, reach, rounding=rounding), match)
    if fault is not None:
        yield fault


def measure_steps(model: nn.Module, x: Images, reach: float, *, rounding: float, match: float) -> StepRatios | None:
    """The ratios at two starts, the image and a step from it; None where no gradient moves."""
    with torch.no_grad():
        y = model(x).argmax(dim=1)
    generator = torch.Generator().manual_seed(0)
    half = (torch.rand(x.shape, generator=generator) < 0.5).to(x)
    found, at = [], x
    for _ in range(2):
        f, gradient = climb(model, at, y)
        d = stay_inside(gradient.sign(), at, STEP * reach)
        for direction in (d, d * half):
            slope = (gradient * direction).flatten(1).sum(dim=1)
            found.append(compare_along(model, at, y, f=f, slope=slope, d=direction, reach=reach, rounding=rounding))
        at = at + STEP * reach * d
    tiny, short, step = (torch.cat(column) for column in zip(*found, strict=True))
    moves = step.isfinite()
    if not bool(moves.any()):
        return None
    return StepRatios(tiny[moves], short[moves], step[moves], match)


def measure_directions(model: nn.Module, x: Images, reach: float, *, rounding: float) -> Float[Tensor, "d b"]:
    """How far changes along random directions are from what the gradient says, over its length; NaN if none can tell.

    Every point is a little inside [0, 1] and beside its image, so that no two pixels tie in a maximum.
    """
    generator = torch.Generator().manual_seed(1)

    def random() -> Images:
        return torch.rand(x.shape, generator=generator).to(x)

    with torch.no_grad():
        z = model(x)
    y, size = z.argmax(dim=1), z.abs().amax(dim=1)
    at = x + SHORT * reach * random() * torch.where(x < 0.5, 1.0, -1.0).to(x)
    f, gradient = climb(model, at, y)
    length = gradient.flatten(1).norm(dim=1)
    with torch.no_grad():
        h = (AUDIBLE * rounding * size.clamp_min(f.abs()) / length).clamp_min(TINY_STEP)
        told, apart = (length > 0) & (h <= SHORT * reach), list[Tensor]()
        for _ in range(DIRECTIONS):
            u = torch.where(random() < 0.5, 1.0, -1.0).to(x)
            gain = (odds(model(at + h.view(-1, 1, 1, 1).to(x) * u), y) - f) / h
            wrong = (gain - (gradient * u).flatten(1).sum(dim=1)).abs() / length
            apart.append(torch.where(told, wrong, torch.nan))
    return torch.stack(apart)


def copy_in_float64(model: nn.Module, x: Images) -> tuple[nn.Module | None, float]:
    """The same network in float64, if it can be had and answers the same; and how coarse its logits are, in parts.

    Without such a copy, the coarsest weights say how it computes, or how far its answers are from those in float64.
    """
    with torch.no_grad():
        given = model(x)
    kinds = [given.dtype, *(p.dtype for p in model.parameters() if p.is_floating_point())]
    rounding = max(torch.finfo(kind).eps for kind in kinds)
    if min(torch.finfo(kind).bits for kind in kinds) == 64 and x.dtype == torch.float64:
        return model, rounding
    try:
        twin = copy.deepcopy(model)
        if {p.data_ptr() for p in twin.parameters()} & {p.data_ptr() for p in model.parameters()}:
            return None, rounding  # a copy in name only: converting it would change the model
        exact = twin.double().eval().requires_grad_(False)
        with torch.no_grad():
            z = exact(x.double())
        spread = float((given.amax(1) - given.amin(1)).max())
        apart = float((z - given).abs().max())
    except Exception:  # a foreign network may refuse in any way; its own precision remains
        return None, rounding
    if z.dtype == torch.float64 and apart <= SAME * spread:
        return exact, torch.finfo(torch.float64).eps
    # As a model that computes in half precision inside is from itself in float64; farther is another function.
    rough = apart / float(given.abs().max().clamp_min(1e-30)) if apart <= ROUGHLY * spread else 0.0
    return None, max(rounding, rough)


def climb(model: nn.Module, x: Images, y: Labels) -> tuple[PerExample, Images]:
    """The log-odds against y, and their gradient."""
    at = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        f = odds(model(at), y)
        (gradient,) = torch.autograd.grad(f.sum(), at)
    return f.detach(), gradient


def stay_inside(d: Images, x: Images, h: float) -> Images:
    """The direction without pixels that would leave [0, 1]: attacks do not go there."""
    return d * ((x + h * d >= 0) & (x + h * d <= 1))


def compare_along(
    model: nn.Module,
    x: Images,
    y: Labels,
    *,
    f: PerExample,
    slope: PerExample,
    d: Images,
    reach: float,
    rounding: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gains over promises along one direction: for a tiny, a short and a whole step."""
    with torch.no_grad():
        noise = rounding * model(x).abs().amax(dim=1).clamp_min(f.abs())
        tiny = (AUDIBLE * noise / slope).clamp_min(TINY_STEP)

        def ratio(h: PerExample) -> PerExample:
            gain = odds(model(x + h.view(-1, 1, 1, 1).to(x) * d), y) - f
            return torch.where(slope > 0, gain / (h * slope), torch.nan)

        # A step so long that the network bends within it tells nothing about the slope.
        told = torch.where(tiny <= SHORT * reach, ratio(tiny), torch.nan)
        sizes = (torch.full_like(slope, part * reach) for part in (SHORT, STEP))
        short, step = (torch.where(h * slope >= SIGNED * noise, ratio(h), torch.nan) for h in sizes)
        return told, short, step


def name_fault(ratios: StepRatios) -> Concern | None:
    """What is wrong with the gradient, if anything."""
    tiny = ratios.tiny[ratios.tiny.isfinite()]
    short = ratios.short[ratios.short.isfinite()]
    uphill = min(share(ratios.step > 0), share(short > 0) if len(short) else 1.0)
    gain = float(ratios.step.median())
    if len(tiny) and share((tiny - 1).abs() <= ratios.match) < MOSTLY and not is_only_scaled(tiny, ratios.match):
        return name_untrue(tiny, uphill, gain)
    if uphill < UPHILL or gain < LITTLE:
        return Concern(
            f"the input gradient is shattered: true only very near to a point, while a step along it raises the loss "
            f"in {100 * uphill:.0f} % of trials and by {gain:.2g} of what it promises, so gradient attacks find little "
            "and robustness may be overstated: remove ripples and noise, and add a query attack such as square",
            serious=False,
        )
    if gain > MUCH:
        return Concern(
            f"the input gradient is saturated: a step along it raises the loss by {gain:.2g} times what it promises, "
            "so attacks may take it for flat and robustness may be overstated: remove steep squashing from the model, "
            "and add a query attack such as square",
            serious=False,
        )
    return None


def name_untrue(tiny: Tensor, uphill: float, gain: float) -> Concern:
    """The name of a gradient that is not the slope."""
    if share(tiny < 0) >= MOSTLY:
        return Concern(
            "the input gradient is reversed: small steps along it lower the loss that it should raise, so gradient "
            "attacks go the wrong way and every image would look robust: remove the reversal from the model's backward",
            serious=True,
        )
    if share(tiny.abs() <= NOTHING) >= 0.5:
        useful = uphill >= UPHILL and LITTLE < gain < MUCH
        smooth = "is of a smooth stand-in (straight-through), which steps of this size follow"
        lost = "is made up and steps of this size do not follow it, so robustness may be overstated"
        return Concern(
            f"the model moves in stairs (it is quantised or rounds its input): small steps change nothing, and its "
            f"gradient {smooth if useful else lost}: remove the rounding, or add a query attack such as square",
            serious=False,
        )
    if uphill >= MOSTLY and gain > LITTLE:
        return Concern(
            "the input gradient is not the slope of the model (a stand-in, rounding or noise), though steps along it "
            "raise the loss: robustness may be overstated, so add a query attack such as square",
            serious=False,
        )
    return Concern(
        f"the input gradient has nothing to do with what the model computes (small steps along it raise the loss in "
        f"{100 * share(tiny > 0):.0f} % of trials, whole steps in {100 * uphill:.0f} %), so attacks are blind: "
        "remove detach and made-up backward passes from the model",
        serious=True,
    )


def name_missing(apart: Float[Tensor, "d b"], match: float) -> Concern | None:
    """A concern if along every random direction the gradient of some images is not the slope."""
    told = apart.isfinite().all(dim=0)
    lost = int((told & (apart > match).all(dim=0)).sum())
    if not lost:
        return None
    return Concern(
        f"the input gradient is not the whole slope of the model on {lost} of {int(told.sum())} images: along random "
        "directions it says other changes than there are, so a part is missing, moved or turned round, attacks search "
        "in the wrong places and robustness may be overstated: remove made-up backward passes, and add a query attack "
        "such as square",
        serious=False,
    )


def is_only_scaled(tiny: Tensor, match: float) -> bool:
    """A gradient of another size in the right direction misleads no attack: they use its direction alone."""
    usual = float(tiny.median())
    return usual > 0 and share((tiny / usual - 1).abs() <= match) >= MOSTLY


def share(hits: Tensor) -> float:
    return float(hits.double().mean())
