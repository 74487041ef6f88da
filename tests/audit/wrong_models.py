"""Models that look fine and are not, all made from a tiny network that is."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.misbehaviour import (
    AlwaysDropout,
    Counting,
    Remembering,
    Unsteady,
    as_numpy,
    backward_as,
    batch_norm_in_training,
    column_to,
    darkens,
    fixed_noise,
    folded,
    in_place,
    looks,
    on_some_images,
    only_rows,
    repeats_after,
    rounded,
    smooth_stairs,
    some_columns,
    straight_through,
    two_paths,
    under_no_grad,
    where_answered,
)
from tests.audit.tiny_networks import K, Through, Whole, convolutional, plain, with_other

CONTRACT = "TypeCheckError"  # in tests, the contract of shapes speaks before the check does


class WrongModel(NamedTuple):
    name: str
    make: Callable[[], nn.Module]
    words: str = ""  # what a refusal or a warning must say; without any, the number must be right


def wrong_models() -> Iterator[WrongModel]:
    yield from masked_gradients()
    yield from random_models()
    yield from wrong_outputs()
    yield from wrong_surroundings()


def masked_gradients() -> Iterator[WrongModel]:
    def before(name: str, function: Callable[[Tensor], Tensor], words: str) -> WrongModel:
        return WrongModel(name, lambda: Through(plain(), before=function), words)

    def after(name: str, function: Callable[[Tensor], Tensor], words: str) -> WrongModel:
        return WrongModel(name, lambda: Through(plain(), after=function), words)

    too_high = "is too high"
    yield before("reversed gradient", backward_as(torch.neg), "is reversed")
    yield after("reversed at the logits", backward_as(torch.neg), "is reversed")
    yield before("reversed and small", backward_as(lambda g: -1e-3 * g), "is reversed")
    yield before(
        "reversed on dark images", on_some_images(backward_as(torch.neg)), f"not the slope|nothing to do|{too_high}"
    )
    yield before("sine ripple", lambda x: x + 0.05 * (200 * x).sin(), "is shattered")
    yield before("fine sine ripple", lambda x: x + 0.02 * (1000 * x).sin(), "is shattered")
    yield after("ripple on the logits", lambda z: z + (30 * z).sin(), f"is shattered|{too_high}")
    yield before("gradient upside down", backward_as(lambda g: g.flip(2)), "not the slope|nothing to do")
    yield before("gradient turned about", backward_as(lambda g: g.flip(2, 3)), "not the slope|nothing to do")
    yield WrongModel(
        "gradient of another network",
        lambda: with_other(lambda net, second, x: net(x).detach() + second(x) - second(x).detach()),
        "not the slope|nothing to do",
    )
    yield after(
        "gradient of another class", backward_as(lambda g: g.roll(3, 1)), "not the slope|nothing to do|is reversed"
    )
    yield before("noise for a gradient", backward_as(torch.randn_like), "nothing to do")
    yield before(
        "noise in the gradient", backward_as(lambda g: g + 3 * g.abs().mean() * torch.randn_like(g)), "slope|nothing"
    )
    yield before("constant gradient", backward_as(lambda g: 1e-3 * torch.ones_like(g)), "nothing to do|not the slope")
    yield before("input rounding with a leak", straight_through(rounded(4), 0.01), "moves in stairs")
    yield before("binary input with a leak", straight_through(rounded(1), 1e-3), "moves in stairs")
    yield before("straight-through, 8 levels", straight_through(rounded(8)), "moves in stairs")
    yield before("straight-through, 2 levels", straight_through(rounded(2)), "moves in stairs")
    yield before("input rounding", rounded(16), "zero on all")
    yield before("sign of the input", lambda x: (x - 0.5).sign(), "zero on all")
    yield before("smooth staircase", smooth_stairs(8, 30), "")
    yield before("smoother staircase", smooth_stairs(8, 8), "")
    yield before("steep input sigmoid", lambda x: (60 * (x - 0.5)).sigmoid(), "")
    yield before("very steep input sigmoid", lambda x: (400 * (x - 0.5)).sigmoid(), "")
    yield after("logits times 1e-6", lambda z: 1e-6 * z, "differ by .* only")
    yield after("logits times 1e-9", lambda z: 1e-9 * z, "differ by .* only")
    yield after("rounded logits", straight_through(torch.round), "are rounded|moves in stairs")
    yield after("logits in halves", straight_through(rounded(2)), "are rounded|moves in stairs")
    yield after("rounded logits without gradient", lambda z: z.round() + 0 * z, "are rounded|zero on all")
    yield after("gradient that underflows", backward_as(lambda g: 1e-46 * g), "zero on all")
    yield before("gradient of the frame alone", backward_as(only_rows(0, 3)), too_high)
    yield before("gradient of a few rows", backward_as(only_rows(20, 24)), too_high)
    lost = "not the whole slope|not the slope"
    yield before("gradient of every second column", backward_as(some_columns(2)), lost)
    yield before("gradient of every fourth column", backward_as(some_columns(4)), lost)
    yield before("gradient moved by a pixel", backward_as(lambda g: g.roll(1, 3)), lost)
    yield before("gradient that is blurred", backward_as(lambda g: F.avg_pool2d(g, 7, 1, 3)), lost)
    yield before("gradient with signs drawn by lot", backward_as(lambda g: g * torch.randn_like(g).sign()), "nothing")
    for c in (0, 6):
        where = f"images taken for class {c}"
        wrong = where_answered(c, backward_as(torch.neg))
        yield WrongModel(f"reversed on {where}", lambda wrong=wrong: Whole(plain(), wrong), f"{lost}|{too_high}")
        still = where_answered(c, torch.detach)
        yield WrongModel(f"no gradient on {where}", lambda still=still: Whole(plain(), still), "zero on")
    yield before("a zigzag of the input", folded, f"is shattered|{too_high}")
    yield WrongModel("noise by the content", lambda: Unsteady(plain(), 0.1), "nothing to do|not the slope")
    yield WrongModel("a little noise by the content", lambda: Unsteady(plain(), 0.02), "nothing to do|not the slope")
    yield after("logits divided by 30", lambda z: z / 30, "points of the accuracy")
    yield after("logits divided by 100", lambda z: z / 100, f"points of the accuracy|{too_high}")
    yield after("the winner alone", lambda z: 10 * F.one_hot(z.argmax(1), K) + 1e-3 * z, too_high)
    yield after("logits plus a million", lambda z: z + 1e6, "their last bits decide")
    yield after("ninth powers of logits", lambda z: z**9, "")
    yield after("logits times a million", lambda z: 1e6 * z, "")
    yield before("no gradient on dark images", on_some_images(torch.detach), "zero on")
    yield before("detached input", torch.detach, "no gradient")
    yield after("detached logits", torch.detach, "no gradient")
    yield WrongModel("no_grad inside", lambda: Whole(plain(), under_no_grad), "no gradient")
    yield WrongModel("through numpy", lambda: Whole(plain(), as_numpy), "no gradient")
    yield before("root of zero", lambda x: x + 0 * x.sqrt(), "not finite")


def random_models() -> Iterator[WrongModel]:
    def before(name: str, function: Callable[[Tensor], Tensor], words: str = "is randomised") -> WrongModel:
        return WrongModel(name, lambda: Through(plain(), before=function), words)

    yield before("noise on the input", lambda x: x + 0.1 * torch.randn_like(x))
    yield before("random shift", lambda x: x.roll(int(torch.randint(-2, 3, ())), 3))
    yield before("random brightness", lambda x: x * (0.8 + 0.4 * torch.rand(len(x), 1, 1, 1)))
    yield before("random pixels hidden", lambda x: x * (torch.rand_like(x) < 0.8))
    yield WrongModel("dropout in evaluation", lambda: AlwaysDropout(plain(), 0.3), "is randomised")
    yield WrongModel(
        "noise on the logits", lambda: Through(plain(), after=lambda z: z + torch.randn_like(z)), "is randomised"
    )
    yield WrongModel(
        "one of two networks",
        lambda: with_other(lambda net, second, x: net(x) if torch.rand(()) < 0.5 else second(x)),
        "is randomised|remembers",
    )
    yield before("a little noise", lambda x: x + 3e-4 * torch.randn_like(x), "")


def wrong_outputs() -> Iterator[WrongModel]:
    def after(name: str, function: Callable[[Tensor], Any], words: str) -> WrongModel:
        return WrongModel(name, lambda: Through(plain(), after=function), words)

    yield after("probabilities", lambda z: z.softmax(1), "returns probabilities")
    yield after("probabilities times 10", lambda z: 10 * z.softmax(1), "returns probabilities, times 10")
    yield after("cold probabilities", lambda z: (20 * z).softmax(1), "returns probabilities")
    yield after("sigmoids", torch.sigmoid, "ends in a sigmoid")
    yield after("clamped logits", lambda z: z.clamp(-1, 1), "are saturated")
    yield after("tanh of large logits", lambda z: (10 * z).tanh(), "are saturated")
    yield after("ReLU of the logits", F.relu, "are saturated")
    yield after("a dead class", column_to(-30.0, 3), "same on all images")
    yield after("a sink", lambda z: z + 100 * F.one_hot(torch.tensor(0), K), "no better than guessing .it answers")
    yield after("an output for rejected images", lambda z: F.pad(z, (0, 1)), "one output more than the 10 classes")
    yield after("an output too few", lambda z: z[:, 1:], "must return 10 logits")
    yield after("two outputs too many", lambda z: F.pad(z, (0, 2)), "must return 10 logits")
    yield after("labels", lambda z: z.argmax(1), f"must return 10 logits|gives its input no gradient|{CONTRACT}")
    yield after("whole numbers", lambda z: z.round().long(), f"floating-point|{CONTRACT}")
    yield after("transposed logits", lambda z: z.T, f"must return 10 logits|{CONTRACT}")
    yield after("two tensors", lambda z: (z, z), "must return a tensor of logits")
    yield after("a dict of others", lambda z: {"a": z, "b": z}, "must return a tensor of logits")
    yield after("logits that are NaN", lambda z: z / 0 * 0, "not finite")
    yield after("half precision that overflows", lambda z: (1e5 * z).half(), "not finite")
    yield after("two classes swapped", lambda z: z[:, [0, 1, 2, 3, 4, 7, 6, 5, 8, 9]], "look swapped")
    yield after("classes turned by one", lambda z: z.roll(1, 1), "in another order")
    yield after("classes backwards", lambda z: z.flip(1), "look swapped|in another order")


def wrong_surroundings() -> Iterator[WrongModel]:
    def before(name: str, function: Callable[[Tensor], Tensor], words: str) -> WrongModel:
        return WrongModel(name, lambda: Through(plain(), before=function), words)

    def whole(name: str, function: Callable[[nn.Module, Tensor], Any], words: str) -> WrongModel:
        return WrongModel(name, lambda: Whole(plain(), function), words)

    def counting(name: str, change: Callable[[Tensor, int], Tensor], words: str) -> WrongModel:
        return WrongModel(name, lambda: Counting(plain(), change), words)

    otherwise = "answers otherwise"
    yield before("pixels from 0 to 255", lambda x: x / 255, "with pixels from 0 to 255 on")
    yield before("pixels from -1 to 1", lambda x: 0.5 * x + 0.5, "with pixels from -1 to 1 on")
    yield before("negative images", lambda x: 1 - x, "guessing")
    yield WrongModel("an untrained network", lambda: convolutional().eval(), "guessing")
    yield whole("changes its input", in_place, "changes its input")
    yield counting("counts its calls", lambda z, n: z * (1 + 0.01 * n), "randomised|remembers")
    yield counting("turns after ten calls", lambda z, n: z if n < 10 else -z, "remembers|otherwise|depend on")
    yield counting("turns after twenty calls", lambda z, n: z if n < 20 else -z, "remembers|otherwise|slope|nothing")
    several = "answered otherwise"
    yield counting("turns after sixty calls", lambda z, n: z if n < 60 else -z, several)
    yield counting("turns when all is done", lambda z, n: z if n < 200 else -z, several)
    yield counting("loses its gradient after sixty calls", lambda z, n: z if n < 60 else z.detach() + 0 * z, several)
    yield WrongModel(
        "keeps answers to images that look alike", lambda: Remembering(plain(), looks), "zero on|remembers"
    )
    yield whole("the last rows of large batches", repeats_after(64), f"{several}|is random")
    yield whole("every fifth row is darker", darkens(lambda n: torch.arange(n) % 5 == 4), "remembers|depend on")
    yield whole("rows after the fortieth are darker", darkens(lambda n: torch.arange(n) > 40), f"remembers|{several}")
    yield whole("even batches only", lambda net, x: net(x * (1 if len(x) % 2 == 0 or len(x) == 1 else 0.7)), "random")
    yield whole("the same noise for every place", lambda net, x: net(x + 0.1 * fixed_noise(x)), "depend on")
    yield WrongModel("batch statistics", batch_norm_in_training, "depend on the others in its batch")
    yield before("mean of the batch taken off", lambda x: x - x.mean(0), "depend on the others")
    yield before("scaled by the brightest of the batch", lambda x: x / x.amax(), "")
    yield whole("other logits for single images", lambda net, x: net(x) * (2 if len(x) == 1 else 1), "depend on")
    yield whole("refuses single images", lambda net, x: net(x).view(-1, 2, K).flatten(0, 1), "attacks need any")
    yield whole("another path under no_grad", two_paths(lambda x: torch.is_grad_enabled()), otherwise)
    yield whole("another path for requires_grad", two_paths(lambda x: x.requires_grad), otherwise)
    yield WrongModel("takes other images", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()), "cannot take")
