"""An attack from another library, or of your own, as a condition of an audit: any function (model, x, y) -> x_adv."""

import torch
from torch import nn

from leastwise.attacks import Clean, ExternalAttack, Linf
from leastwise.data import load
from leastwise.jobs import audit
from leastwise.models import build
from leastwise.report import headline
from leastwise.training import Training, fit

EPS = 0.02


def one_step(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A step of full size uphill."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(model(x), y), x)
    return (x + EPS * gradient.sign()).clamp(0, 1).detach()


def main() -> None:
    network = build("small", shape=(1, 28, 28), k=10, seed=0)
    for _ in fit(network, load("fashion-mini/train").take(100), Training(epochs=3)):
        pass
    test = load("fashion-mini/test").take(20)
    mine = ExternalAttack("one step", one_step, Linf(EPS), version="1")
    found = audit(network, test, (("clean", Clean()), ("mine", mine)))
    for condition in found.conditions:
        for name, accuracy in zip(found.names, found.tally(condition).accuracy.tolist(), strict=True):
            print(f"{condition:6} {name:12} {accuracy:.3f}")
    print(headline(found))


if __name__ == "__main__":
    main()
