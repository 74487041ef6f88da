"""What goes wrong in models: gradients, noise, memory and company, as functions and modules around a network."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.tiny_networks import convolutional, train


def backward_as(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The identity, with another gradient."""

    class Changed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            return change(gradients[0])

    return lambda x: Changed.apply(x)  # type: ignore[no-any-return, no-untyped-call]


def straight_through(function: Callable[[Tensor], Tensor], leak: float = 1.0) -> Callable[[Tensor], Tensor]:
    return lambda x: (function(x) - leak * x).detach() + leak * x


def rounded(levels: float) -> Callable[[Tensor], Tensor]:
    return lambda x: (levels * x).round() / levels


def smooth_stairs(levels: float, steep: float) -> Callable[[Tensor], Tensor]:
    def stairs(x: Tensor) -> Tensor:
        place = levels * x + 0.5
        return (place.floor() + torch.sigmoid(steep * (place - place.floor() - 0.5)) - 0.5) / levels

    return stairs


def on_some_images(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Only where the picture is rather dark, about half of them."""

    def choose(x: Tensor) -> Tensor:
        dark = x.detach().flatten(1).mean(dim=1).view(-1, 1, 1, 1) < 0.25
        return torch.where(dark, change(x), x)

    return choose


def where_answered(c: int, change: Callable[[Tensor], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    """Only on images that the network takes for one class: the numbers of one class are wrong, and the others fine."""

    def choose(net: nn.Module, x: Tensor) -> Tensor:
        with torch.no_grad():
            chosen = (net(x).argmax(dim=1) == c).view(-1, 1, 1, 1)
        return net(torch.where(chosen, change(x), x))  # type: ignore[no-any-return]

    return choose


def some_columns(every: int) -> Callable[[Tensor], Tensor]:
    return lambda gradient: gradient * (torch.arange(gradient.shape[3]) % every == 0)


def folded(x: Tensor) -> Tensor:
    """A zigzag of width 0.02 beside a small part of the image: the slope turns round within a step."""
    place = (x / 0.02) % 2
    return 0.9 * x + 0.02 * torch.where(place < 1, place, 2 - place)


def only_rows(first: int, last: int) -> Callable[[Tensor], Tensor]:
    def change(gradient: Tensor) -> Tensor:
        kept = torch.zeros_like(gradient)
        kept[:, :, first:last] = gradient[:, :, first:last]
        return kept

    return change


def column_to(value: float, c: int) -> Callable[[Tensor], Tensor]:
    return lambda z: z.index_copy(1, torch.tensor([c]), torch.full_like(z[:, :1], value))


class Counting(nn.Module):
    """Counts its calls, and lets them change the answer."""

    def __init__(self, net: nn.Module, change: Callable[[Tensor, int], Tensor]) -> None:
        super().__init__()
        self.net, self.change, self.calls = net, change, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.change(self.net(x), self.calls)


class Remembering(nn.Module):
    """Keeps its answers, by a key of one image that it takes from images and their place in the batch."""

    def __init__(self, net: nn.Module, key: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.net, self.key, self.kept = net, key, dict[object, Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        z = self.net(x)
        known = [self.kept.setdefault(self.key(one), row.detach()) for one, row in zip(x.detach(), z, strict=True)]
        return torch.stack(known) + 0 * z


class Unsteady(nn.Module):
    """Adds noise that the content of an image decides: the same answer twice, and another one a hair beside."""

    def __init__(self, net: nn.Module, size: float) -> None:
        super().__init__()
        self.net, self.size = net, size

    def forward(self, x: Tensor) -> Tensor:
        seeds = (1e6 * x.detach().double().flatten(1).sum(dim=1)).long() % 2**31
        noise = [torch.randn(x.shape[1:], generator=torch.Generator().manual_seed(int(seed))) for seed in seeds]
        return self.net(x + self.size * torch.stack(noise).to(x))


class AlwaysDropout(nn.Module):
    def __init__(self, net: nn.Module, p: float) -> None:
        super().__init__()
        self.net, self.p = net, p

    def forward(self, x: Tensor) -> Tensor:
        return self.net(F.dropout(x, self.p, training=True))


def batch_norm_in_training() -> nn.Module:
    net = train(convolutional(norm=nn.BatchNorm2d(8)))
    net[1].track_running_stats, net[1].running_mean, net[1].running_var = False, None, None  # type: ignore[index]
    return net


def in_place(net: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        x.mul_(1.0).clamp_(0.01, 0.99)
    return net(x)  # type: ignore[no-any-return]


def as_numpy(net: nn.Module, x: Tensor) -> Tensor:
    return torch.from_numpy(net(x.detach()).numpy().copy())


def under_no_grad(net: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return net(x)  # type: ignore[no-any-return]


def two_paths(seen: Callable[[Tensor], bool]) -> Callable[[nn.Module, Tensor], Tensor]:
    """Attacks see a network with blurred images, the judge the network itself."""
    return lambda net, x: net(F.avg_pool2d(x, 3, 1, 1)) if seen(x) else net(x)


def looks(one: Tensor) -> bytes:
    return (10 * one).round().numpy().tobytes()


def repeats_after(most: int) -> Callable[[nn.Module, Tensor], Tensor]:
    def answer(net: nn.Module, x: Tensor) -> Tensor:
        z: Tensor = net(x)
        return torch.cat([z[:most], z[:1].expand(max(0, len(z) - most), -1)])

    return answer


def darkens(rows: Callable[[int], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    return lambda net, x: net(x * (1 - 0.5 * rows(len(x)).view(-1, 1, 1, 1).float()))


def fixed_noise(x: Tensor) -> Tensor:
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).to(x)
