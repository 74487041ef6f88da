"""Prepared networks compute what the given ones do, over all architectures, and follow them while they are trained."""

import copy
import sys
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from leastwise.models.classifier import Classifier
from leastwise.models.fast.fold import ScaleShift, fold, fold_by_order, fold_graph
from leastwise.models.fast.prepare import (
    FORMS,
    LOGITS,
    ORIGINAL,
    Form,
    FormDifference,
    attack_step,
    compare_steps,
    measure_difference,
    prepare,
    put_in_form,
    try_form,
)
from leastwise.models.zoo.registry import ARCHITECTURES, build
from tests.conftest import SHAPE, K

FOLDED = Form(folded=True)

SIDES = {"cifar": 32, "imagenet": 96}
QUICK = {"small", "convnet", "lenet5", "small-cnn", "resnet20", "wrn-16-4"}  # the others are for `make test`


def unsettled(name: str, seed: int = 3) -> tuple[Classifier, Tensor]:
    """A network whose BatchNorm statistics and weights are not the initial ones, and images for it.

    Small images: of the ten million ReLUs that an image of 299 pixels passes in Inception-v3 some are so close to 0
    that float32 alone, against float64, changes the sign of more than 0.1 % of the gradient's pixels.
    """
    side = SIDES[ARCHITECTURES[name].size]
    channels = 1 if name == "lenet5" else 3
    model = build(name, (channels, side, side), K, mean=(0.5,) * channels, std=(0.25,) * channels, seed=seed)
    g = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            n = module.num_features
            module.running_mean = 0.2 * torch.randn(n, generator=g)
            module.running_var = 0.5 + torch.rand(n, generator=g)
            with torch.no_grad():
                module.weight.copy_(0.5 + torch.rand(n, generator=g))
                module.bias.copy_(0.2 * torch.randn(n, generator=g))
    return model.eval(), torch.rand(2, channels, side, side, generator=g)


def in_double(model: Classifier, x: Tensor) -> tuple[Classifier, Tensor]:
    """In float64, where two forms of one function agree on every processor."""
    return model.double(), x.double()


def marked(name: str) -> object:
    return name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [marked(name) for name in ARCHITECTURES])
def test_every_architecture_folds_to_the_same_function(name: str) -> None:
    """Logits and input gradients to a relative 1e-9 in float64; in float32 the logits, as far as `prepare` demands.

    Which side of 0 a ReLU's input falls in float32 depends on the processor, and one of them turned over moves the
    gradient of two images by a per cent, so gradients are compared where they are exact.
    """
    model, x = unsettled(name)
    norms = sum(isinstance(m, nn.BatchNorm2d) for m in model.modules())
    double = copy.deepcopy(model).double()
    for form in (FOLDED, Form(folded=True, channels_last=True), Form(channels_last=True)):
        made = put_in_form(double, form, x.double())
        if (
            form.folded and not name.endswith("imagenet") and name != "inception-v3"
        ):  # those have unused extra classifiers
            assert len(made.copy.folds) + len(made.copy.alone) == norms
        seen = measure_difference(double, made.model, x.double())
        assert seen.logits < 1e-9 and seen.gradient < 1e-9, seen
    for form in (FOLDED, Form(folded=True, channels_last=True)):
        seen = measure_difference(model, put_in_form(model, form, x).model, x)
        assert seen.logits <= LOGITS, seen


@pytest.mark.parametrize("name", ["small", "resnet20"])
def test_tracing_and_order_find_the_same_pairs(name: str) -> None:
    model, x = unsettled(name)
    from leastwise.models.fast.fold import skip_shape_checks

    with skip_shape_checks():
        by_graph = fold_graph(model.net, model.normalise(x))
    by_order = fold_by_order(model.net, model.normalise(x))
    assert set(by_graph.folds) == set(by_order.folds) and len(by_graph.folds) > 3
    assert set(by_graph.alone) == set(by_order.alone)


class Untraceable(nn.Module):
    """Looks at values, so it cannot be traced; one BatchNorm follows a convolution whose output is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, K)

    def forward(self, x: Tensor) -> Tensor:
        h = self.bn1(self.conv1(x)).relu()
        if float(h.detach().sum()) < -1:
            raise RuntimeError
        side = self.conv2(h)
        return self.fc((self.bn2(side) + side).mean((2, 3)))


def scrambled(net: nn.Module) -> nn.Module:
    g = torch.Generator().manual_seed(0)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean, module.running_var = torch.randn(4, generator=g), 0.5 + torch.rand(4, generator=g)
    return net.eval()


def test_a_form_that_is_another_function_is_not_taken() -> None:
    """By order alone, bn2 looks foldable although its convolution's output is also used bare."""
    model = Classifier(scrambled(Untraceable()), K)
    x = torch.rand(6, *SHAPE)
    folded = try_form(model, FOLDED, x)
    assert folded is not None and len(folded.copy.folds) == 2
    assert not measure_difference(model, folded.model, x).acceptable
    assert prepare(model, x, FOLDED).form == ORIGINAL
    assert not prepare(model, x, seconds=0.05).form.folded


