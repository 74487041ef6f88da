"""Pictures whose objects are known: noisy ellipses before two colours."""

import numpy as np


def scenes(n: int, h: int = 32, w: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Noisy ellipses near the centre before a background whose halves have two colours; images and true masks."""
    rng = np.random.default_rng(5)
    i, j = np.mgrid[:h, :w]
    images, masks = np.empty((n, 3, h, w)), np.empty((n, h, w), dtype=bool)
    for number in range(n):
        back, front = rng.uniform(0, 1, (2, 3)), rng.uniform(0, 1, 3)
        while min(np.linalg.norm(front - colour) for colour in back) < 0.5:
            front = rng.uniform(0, 1, 3)
        (y, x), (a, b) = rng.uniform(0.42, 0.58, 2) * (h, w), rng.uniform(0.25, 0.4, 2) * (h, w)
        masks[number] = ((i - y) / a) ** 2 + ((j - x) / b) ** 2 < 1
        behind = np.where(i[None] < h / 2, back[0][:, None, None], back[1][:, None, None])
        images[number] = np.where(masks[number], front[:, None, None], behind)
    noisy = images + 0.05 * rng.standard_normal(images.shape)
    return np.rint(255 * noisy.clip(0, 1)).astype(np.uint8), masks
