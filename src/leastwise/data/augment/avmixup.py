"""AVmixup (Lee et al., CVPR 2020): images on the line from x to a vertex beyond x', with softened labels.

x_av = clip(x + gamma · (x' - x)),  x̂ = alpha · x + (1 - alpha) · x_av,
ŷ = alpha · phi(y, clean) + (1 - alpha) · phi(y, vertex),  alpha ~ U(0, 1) per example.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from leastwise.core.losses import smooth_labels
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels, PerExample


def soften_labels(y: Labels, k: int, true: float, *, dtype: torch.dtype = torch.float32) -> Float[Tensor, "b k"]:
    """phi(y, true): that much on the label and (1 - true)/(k - 1) on every other class.

    true = 1/k is uniform, so the published 0.1 is uniform for ten classes and not for a hundred.
    """
    if k < 2 or not 0 <= true <= 1:
        raise ValueError(f"a soft label needs two classes or more and a share in 0 … 1, but saw {k} and {true}")
    return smooth_labels(y, k, 1 - true, convention="others", dtype=dtype)


def adversarial_vertex(x: Images, x_adv: Images, gamma: float) -> Images:
    """gamma times as far as the adversarial example; gamma > 1 leaves its ball by design."""
    return (x + gamma * (x_adv - x)).clamp(0, 1)


def mix(
    x: Images,
    x_adv: Images,
    y: Labels,
    *,
    k: int,
    noise: Noise,
    gamma: float = 2.0,
    clean: float = 1.0,
    vertex: float = 0.1,
) -> tuple[Images, Float[Tensor, "b k"]]:
    """Mixed images and their soft labels. `clean` and `vertex` are the paper's lambda_1 and lambda_2."""
    return mix_at(noise.fork("alpha").uniform((), x.dtype), x, x_adv, y=y, k=k, gamma=gamma, clean=clean, vertex=vertex)


def mix_at(
    alpha: PerExample, x: Images, x_adv: Images, *, y: Labels, k: int, gamma: float, clean: float, vertex: float
) -> tuple[Images, Float[Tensor, "b k"]]:
    """One alpha per example, the same for its image and its label."""
    a = alpha[:, None, None, None]
    images = a * x + (1 - a) * adversarial_vertex(x, x_adv, gamma)
    a = alpha[:, None]
    return images, a * soften_labels(y, k, clean, dtype=x.dtype) + (1 - a) * soften_labels(y, k, vertex, dtype=x.dtype)