class Shared(nn.Module):
    """A convolution used twice and a BatchNorm used twice: neither may be folded."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.fc = nn.Linear(3, K)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.bn(self.conv(self.bn(self.conv(x)))).mean((2, 3)))


def test_layers_used_twice_are_not_folded() -> None:
    model = Classifier(Shared().eval(), K)
    model.net.bn.running_mean = torch.tensor([0.3, -0.1, 0.2])  # type: ignore[union-attr,assignment]
    x = torch.rand(4, *SHAPE)
    for made in (fold(model.net, x), fold_by_order(model.net, x)):
        assert made.folds == () and made.alone == ("bn",)
        assert torch.allclose(made.net(x), model(x), atol=1e-6)


def test_the_given_network_is_not_changed() -> None:
    model, x = unsettled("resnet20")
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    asks = [p.requires_grad for p in model.parameters()]
    for form in FORMS.values():
        put_in_form(model, form, x)
    prepare(model, x, seconds=0.05)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert [p.requires_grad for p in model.parameters()] == asks
    assert all(module.training for module in model.modules())
    assert [p.grad for p in model.parameters()] == [None] * len(asks)


@pytest.mark.parametrize("form", list(FORMS.values()), ids=list(FORMS))
@pytest.mark.parametrize("name", ["small", "resnet20", "convnet"])
def test_a_prepared_network_follows_training_without_being_rebuilt(name: str, form: Form) -> None:
    model, x = in_double(*unsettled(name))
    made = put_in_form(model, form, x)
    held = {key: value.data_ptr() for key, value in made.copy.net.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    model.train()
    model(torch.rand(8, 3, 32, 32).double()).square().sum().backward()
    optimiser.step()
    model.eval()
    assert not measure_difference(model, made.model, x).acceptable  # the weights moved
    made.refresh()
    assert measure_difference(model, made.model, x).acceptable
    assert {key: value.data_ptr() for key, value in made.copy.net.state_dict().items()} == held


@pytest.mark.parametrize("name", ["small", "small+2d", "small+cosine", "resnet20+bin"])
def test_features_of_a_prepared_network(name: str) -> None:
    model = build(name, (3, 16, 16), K, seed=1).eval()
    x = torch.rand(3, 3, 16, 16)
    made = put_in_form(model, FOLDED, x).model
    assert torch.allclose(made.features(x), model.features(x), atol=1e-5)
    assert torch.allclose(made(x), model(x), atol=1e-5)


class HandMade(nn.Module):
    """A normalisation written by hand, with a buffer that is not saved; BatchNorm called by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.register_buffer("centre", torch.randn(4), persistent=False)
        self.fc = nn.Linear(4, K)

    def forward(self, x: Tensor) -> Tensor:
        h = self.bn(input=self.conv(x)) - self.centre.view(1, -1, 1, 1)
        return self.fc(h.relu().mean((2, 3)))


@pytest.mark.parametrize("form", [FOLDED, Form(channels_last=True)])
def test_buffers_that_are_not_saved_are_followed(form: Form) -> None:
    model, x = in_double(Classifier(HandMade().eval(), K), torch.rand(4, *SHAPE))
    made = put_in_form(model, form, x)
    assert measure_difference(model, made.model, x).acceptable
    model.net.centre.add_(1.0)  # type: ignore[operator,union-attr]
    made.refresh()
    assert measure_difference(model, made.model, x).acceptable
    if form.folded:
        assert made.copy.folds == (("conv", "bn"),)


def test_unusual_layers_are_left_alone_and_the_others_folded() -> None:
    """A parametrised convolution computes its weight anew; a linear layer on sequences has other channels."""
    model, x = in_double(*unsettled("resnet20"))
    torch.nn.utils.parametrizations.spectral_norm(model.net.get_submodule("layer1.0.conv1"))
    model.eval()
    made = put_in_form(model, FOLDED, x)
    assert len(made.copy.folds) == 18 and len(made.copy.alone) == 1
    assert measure_difference(model, made.model, x).acceptable

    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.bn, self.last = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(64, K)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.bn(self.fc(x[:, 0])).flatten(1))  # [b 8 6] -> [b 8 8]: channels are rows

    sequences = Classifier(Sequences().eval(), K)
    sequences.net.bn.running_mean = torch.randn(8)  # type: ignore[union-attr,assignment]
    made = put_in_form(sequences, FOLDED, torch.rand(4, *SHAPE))
    assert made.copy.folds == () and made.copy.alone == ("bn",)
    assert measure_difference(sequences, made.model, torch.rand(4, *SHAPE)).acceptable


