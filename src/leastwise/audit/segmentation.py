"""Objects and what is behind them, without masks drawn by hand: colours, edges, and the centre of the image.

Like GrabCut (Rother, Kolmogorov and Blake, SIGGRAPH 2004): a mixture of colours for the object and one for the
background, a price for borders where colours do not change, and the cheapest cut, over and over. In the place of the
box that a person draws there stands a prior: photographs have their object in the middle.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, UInt8
from scipy import ndimage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

COLOURS = 5  # of each mixture, as in GrabCut
EDGE = 6.0  # the price of a border between equal colours, in nats; GrabCut has 50 on photographs of full size
ROUNDS = 8  # of mixtures and cuts; most images stay as they are after four
EM_STEPS = 8
CAPACITY = 1000  # nats become whole numbers for the cut: to one part in a thousand
SMALLEST_VARIANCE = 1e-3  # of a colour in [0, 1]: three 8-bit levels, squared
SURE = 0.02  # the prior is never nearer to 0 or 1
NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (1, -1))

PixelPlane = Float[np.ndarray, "h w"]
Pixels = Float[np.ndarray, "p 3"]


@dataclass(frozen=True)
class ObjectPrior:
    """How likely a pixel belongs to the object before anything is seen: high in an ellipse, low at the rim."""

    radius: float = 0.8  # of the ellipse, in half sides of the image
    softness: float = 0.15

    def plane(self, h: int, w: int) -> PixelPlane:
        down, right = (2 * (np.arange(n) + 0.5) / n - 1 for n in (h, w))  # -1 … 1 from edge to edge
        distance = np.sqrt(down[:, None] ** 2 + right**2)
        p = 1 / (1 + np.exp((distance - self.radius) / self.softness))
        return np.clip(p, SURE, 1 - SURE)


def segment_objects(
    images: UInt8[np.ndarray, "n c h w"], prior: ObjectPrior = ObjectPrior()
) -> Bool[np.ndarray, "n h w"]:
    """The object of each image; where nothing stands out, the ellipse of the prior."""
    return np.stack([segment_image(image, prior) for image in images])


def segment_image(image: UInt8[np.ndarray, "c h w"], prior: ObjectPrior) -> Bool[np.ndarray, "h w"]:
    colours = opponent_colours(image)
    h, w = image.shape[1:]
    p = prior.plane(h, w)
    start = mask = p > 0.5
    edges = edge_prices(colours.reshape(h, w, 3))
    for _ in range(ROUNDS):
        front, behind = mask.ravel(), ~mask.ravel()
        if min(front.sum(), behind.sum()) < COLOURS:
            break
        # The mixtures are learnt from the present cut, the middle and the rim counting most.
        likely = fit_mixture(colours, front * p.ravel()), fit_mixture(colours, behind * (1 - p.ravel()))
        gain = (log_density(colours, likely[0]) - log_density(colours, likely[1])).reshape(h, w)
        cut = cheapest_cut(gain + np.log(p / (1 - p)), edges)
        if (cut == mask).all():
            break
        mask = cut
    return tidy_up(mask, start)


def opponent_colours(image: UInt8[np.ndarray, "c h w"]) -> Pixels:
    """Brightness, red against green, and yellow against blue, so that distances are nearer to what people see."""
    v = image.reshape(len(image), -1).T / 255
    r, g, b = (v if v.shape[1] == 3 else np.repeat(v[:, :1], 3, axis=1)).T
    return np.stack([(r + g + b) / 3, r - g, (r + g) / 2 - b], axis=1)


Mixture = tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m 3"], Float[np.ndarray, "m 3"]]


def fit_mixture(colours: Pixels, weight: Float[np.ndarray, " p"]) -> Mixture:
    """Shares, means and variances of a few colours: EM from quantiles of the brightness, the same every time."""
    order = np.argsort(colours[:, 0], kind="stable")
    mass = np.cumsum(weight[order])
    at = np.searchsorted(mass, mass[-1] * (np.arange(COLOURS) + 0.5) / COLOURS)
    mean = colours[order[np.minimum(at, len(order) - 1)]]
    share, variance = np.full(COLOURS, 1 / COLOURS), np.full((COLOURS, 3), 0.02)
    for _ in range(EM_STEPS):
        each = log_parts(colours, (share, mean, variance))
        each = np.exp(each - each.max(1, keepdims=True))
        each = weight[:, None] * each / each.sum(1, keepdims=True)
        total = each.sum(0) + 1e-9
        share, mean = total / total.sum(), (each.T @ colours) / total[:, None]
        variance = (each.T @ colours**2) / total[:, None] - mean**2 + SMALLEST_VARIANCE
    return share, mean, variance


def log_parts(colours: Pixels, mixture: Mixture) -> Float[np.ndarray, "p m"]:
    """log share + log density of each part of a mixture."""
    share, mean, variance = mixture
    distance = ((colours[:, None] - mean) ** 2 / variance).sum(2)
    return np.log(share) - 0.5 * (distance + np.log(2 * np.pi * variance).sum(1))


def log_density(colours: Pixels, mixture: Mixture) -> Float[np.ndarray, " p"]:
    return np.logaddexp.reduce(log_parts(colours, mixture), axis=1)


def edge_prices(colours: Float[np.ndarray, "h w 3"]) -> tuple[PixelPlane, ...]:
    """What a border between a pixel and its neighbour in each direction costs: less where the colour changes."""
    differences = [((shifted(colours, step) - colours) ** 2).sum(2) for step in NEIGHBOURS]
    mean = float(np.mean([d[~np.isnan(d)].mean() for d in differences]))
    sharpness = 1 / (2 * max(mean, 1e-6))
    return tuple(
        np.nan_to_num(EDGE / np.hypot(*step) * np.exp(-sharpness * d))
        for step, d in zip(NEIGHBOURS, differences, strict=True)
    )


def shifted(plane: np.ndarray, step: tuple[int, int]) -> np.ndarray:
    """The neighbour's values at each pixel; NaN where there is none."""
    h, w = plane.shape[:2]
    found = np.full(plane.shape, np.nan)
    down, right = step
    rows, columns = slice(0, h - down), slice(max(0, -right), w - max(0, right))
    found[rows, columns] = plane[down:, max(0, right) : w + min(0, right)]
    return found


