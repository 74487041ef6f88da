"""What every attack keeps to, whatever the network, the batch and the seed."""

import torch

from leastwise.attacks.base import NEVER, Attack
from leastwise.attacks.external import ExternalAttack
from leastwise.models.zoo.registry import build
from tests.attacks.networks_to_attack import noise_for


def check_contract(attack: Attack, k: int, b: int, shape: tuple[int, int, int], seed: int) -> None:
    model = build("small", shape, k, seed=seed % 1000).eval()
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(b, *shape, generator=g)
    y = torch.randint(0, k, (b,), generator=g)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x_before, generator_before = x.clone(), torch.random.get_rng_state()

    found = attack.run(model, x, y, noise_for(x, seed))

    assert bool(attack.allows(x, found.x_adv).all())
    ball = getattr(attack, "ball", None)
    if ball is not None:
        assert bool((ball.norm(found.x_adv - x) <= ball.eps + 1e-6 * max(1.0, ball.eps)).all())
    assert found.x_adv.shape == x.shape and found.x_adv.dtype == x.dtype and not found.x_adv.requires_grad
    assert float(found.x_adv.min()) >= 0 and float(found.x_adv.max()) <= 1
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(x, x_before) and torch.equal(torch.random.get_rng_state(), generator_before)
    assert torch.equal(found.fooled, found.step != NEVER)
    assert found.forwards > 0 and found.backwards >= 0
    most = attack.cost(k)
    if most is None:
        assert isinstance(attack, ExternalAttack)
    else:
        assert found.forwards <= b * most.forwards and found.backwards <= b * most.backwards
    assert not model.training and all(not m.training for m in model.modules())