def test_prepared_networks_are_frozen_and_in_evaluation_mode() -> None:
    model, x = unsettled("small")
    for form in FORMS.values():
        made = put_in_form(model.train(), form, x).model
        assert not any(p.requires_grad for p in made.parameters()) and not any(m.training for m in made.modules())
        assert made.k == model.k and made.mean == model.mean


def test_the_choice_is_the_fastest_that_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that each form moves by a known time."""
    model, x = unsettled("small")
    times = {ORIGINAL: 1.0, FORMS["channels-last"]: 0.9, FORMS["folded"]: 0.5, FORMS["folded-channels-last"]: 0.6}
    now = 0.0

    def slow_step(net: nn.Module, batch: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal now
        folded = any(isinstance(m, ScaleShift) for m in net.modules())
        wide = next(m for m in net.modules() if isinstance(m, nn.Conv2d) and m.in_channels > 3)
        last = wide.weight.is_contiguous(memory_format=torch.channels_last)
        now += times[Form(folded, last)]
        return attack_step(net, batch)

    model.net.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    module = sys.modules["leastwise.models.fast.prepare"]
    monkeypatch.setattr(module, "attack_step", slow_step)
    monkeypatch.setattr(module.time, "perf_counter", lambda: now)
    chosen = prepare(model, x)
    assert chosen.form == FORMS["folded"] and chosen.gain == pytest.approx(2.0)
    assert dict(chosen.seconds) == pytest.approx(times)
    assert str(chosen) == "BatchNorm folded, 2.00 times as fast as given"
    times |= {FORMS["channels-last"]: 0.99, FORMS["folded"]: 0.98, FORMS["folded-channels-last"]: 1.2}
    kept = prepare(model, x)
    assert kept.form == ORIGINAL and kept.gain == 1.0  # too little to gain


def test_a_network_without_batchnorm_has_nothing_to_fold() -> None:
    model, x = unsettled("convnet")
    assert try_form(model, FOLDED, x) is None
    asked = prepare(model, x, FOLDED)
    assert asked.form == ORIGINAL and str(asked) == "as given (it cannot be had with BatchNorm folded)"


def test_a_network_that_cannot_be_copied_is_used_as_it_is() -> None:
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(SHAPE[0], K)

        def __deepcopy__(self, memo: object) -> "Stubborn":
            raise RuntimeError("no copies")

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x.mean((2, 3)))

    model, x = Classifier(nn.Sequential(nn.BatchNorm2d(3), Stubborn()), K).train(), torch.rand(4, *SHAPE)
    before = model.digest()
    made = prepare(model, x, seconds=0.05)
    assert made.form == ORIGINAL and made.model is model
    made.refresh()
    assert model.digest() == before and model.training  # its statistics did not move, its mode is what it was


def test_the_measure_of_difference() -> None:
    """Against numbers worked out by hand: a linear model with one weight changed."""
    fc = nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        fc.weight.copy_(torch.tensor([[1.0, 0, 0, 0], [0, 2, 0, 0]]))
    other = copy.deepcopy(fc)
    model, changed = (Classifier(nn.Sequential(nn.Flatten(), net), 2) for net in (fc, other))
    x = torch.ones(1, 1, 2, 2)
    assert measure_difference(model, changed, x) == FormDifference(0.0, 0.0, 1.0)
    z, g = attack_step(model, x)
    assert (
        not compare_steps((z, g), (z * torch.nan, g)).acceptable
        and not compare_steps((z, g), (z, g * torch.nan)).acceptable
    )
    with torch.no_grad():
        other.weight[1, 1] = 2.2
    seen = measure_difference(model, changed, x)
    # Two classes: the log-odds are z_1 - z_0, whose gradient is (-1, 2, 0, 0), then (-1, 2.2, 0, 0).
    assert seen.logits == pytest.approx(0.1) and seen.gradient == pytest.approx(0.2 / 5**0.5) and seen.signs == 1.0
    assert not seen.acceptable
    assert replace_fields(seen, logits=1e-5, gradient=1e-3).acceptable
    assert not replace_fields(seen, logits=1e-5, gradient=1e-3, signs=0.998).acceptable


def replace_fields(seen: FormDifference, **fields: float) -> FormDifference:
    return seen._replace(**fields)


def test_a_step_is_logits_and_the_gradient_of_the_log_odds() -> None:
    model, x = unsettled("convnet")
    z, gradient = attack_step(model, x)
    at = x.clone().requires_grad_()
    odds = model(at)
    (expected,) = torch.autograd.grad((odds[:, 1:].logsumexp(1) - odds[:, 0]).sum(), at)
    assert torch.allclose(z, odds.detach()) and torch.allclose(gradient, expected, atol=1e-7)
    assert replace(FOLDED, channels_last=True) == FORMS["folded-channels-last"]
