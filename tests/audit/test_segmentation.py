"""Objects found by colours, edges and the centre: known shapes, the cheapest cut by trying all, and what is flat."""

from itertools import product

import numpy as np
import pytest

from leastwise.audit.segmentation import (
    NEIGHBOURS,
    ObjectPrior,
    cheapest_cut,
    edge_prices,
    fit_mixture,
    log_density,
    segment_objects,
    shifted,
    tidy_up,
)
from tests.audit.scenes import scenes


def test_objects_are_found_whatever_their_size() -> None:
    """Ellipses near the centre: a mean overlap (intersection over union) above 0.9."""
    images, truth = scenes(30)
    found = segment_objects(images)
    overlap = (found & truth).sum((1, 2)) / (found | truth).sum((1, 2))
    assert overlap.mean() > 0.9 and np.quantile(overlap, 0.1) > 0.7


def price(mask: np.ndarray, gain: np.ndarray, edges: tuple[np.ndarray, ...]) -> float:
    """The energy of a mask, pixel by pixel and border by border."""
    total = -gain[mask].sum()
    h, w = mask.shape
    for (down, right), plane in zip(NEIGHBOURS, edges, strict=True):
        for i, j in product(range(h), range(w)):
            if 0 <= i + down < h and 0 <= j + right < w and mask[i, j] != mask[i + down, j + right]:
                total += plane[i, j]
    return float(total)


@pytest.mark.parametrize("seed", range(5))
def test_the_cut_is_the_cheapest_of_all_masks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gain, colours = rng.normal(0, 3, (3, 4)), rng.uniform(0, 1, (3, 4, 3))
    edges = tuple(0.2 * one for one in edge_prices(colours))
    masks = [np.array(bits, dtype=bool).reshape(3, 4) for bits in product((False, True), repeat=12)]
    best = min(price(mask, gain, edges) for mask in masks)
    assert price(cheapest_cut(gain, edges), gain, edges) == pytest.approx(
        best, abs=0.05
    )  # thousandths of a nat, summed


def test_edges_cost_less_where_colours_change_and_farther_neighbours_less() -> None:
    colours = np.zeros((4, 6, 3))
    colours[:, 3:] = 1.0
    right, down, diagonal, _ = edge_prices(colours)
    assert right[0, 2] < 0.1 * right[0, 0] and down[0, 0] == right[0, 0]
    assert diagonal[0, 0] == pytest.approx(right[0, 0] / np.sqrt(2)) and (right[:, -1] == 0).all()
    plane = np.arange(12.0).reshape(3, 4)
    assert shifted(plane, (1, -1))[0].tolist()[1:] == [4.0, 5.0, 6.0] and np.isnan(shifted(plane, (1, -1))[0, 0])


def test_a_mixture_finds_the_colours_it_was_drawn_from() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[0.1, 0.2, 0.0], [0.9, -0.3, 0.1]])
    colours = centres[rng.integers(0, 2, 400)] + 0.03 * rng.standard_normal((400, 3))
    share, mean, variance = fit_mixture(colours, np.ones(400))
    near = np.array([np.abs(mean - one).max(1).min() for one in centres])
    assert (near < 0.05).all() and share.sum() == pytest.approx(1)
    grid = np.array([[0.1, 0.2, 0.0], [0.5, 0.0, 0.05], [0.9, -0.3, 0.1]])
    middle = log_density(grid, (share, mean, variance))
    assert middle[0] > middle[1] + 5 and middle[2] > middle[1] + 5


def test_a_flat_picture_gets_the_ellipse_of_the_prior_and_grey_ones_are_taken() -> None:
    flat = np.full((1, 3, 32, 32), 77, np.uint8)
    i, j = (np.mgrid[:32, :32] - 15.5) / 16
    (mask,) = segment_objects(flat, ObjectPrior(0.5))
    assert (mask == (np.hypot(i, j) < 0.5)).all()
    images, _ = scenes(2)
    assert segment_objects(images[:, :1]).shape == (2, 32, 32)


def test_tidying_fills_holes_and_drops_what_lies_apart() -> None:
    mask, start = np.zeros((12, 12), dtype=bool), np.zeros((12, 12), dtype=bool)
    start[3:9, 3:9] = mask[2:10, 2:10] = True
    mask[5, 5] = False
    mask[0, 0] = True
    found = tidy_up(mask, start)
    assert found[5, 5] and not found[0, 0] and found.sum() == 64
    assert (tidy_up(np.zeros_like(mask), start) == start).all()


def test_an_image_is_segmented_alike_in_every_batch() -> None:
    images, _ = scenes(5)
    assert (segment_objects(images[[3]])[0] == segment_objects(images)[3]).all()
