"""The fastest equivalent of a classifier for attacks on this machine.

Forms of the same network are timed on a real batch, forward and input gradient, in turns; one is taken only if it
agrees with the original there (`Difference`) and is faster. The choice is a value: a run writes it down and reuses it.
"""

import copy
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from leastwise.core.losses import odds
from leastwise.core.types import Images, Logits
from leastwise.models.classifier import Classifier, inference
from leastwise.models.fast.fold import NetworkCopy, fold

LOGITS, GRADIENT, SIGNS = 1e-4, 1e-2, 0.999  # what float32 forms must agree to
WORTH = 1.05  # a form that gains less may owe it to chance, and is not worth another rounding
ROUNDS = 5  # at least, of all forms, and again of the best one alone: two were seen to pick the wrong one
STEPS = 24  # of the original that fit into a trial: more of them would leave a batch unlike an attack's
FEWEST = 8  # images in a trial


@dataclass(frozen=True)
class Form:
    """How a network is computed. Every form is the same function up to rounding."""

    recipe_name: ClassVar[str] = "Form"

    folded: bool = False
    channels_last: bool = False
    compiled: bool = False

    def __str__(self) -> str:
        parts = (("BatchNorm folded", self.folded), ("channels last", self.channels_last), ("compiled", self.compiled))
        return ", ".join(name for name, on in parts if on) or "as given"


ORIGINAL = Form()
FORMS = {
    "given": ORIGINAL,
    "folded": Form(folded=True),
    "channels-last": Form(channels_last=True),
    "folded-channels-last": Form(folded=True, channels_last=True),
}
CANDIDATES = (Form(channels_last=True), Form(folded=True), Form(folded=True, channels_last=True))


class FormDifference(NamedTuple):
    """How two forms differ on a batch: the largest logit error over the largest logit, the input gradient's relative
    L2 error, and the share of pixels whose gradient has the same sign."""

    logits: float
    gradient: float
    signs: float

    @property
    def acceptable(self) -> bool:
        return self.logits <= LOGITS and self.gradient <= GRADIENT and self.signs >= SIGNS


@dataclass(frozen=True, eq=False)
class Prepared:
    """A classifier in evaluation mode with frozen parameters, the form it has and what the trial measured."""

    model: Classifier
    form: Form
    copy: NetworkCopy
    gain: float = 1.0  # step time of the original over that of this form, measured; 1 for the original
    seconds: tuple[tuple[Form, float], ...] = ()  # per step of the trial; only forms that agreed
    note: str = ""  # why it is not what was asked for

    def refresh(self) -> None:
        """Follow the original after its weights changed (a training step), without building anything anew."""
        self.copy.refresh()

    def __str__(self) -> str:
        gained = f", {self.gain:.2f} times as fast as given" if self.gain > 1 else ""
        return f"{self.form}{gained}" + (f" ({self.note})" if self.note else "")


def put_in_form(model: Classifier, form: Form, x: Images) -> Prepared:
    """The classifier in one form, untimed and unchecked; `x` is a batch it may look at. The model is not changed.

    A network that cannot be copied (a foreign one may hold anything) is used itself in its original form.
    """
    with inference(model):
        if form.folded:
            made = fold(model.net, model.normalise(x))
        else:
            try:
                made = NetworkCopy(copy.deepcopy(model.net).eval().requires_grad_(False), model.net, ())
            except Exception:
                if form != ORIGINAL:
                    raise
                return Prepared(model, ORIGINAL, NetworkCopy(model.net, model.net, ()))
    net = made.net
    if form.channels_last:
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if form.compiled:
        net = torch.compile(net)  # type: ignore[assignment]
    twin = Classifier(net, model.k, model.mean, model.std, model.arch).to(x.device).eval()
    return Prepared(twin, form, made)


def prepare(
    model: Classifier, x: Images, form: Form | None = None, *, seconds: float = 5.0, compiled: bool = False
) -> Prepared:
    """The fastest form for batches like `x`, found in about `seconds`; or the given form, checked, without a trial.

    `compiled` adds compiled forms, where a compiler is installed; compiling takes longer than `seconds`.
    """
    with inference(model):  # a network that cannot be copied is used itself
        return choose_form(model, x, form, seconds=seconds, compiled=compiled)


