"""Heads and normalisations that stand in for a network's own."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leastwise.core.losses import ce
from leastwise.models.zoo.layers import (
    BatchInstanceNorm2d,
    BottleneckHead,
    CosineHead,
    clip_gates,
    gate_parameters,
    last_layer,
    with_bin,
    with_head,
)
from leastwise.models.zoo.registry import build, find_architecture
from tests.conftest import SHAPE, B, K

D = 9


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def received(net: nn.Module, x: Tensor) -> Tensor:
    """What the last layer is given."""
    seen: list[Tensor] = []
    _, last = last_layer(net)
    hook = last.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    net(x)
    hook.remove()
    return seen[0]


def cosine_head(scale: float = 15.0) -> CosineHead:
    head = CosineHead(D, K, scale).double()
    head.weight.data = numbers(K, D, seed=1)
    return head


def test_p12_cosine_logits_are_cosines() -> None:
    head, features = cosine_head(), numbers(B, D)
    f, w = features.numpy(), head.weight.detach().numpy()
    by_hand = [[f[i] @ w[j] / math.sqrt((f[i] @ f[i]) * (w[j] @ w[j])) for j in range(K)] for i in range(B)]
    assert torch.allclose(head(features), torch.tensor(by_hand))
    assert bool((head(features).abs() <= 1 + 1e-12).all())
    assert torch.allclose(head(head.weight).diagonal(), torch.ones(K, dtype=torch.float64))  # each row with itself


def test_p12_cosine_logits_do_not_change_with_the_length_of_features_or_rows() -> None:
    head, features = cosine_head(), numbers(B, D)
    before = head(features)
    lengths = 0.01 + 10 * torch.rand(B, 1, generator=torch.Generator().manual_seed(2))
    assert torch.allclose(head(lengths * features), before)
    head.weight.data *= torch.tensor([0.1, 1.0, 2.0, 30.0, 0.5])[:, None]
    assert torch.allclose(head(features), before)


def test_p12_scaled_logits_are_s_times_the_raw_ones() -> None:
    head, features, y = cosine_head(scale=10.0), numbers(B, D), torch.arange(B) % K
    raw = head(features)
    head.scaled = True
    assert torch.equal(head(features), 10 * raw)
    # The loss of hypersphere embedding without a margin, written out: -log(e^(s cos_y) / sum e^(s cos)).
    by_hand = -(10 * raw.gather(1, y[:, None])[:, 0] - (10 * raw).exp().sum(1).log())
    assert torch.allclose(ce(head(features), y), by_hand)


def test_cosine_gradients_know_of_both_norms() -> None:
    """A function of direction alone has gradients at right angles to its arguments."""
    head, features = cosine_head(), numbers(B, D).requires_grad_()
    head(features)[:, 2].sum().backward()
    assert head.weight.grad is not None and features.grad is not None
    assert torch.allclose((head.weight.grad * head.weight).sum(1), torch.zeros(K, dtype=torch.float64), atol=1e-12)
    assert torch.allclose((features.grad * features).sum(1), torch.zeros(B, dtype=torch.float64), atol=1e-12)
    assert bool(head.weight.grad[2].any()) and not bool(head.weight.grad[[0, 1, 3, 4]].any())


def test_a_zero_feature_is_undecided_and_not_a_nan() -> None:
    assert torch.equal(cosine_head()(torch.zeros(1, D, dtype=torch.float64)), torch.zeros(1, K, dtype=torch.float64))


def test_the_two_dimensional_head_has_two_features_and_no_bias_at_the_end() -> None:
    model = build("small+2d", SHAPE, K, seed=1).eval()
    x = torch.rand(B, *SHAPE, generator=torch.Generator().manual_seed(0))
    name, last = last_layer(model.net)
    assert isinstance(last, nn.Linear) and last.bias is None and name.endswith(".classify")
    features = model.features(x)
    assert features.shape == (B, 2)
    assert torch.allclose(features @ last.weight.T, model(x), atol=1e-6)
    assert BottleneckHead(D, K).project.bias is not None and BottleneckHead(D, K, bias=False).project.bias is None


def test_features_of_a_cosine_head_are_what_it_receives() -> None:
    plain, model = build("small", SHAPE, K, seed=1).eval(), build("small+cosine", SHAPE, K, seed=1).eval()
    x = torch.rand(B, *SHAPE, generator=torch.Generator().manual_seed(0))
    features = received(model.net, x)
    assert torch.equal(features, plain.features(x))  # the same seed makes the same body
    assert torch.equal(model.features(x), features)
    _, last = last_layer(model.net)
    assert isinstance(last, CosineHead)
    assert torch.allclose(model(x), F.cosine_similarity(features[:, None], last.weight[None], dim=2), atol=1e-6)


def test_a_head_goes_on_a_copy() -> None:
    net = build("convnet", SHAPE, K).net
    before = {name: value.clone() for name, value in net.state_dict().items()}
    changed = with_head(net, lambda d, k: CosineHead(d, k, 10.0))
    assert isinstance(last_layer(changed)[1], CosineHead) and isinstance(last_layer(net)[1], nn.Linear)
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter.zero_()
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    with pytest.raises(ValueError, match="ends in a linear layer, but this one has none"):
        with_head(nn.Sequential(nn.Conv2d(3, K, 1), nn.Flatten()), CosineHead)


@pytest.mark.parametrize("name", ["resnet20", "wrn-10-1", "vgg16-bn", "googlenet-imagenet", "vit-small", "lenet5"])
def test_heads_find_the_last_layer_of_every_family(name: str) -> None:
    with torch.device("meta"):
        plain, shape = find_architecture(name), (3, 32, 32)
        for part, kind in (("cosine", CosineHead), ("2d", BottleneckHead)):
            net = find_architecture(f"{name}+{part}").make(shape, K)
            *_, last = (m for m in net.modules() if isinstance(m, CosineHead | BottleneckHead))
            assert isinstance(last, kind)
            assert received(net, torch.empty(2, *shape)).shape == (2, 2 if part == "2d" else last.in_features)
        path = last_layer(plain.make(shape, K))[0]
        assert f"{path}.weight" in find_architecture(f"{name}+cosine").make(shape, K).state_dict()


def test_parts_combine_and_say_so() -> None:
    found = find_architecture("resnet20+bin+cosine")
    assert found.about.endswith(", with batch-instance normalisation and a cosine head") and found.params is None
    assert find_architecture("wrn-10-1+bin").ignored == ("sub_block1.",)
    model = build("resnet20+bin+cosine", (3, 12, 12), K, seed=2).eval()
    assert len(gate_parameters(model.net)) == 19 and isinstance(last_layer(model.net)[1], CosineHead)
    z = model(torch.rand(3, 3, 12, 12, generator=torch.Generator().manual_seed(0)))
    assert z.shape == (3, K) and bool((z.abs() <= 1 + 1e-6).all())
    assert build("resnet20+bin", (3, 12, 12), K, seed=2).digest() != build("resnet20", (3, 12, 12), K, seed=2).digest()


@torch.no_grad()
def awake(layer: nn.Module) -> nn.Module:
    """In place: weights and statistics that are not the initial ones."""
    for place, (name, value) in enumerate(layer.state_dict().items()):
        if value.is_floating_point() and not name.endswith("gate"):
            value.copy_(0.5 + torch.rand(value.shape, generator=torch.Generator().manual_seed(place)))
    return layer.double()


@pytest.mark.parametrize("training", [True, False])
def test_p24_gate_one_is_batch_normalisation(training: bool) -> None:
    bn = awake(nn.Sequential(nn.BatchNorm2d(D, eps=1e-3, momentum=0.2))).train(training)
    both = with_bin(bn)
    x = numbers(B, D, 4, 3)
    for _ in range(2):
        assert torch.allclose(both(x), bn(x))
    state = both.state_dict()
    assert state.keys() == {*bn.state_dict(), "0.gate"}
    for name, value in bn.state_dict().items():
        assert torch.allclose(state[name], value), name


@pytest.mark.parametrize("training", [True, False])
def test_p24_gate_zero_is_instance_normalisation_with_the_same_weights(training: bool) -> None:
    bn = awake(nn.Sequential(nn.BatchNorm2d(D))).train(training)
    both, x = with_bin(bn), numbers(B, D, 4, 3)
    torch.nn.init.zeros_(gate_parameters(both)[0])
    weight, bias = bn[0].weight, bn[0].bias
    for i in range(B):
        mean, variance = x[i].mean((1, 2)), x[i].var((1, 2), correction=0)
        by_hand = (x[i] - mean[:, None, None]) / (variance + 1e-5).sqrt()[:, None, None]
        alone = both(x[i : i + 1])[0]  # the other images of the batch do not matter
        assert torch.allclose(alone, weight[:, None, None] * by_hand + bias[:, None, None])
        assert torch.allclose(both(x)[i], alone)


@pytest.mark.parametrize("training", [True, False])
def test_p24_gates_between_mix_the_two(training: bool) -> None:
    layer = awake(BatchInstanceNorm2d(D)).train(training)
    x, gate = numbers(B, D, 4, 3), torch.linspace(0, 1, D, dtype=torch.float64)
    assert isinstance(layer, BatchInstanceNorm2d)
    layer.gate.data = gate
    mean, var = (None, None) if training else (layer.running_mean, layer.running_var)
    batch, instance = F.batch_norm(x, mean, var, training=training), F.instance_norm(x)
    rho, gamma, b = (value[:, None, None] for value in (gate, layer.weight, layer.bias))
    assert torch.allclose(layer(x), gamma * (rho * batch + (1 - rho) * instance) + b)


@pytest.mark.parametrize("training", [True, False])
def test_p24_gates_stay_in_the_unit_interval_after_a_step_and_a_clip(training: bool) -> None:
    model = build("small+bin", SHAPE, K, seed=1).train(training)
    x = torch.rand(B, *SHAPE, generator=torch.Generator().manual_seed(0))
    y, gates = torch.arange(B) % K, gate_parameters(model.net)
    others = [p for p in model.parameters() if not any(p is gate for gate in gates)]
    optimiser = torch.optim.SGD([{"params": others, "lr": 0.1}, {"params": gates, "lr": 1000.0, "weight_decay": 0}])
    ce(model(x), y).mean().backward()
    optimiser.step()
    before = torch.cat(gates).detach()
    clip_gates(model.net)
    after = torch.cat(gates).detach()
    assert bool((before > 1).any()) and bool((before < 0).any())  # the step leaves the interval on both sides
    assert torch.equal(after, before.clamp(0, 1))
    assert len(gates) == 9 and all(gate.requires_grad for gate in gates)


def test_bin_is_refused_where_there_is_nothing_to_replace() -> None:
    for name in ("convnet+bin", "vit-small+bin"):
        with pytest.raises(ValueError, match="replaces BatchNorm2d layers, but this network has none"):
            build(name, (3, 32, 32), K)
    with pytest.raises(ValueError, match="BatchNorm '0' needs weights, running statistics and a momentum"):
        with_bin(nn.Sequential(nn.BatchNorm2d(D, affine=False)))


def test_bin_takes_maps_of_one_pixel() -> None:
    layer = BatchInstanceNorm2d(D).eval()
    torch.nn.init.zeros_(layer.gate)
    with torch.no_grad():
        assert torch.allclose(layer(torch.rand(1, D, 1, 1)), torch.zeros(1, D, 1, 1), atol=1e-3)
