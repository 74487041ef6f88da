"""What logits of real images tell about a model: bounded, saturated, rounded, constant or one-sided outputs."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from leastwise.core.text import name_some
from leastwise.core.types import Labels, Logits
from leastwise.models.class_order import describe_swapped
from leastwise.models.concern import Concern

ENOUGH = 100  # images that can tell a model from guessing
SAME_SUM = 1e-4  # relative: sums of probabilities in float32
SPREAD = 1e-2  # between the largest and the smallest logit of an image; the probabilities then differ by 1 % at most
# Of the rivals of the predicted class, that the softmax weighs about alike. The public networks of tests/oracles have
# 0.34 at most; of a small network PGD on cross-entropy leaves 45 % at 0.19, 47 % with its logits divided
# by 3 (0.48), 50 % by 5 (0.67) and 51 % by 10 (0.88), where the margin leaves 44 % of each.
FLAT_RIVALS, FEWEST_RIVALS = 0.5, 3
AT_THE_END = 0.05  # of all logits lie exactly at the largest or the smallest: a clamp, a ReLU or a tanh cut them off
FEW_VALUES, MOST_STEPS = 0.5, 1e4  # logits that are rounded share values, and all are multiples of one step
FEW_LOGITS = 100  # fewer cannot tell
ONE_ANSWER = 0.9  # of the images get the same answer


def doubt_logits(z: Logits, names: Sequence[str] = ()) -> Iterator[Concern]:
    """Concerns about the logits of a real batch as numbers."""
    if z.shape[1] < 2:
        return
    yield from doubt_probabilities(z.float())
    z = z.detach()
    spread = float((z.amax(1) - z.amin(1)).float().median())
    if spread < SPREAD:
        yield Concern(
            f"the logits of an image differ by {spread:.1g} only, so all classes look alike and attacks on the loss "
            "push in no direction in particular: multiply the logits, or remove a large temperature",
            serious=False,
        )
    constant = [c for c in range(z.shape[1]) if len(z) > 1 and bool((z[:, c] == z[0, c]).all())]
    if constant and len(z) >= 2:
        shown = name_some([names[c] if names else str(c) for c in constant], 5)
        yield Concern(
            f"the logit of {shown} is the same on all images: the class is dead or masked out, so its numbers mean "
            "little; check the last layer",
            serious=False,
        )
    live = z[:, [c for c in range(z.shape[1]) if c not in constant]].float()
    if live.numel() >= FEW_LOGITS:
        yield from doubt_resolution(live, exact=z.element_size() >= 4)


def doubt_temperature(z: Logits) -> Iterator[Concern]:
    """A concern if cross-entropy weighs most rivals of the predicted class alike, so that it leads to none of them.

    The effective number of rivals is 1 / sum of squared shares of a softmax without the predicted class.
    """
    z = z.detach().float()
    rivals = z.shape[1] - 1
    if rivals < FEWEST_RIVALS or float((z.amax(1) - z.amin(1)).median()) < SPREAD:  # the latter has a concern already
        return
    shares = z.scatter(1, z.argmax(dim=1, keepdim=True), -torch.inf).softmax(dim=1)
    effective = float((1 / shares.square().sum(dim=1)).median())
    if effective - 1 > FLAT_RIVALS * (rivals - 1):
        yield Concern(
            f"the logits are small: cross-entropy weighs {effective:.1f} of the {rivals} other classes alike: attacks "
            "on it (pgd, fgsm) go towards none of them and their robust accuracy is too high; multiply the logits "
            "or remove a temperature, or count cw20 or apgd-dlr, which no scaling of the logits changes",
            serious=False,
        )


def doubt_probabilities(z: Logits) -> Iterator[Concern]:
    """A softmax row sums to 1 without negative entries; logits of a real batch do not, all at once."""
    sums = z.sum(1)
    same = bool(((sums - sums.mean()).abs() < SAME_SUM * sums.abs().mean().clamp_min(1e-12)).all())
    if bool((z >= 0).all()) and same and (len(z) > 1 or abs(float(sums[0]) - 1) < SAME_SUM):
        scaled = "" if abs(float(sums.mean()) - 1) < SAME_SUM else f", times {float(sums.mean()):.3g}"
        yield Concern(
            f"the model returns probabilities{scaled}: remove its softmax (or take the logarithm), attacks need logits",
            serious=True,
        )
    elif bool(((z >= 0) & (z <= 1)).all()):
        yield Concern("all outputs lie in [0, 1]: if the model ends in a sigmoid, remove it", serious=False)
    elif bool((z.logsumexp(1).abs() < 1e-4).all()):
        yield Concern(
            "the model returns log-probabilities: attacks and verdicts are the same as with logits, sums of logits not",
            serious=False,
        )


def doubt_resolution(z: Tensor, *, exact: bool) -> Iterator[Concern]:
    """Concerns about logits that are cut off at an end, or that take few values; half precision has few by itself."""
    ends = [float(end) for end in (z.min(), z.max()) if float((z == end).double().mean()) >= AT_THE_END]
    if ends:
        shown = " and ".join(f"{end:.4g}" for end in ends)
        yield Concern(
            f"many logits are exactly {shown}: they are saturated (cut off by a clamp, a ReLU or a tanh), where the "
            "gradient is zero and robustness may be overstated; return the logits as they were before",
            serious=False,
        )
        z = z[(z != z.min()) & (z != z.max())]
    values = torch.unique(z)
    if not exact or len(values) < 3 or len(values) > FEW_VALUES * z.numel():
        return
    gap = float((values[1:] - values[:-1]).min())
    steps = (values.double() - values[0].double()) / gap
    if float(steps.max()) < MOST_STEPS and float((steps - steps.round()).abs().max()) < 0.05:
        yield Concern(
            f"the logits take only {len(values)} values, all multiples of {gap:.3g}: they are rounded, so small steps "
            "change nothing and robustness may be overstated; return them unrounded",
            serious=False,
        )


def doubt_answers(z: Logits, y: Labels, names: Sequence[str] = (), *, ordered: bool = True) -> Iterator[Concern]:
    """Concerns about predictions beside the labels: guesses, one answer for all, and another order if that is asked."""
    n, k = z.shape
    if n < ENOUGH or k < 2:
        return
    predicted, y = z.argmax(dim=1).cpu(), y.cpu()
    called = list(names) or [str(c) for c in range(k)]
    pairs = torch.bincount(k * y + predicted, minlength=k * k).view(k, k)
    right, given = int(pairs.diagonal().sum()), pairs.sum(dim=0)
    most = int(given.argmax())
    order = describe_swapped(pairs.numpy(), called) if ordered else ""
    one = f"it answers {called[most]} for {int(given[most])} of them"
    collapsed = int(given[most]) >= ONE_ANSWER * n and 2 * int(pairs.sum(dim=1).max()) <= ONE_ANSWER * n
    # 2.33 standard deviations: a guesser exceeds this once in a hundred times.
    if right <= n / k + 2.33 * math.sqrt(n / k * (1 - 1 / k)):
        advice = order or "check --mean and --std, the order of the classes and of the channels"
        guess = f"the model is right on {right} of {n} images, no better than guessing"
        yield Concern(f"{guess}{f' ({one})' if collapsed else ''}: {advice}", serious=False)
    elif collapsed:
        yield Concern(
            f"the model is right on {right} of {n} images, but {one}: that class is a sink, or the inputs are not what "
            "the model was trained on",
            serious=False,
        )
    elif order:
        yield Concern(order, serious=False)