def choose_form(model: Classifier, x: Images, form: Form | None, *, seconds: float, compiled: bool) -> Prepared:
    """The fastest of the forms that agree with the original, by a short trial on the batch."""
    original = put_in_form(model, ORIGINAL, x)
    wanted: tuple[Form, ...] = CANDIDATES if form is None else (form,)
    if form is None and compiled and (shutil.which("c++") or x.device.type != "cpu"):
        wanted = (*CANDIDATES, Form(folded=True, compiled=True), Form(folded=True, channels_last=True, compiled=True))
    few = partial(attack_step, original.model, x[:FEWEST])
    (_, once) = time_in_turns([few], 2)[0]
    batch = x[: max(FEWEST, int(FEWEST * seconds / (once * STEPS)))]
    given = attack_step(original.model, batch)
    agreed = [original]
    for candidate in wanted:
        one = try_form(model, candidate, batch)
        if one is not None and compare_steps(given, attack_step(one.model, batch)).acceptable:
            agreed.append(one)
    if form is not None:
        return agreed[-1] if len(agreed) > 1 else replace(original, note=f"it cannot be had with {form}")
    works = [partial(attack_step, one.model, batch) for one in agreed]
    first = time_in_turns(works, ROUNDS, seconds / 2)
    best = max(range(len(works)), key=lambda i: statistics.median(ratios(first[0], first[i])))
    final = time_in_turns([works[0], works[best]], ROUNDS, seconds / 3)
    gain = statistics.median(ratios(*final)) if best else 1.0
    measured = tuple((one.form, statistics.median(times)) for one, times in zip(agreed, first, strict=True))
    if gain < WORTH:
        return replace(original, seconds=measured)
    return replace(agreed[best], gain=gain, seconds=measured)


def try_form(model: Classifier, form: Form, x: Images) -> Prepared | None:
    """None if the network cannot be had in this form, or if there is nothing to fold."""
    try:
        one = put_in_form(model, form, x)
        attack_step(one.model, x[:2])
    except Exception:  # foreign networks and compilers fail in any way; the original remains
        return None
    return None if form.folded and not (one.copy.folds or one.copy.alone) else one


def attack_step(model: nn.Module, x: Images) -> tuple[Logits, Images]:
    """What an attack does once: logits, and the gradient of the log-odds of the first class against the rest."""
    at = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        z = model(at)
        (gradient,) = torch.autograd.grad(odds(z, torch.zeros_like(z[:, 0], dtype=torch.long)).sum(), at)
    return z.detach(), gradient


def measure_difference(model: nn.Module, other: nn.Module, x: Images) -> FormDifference:
    """How far one attack step of another form is from that of the model."""
    return compare_steps(attack_step(model, x), attack_step(other, x))


def compare_steps(given: tuple[Logits, Images], other: tuple[Logits, Images]) -> FormDifference:
    """The difference of two attack steps."""
    (z, g), (z2, g2) = given, other
    return FormDifference(
        relative_error((z - z2).abs().max(), z.abs().max()),
        relative_error((g - g2).norm(), g.norm()),
        float((g.sign() == g2.sign()).double().mean()),
    )


def relative_error(error: Tensor, size: Tensor) -> float:
    """0 where both are: a network may be constant."""
    return 0.0 if float(error) == 0 else float(error / size)  # NaN stays NaN, which nothing accepts


def time_in_turns(works: Sequence[Callable[[], object]], rounds: int, seconds: float = 0) -> list[list[float]]:
    """The times of each piece of work; they take turns, so that a busy moment hits all of them. More rounds than
    asked for while there is time."""
    spent: list[list[float]] = [[] for _ in works]
    while len(spent[0]) < rounds or sum(map(sum, spent)) < seconds:
        for work, times in zip(works, spent, strict=True):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
    return spent


def ratios(given: list[float], other: list[float]) -> list[float]:
    """Each time of the first over the time of the second in the same turn."""
    return [a / b for a, b in zip(given, other, strict=True)]