def cheapest_cut(gain: PixelPlane, edges: tuple[PixelPlane, ...]) -> Bool[np.ndarray, "h w"]:
    """The mask that minimises −Σ gain inside + Σ prices of the borders: a minimum cut (Boykov and Jolly, 2001)."""
    h, w = gain.shape
    n = h * w
    number = np.arange(n).reshape(h, w)
    source, sink = n, n + 1
    units = np.round(CAPACITY * gain).astype(np.int64).ravel()
    heads, tails, capacity = [number.ravel(), np.full(n, source)], [np.full(n, sink), number.ravel()], []
    capacity = [np.maximum(-units, 0), np.maximum(units, 0)]
    for (down, right), price in zip(NEIGHBOURS, edges, strict=True):
        other = shifted(number[..., None].astype(float), (down, right))[..., 0]
        there = ~np.isnan(other)
        a, b = number[there], other[there].astype(np.int64)
        cost = np.round(CAPACITY * price[there]).astype(np.int64)
        heads += [a, b]
        tails += [b, a]
        capacity += [cost, cost]
    ends = (np.concatenate(heads), np.concatenate(tails))
    graph = coo_array((np.concatenate(capacity).astype(np.int32), ends), shape=(n + 2, n + 2)).tocsr()
    left = graph - maximum_flow(graph, source, sink).flow
    left.data = np.maximum(left.data, 0)
    left.eliminate_zeros()
    reached = breadth_first_order(left, source, return_predecessors=False)
    mask = np.zeros(n + 2, dtype=bool)
    mask[reached] = True
    return mask[:n].reshape(h, w)


def tidy_up(mask: Bool[np.ndarray, "h w"], start: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """Without holes, and without what hangs together with nothing in the middle; the start where nothing is left."""
    parts, count = ndimage.label(mask)
    sizes = ndimage.sum_labels(start, parts, index=np.arange(1, count + 1)) if count else np.zeros(0)
    kept = mask & np.isin(parts, 1 + np.flatnonzero(sizes >= 0.2 * max(sizes.max(initial=0.0), 1.0)))
    filled: Bool[np.ndarray, "h w"] = ndimage.binary_fill_holes(kept)
    share = filled.mean()
    return filled if 0.05 <= share <= 0.95 else start
