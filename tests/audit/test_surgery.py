"""Data surgery: closed forms of blends and steps, ids that stay, and images that really do what they are built for."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from leastwise.attacks.goals import Goal, Match, Targeted
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import L2, Zero
from leastwise.audit.segmentation import ObjectPrior, segment_objects
from leastwise.audit.surgery import (
    Features,
    choose_targets,
    colour_backgrounds,
    draw_below,
    draw_partners,
    keep_two_classes,
    make_targeted_set,
    match_features,
    pseudo_label,
    remove_class,
    replace_background,
)
from leastwise.core.losses import odds
from leastwise.core.noise import Noise
from leastwise.core.types import Images, Labels
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.models.classifier import Classifier, inference
from leastwise.models.zoo.registry import build
from leastwise.training.loop import fit
from leastwise.training.recipe import Training
from tests.audit.scenes import scenes
from tests.conftest import SHAPE, K, random_linear


def pixels(data: Dataset) -> np.ndarray:
    return data.images[data.rows]


def whole(data: Dataset) -> Images:
    return data.batch(np.arange(len(data))).x


def by_id(data: Dataset) -> dict[int, bytes]:
    return {int(i): image.tobytes() for i, image in zip(data.ids, pixels(data), strict=True)}


@pytest.fixture
def digits() -> Dataset:
    """Ten classes of grey images; the data set is a shuffled part of its images, with ids of its own."""
    rng = np.random.default_rng(3)
    labels = np.arange(60) % 10
    images = rng.integers(0, 256, (60, 1, 9, 7), dtype=np.uint8)
    images[:, :, 0, :2] = (0, 255)
    return Dataset.of(images, labels, ids=500 + rng.permutation(60)).where(rng.permutation(60)[:45])


# Fewer classes.


def test_binary_keeps_two_classes_as_0_and_1(unbalanced: Dataset) -> None:
    two = keep_two_classes(unbalanced, "dog", 1)
    assert two.names == ("dog", "bee") and two.counts.tolist() == [9, 3]
    for new, old in enumerate((3, 1)):
        assert two.ids[two.labels == new].tolist() == unbalanced.ids[unbalanced.labels == old].tolist()
    assert by_id(two).items() <= by_id(unbalanced).items()
    assert keep_two_classes(unbalanced, "cow", "elk").counts.tolist() == [0, 1]
    with pytest.raises(ValueError, match="two different classes, but saw dog twice"):
        keep_two_classes(unbalanced, "dog", 3)


def test_removed_leaves_k_minus_1_classes(unbalanced: Dataset) -> None:
    grouped = Dataset(
        unbalanced.images,
        unbalanced.labels,
        unbalanced.names,
        unbalanced.ids,
        unbalanced.rows,
        (("insects", (0, 1)), ("horned", (2, 4)), ("pets", (3,))),
    )
    rest = remove_class(grouped, "bee")
    assert rest.names == ("ant", "cow", "dog", "elk") and rest.counts.tolist() == [20, 0, 9, 1]
    assert rest.groups == (("insects", (0,)), ("horned", (1, 3)), ("pets", (2,)))
    assert remove_class(grouped, "dog").groups == (("insects", (0, 1)), ("horned", (2, 3)))
    names = {int(i): unbalanced.names[c] for i, c in zip(unbalanced.ids, unbalanced.labels, strict=True)}
    assert all(rest.names[c] == names[int(i)] for i, c in zip(rest.ids, rest.labels, strict=True))
    assert by_id(rest).items() <= by_id(unbalanced).items() and len(rest) == 30
    same = remove_class(grouped, 1, renumber=False)
    assert same.names == unbalanced.names and same.counts.tolist() == [20, 0, 0, 9, 1]
    assert same.ids.tolist() == rest.ids.tolist()


# Backgrounds.


def test_coloured_blends_the_colour_of_the_group(digits: Dataset) -> None:
    colours = ((1.0, 0.2, 0.0), (0.0, 0.4, 1.0))
    painted = colour_backgrounds(digits, [(0, 1, 2, 3, 9), (4, 5, 6, 7, 8)], colours)
    assert painted.shape == (3, 9, 7) and painted.images.shape == (45, 3, 9, 7)
    grey = pixels(digits).astype(float) / 255
    for n, label in enumerate(digits.labels):
        colour = colours[0] if label in (0, 1, 2, 3, 9) else colours[1]
        for channel in range(3):
            answer = (1 - grey[n, 0]) * colour[channel] + grey[n, 0]
            assert np.abs(pixels(painted)[n, channel] - 255 * answer).max() <= 0.5 + 1e-9
        assert pixels(painted)[n, :, 0, 0].tolist() == [round(255 * value) for value in colour]  # grey 0
        assert pixels(painted)[n, :, 0, 1].tolist() == [255, 255, 255]  # grey 255
    assert painted.groups == (("on #ff3300", (0, 1, 2, 3, 9)), ("on #0066ff", (4, 5, 6, 7, 8)))
    for part in ("labels", "ids", "names"):
        assert np.array_equal(getattr(painted, part), getattr(digits, part))


def test_default_colours_obey_the_paper(digits: Dataset) -> None:
    """2 and 3 share a colour, 2 and 5 do not."""
    painted = colour_backgrounds(digits)
    background = {int(c): tuple(image[:, 0, 0]) for c, image in zip(painted.labels, pixels(painted), strict=True)}
    assert background[2] == background[3] != background[5]
    assert [classes for _, classes in painted.groups] == [(0, 1, 2, 3, 4), (5, 6, 7, 8, 9)]


def test_coloured_rows_survive_subsets_and_batches(digits: Dataset) -> None:
    painted = colour_backgrounds(digits)
    assert by_id(painted.only([2, 7]).take(2)).items() <= by_id(painted).items()
    assert torch.equal(torch.cat([b.x for b in painted.batches(7)]), torch.from_numpy(pixels(painted)).float() / 255)
    assert painted.digest() != colour_backgrounds(digits, colours=((0.0, 1.0, 0.0), (0.0, 0.0, 1.0))).digest()


def test_coloured_refuses_nonsense(digits: Dataset, unbalanced: Dataset) -> None:
    with pytest.raises(ValueError, match="1 channel, but saw 3"):
        colour_backgrounds(unbalanced)
    with pytest.raises(ValueError, match="one of two groups"):
        colour_backgrounds(digits, [(0, 1, 2), (3, 4)])
    with pytest.raises(ValueError, match="one of two groups"):
        colour_backgrounds(digits, [range(6), range(5, 10)])
    with pytest.raises(ValueError, match=r"3 numbers in 0 … 1"):
        colour_backgrounds(digits, colours=((2.0, 0.0, 0.0), (0.0, 0.0, 1.0)))


@pytest.mark.parametrize("kind", [bool, np.uint8, np.float32])
def test_a_replaced_background_leaves_the_object_untouched(unbalanced: Dataset, kind: type) -> None:
    data = unbalanced.without("bee")
    masks = np.random.default_rng(1).random((len(data), *SHAPE[1:])) < 0.5
    replaced = replace_background(data, masks.astype(kind), (1.0, 0.2, 0.0))
    front = np.broadcast_to(masks[:, None], pixels(data).shape)
    assert np.array_equal(pixels(replaced)[front], pixels(data)[front])
    behind = np.broadcast_to(np.array([255, 51, 0])[None, :, None, None], front.shape)
    assert np.array_equal(pixels(replaced)[~front], behind[~front])
    assert replaced.ids.tolist() == data.ids.tolist() and replaced.labels.tolist() == data.labels.tolist()
    assert by_id(replaced.only(["dog"])).items() <= by_id(replaced).items()


def test_soft_masks_blend(unbalanced: Dataset) -> None:
    masks = np.full((len(unbalanced), *SHAPE[1:]), 0.25)
    replaced = replace_background(unbalanced, masks)
    assert np.abs(pixels(replaced) - (0.25 * pixels(unbalanced) + 0.75 * 255)).max() <= 0.5


def test_backgrounds_refuse_nonsense(unbalanced: Dataset) -> None:
    n, (_, h, w) = len(unbalanced), SHAPE
    with pytest.raises(ValueError, match=r"masks need the shape \[33, 8, 6\], one per example, but saw \[32, 8, 6\]"):
        replace_background(unbalanced, np.ones((n - 1, h, w)))
    for shape in ((n, 1, h, w), (h, w), (n, w, h), ()):
        with pytest.raises(ValueError, match="masks need the shape"):
            replace_background(unbalanced, np.ones(shape))
    assert len(replace_background(unbalanced.only(["cow"]), np.ones((0, h, w)))) == 0
    with pytest.raises(ValueError, match="divide 8-bit ones by 255"):
        replace_background(unbalanced, np.full((n, h, w), 255, np.uint8))
    with pytest.raises(ValueError, match="3 numbers"):
        replace_background(unbalanced, colour=(1.0,))


def test_backgrounds_are_found_when_no_masks_are_given() -> None:
    images, _ = scenes(4)
    data = Dataset.of(images, np.arange(4) % 3)
    for prior in (ObjectPrior(), ObjectPrior(0.6)):
        answer = np.where(segment_objects(images, prior)[:, None], images, 255)
        assert np.array_equal(pixels(replace_background(data, prior=prior)), answer)


# Goals.


def step_of(goal: Goal, model: nn.Module, x: Images, y: Labels) -> Images:
    """One L2 step of length 0.01 from the image."""
    attack = PGD(L2(1.0), goal, 0.01, 1, start=Zero(), keep="last")
    return attack.perturb(model, x, y, Noise(0, torch.arange(len(x)), "/test")) - x


def test_targeted_on_a_linear_model_goes_along_the_difference_of_weights(batch: tuple[Images, Labels]) -> None:
    """For two classes the step is step · (w_t - w_other) / |w_t - w_other|."""
    model, x = random_linear(2), 0.25 + batch[0].double() / 2
    target = batch[1] % 2
    weight = model.net.weight.detach()
    direction = (weight[target] - weight[1 - target]).view(x.shape)
    answer = 0.01 * direction / direction.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    assert torch.allclose(step_of(Targeted(target), model, x, 1 - target), answer, atol=1e-12)


def test_targeted_has_the_direction_of_cross_entropy_to_the_target(
    network: Classifier, batch: tuple[Images, Labels]
) -> None:
    x, y = batch
    target = (y + 2) % K
    at = x.clone().requires_grad_()
    z = network(at)
    (gradient,) = torch.autograd.grad(-nn.functional.cross_entropy(z, target, reduction="sum"), at)
    answer = 0.01 * gradient / gradient.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    inside = (x > 0.011) & (x < 0.989)
    assert torch.allclose(step_of(Targeted(target), network, x, y)[inside], answer[inside], atol=1e-6)
    assert torch.equal(Targeted(target).score(z, target), -odds(z, target))


def test_match_on_a_linear_map_follows_its_transpose(batch: tuple[Images, Labels]) -> None:
    """The gradient of the score is -2 Wᵀ(z - t)."""
    model, x = random_linear(K), 0.25 + batch[0].double() / 2
    t = torch.randn(len(x), K, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    at = x.clone().requires_grad_()
    z = model(at)
    score = Match(t).score(z, t)
    assert torch.allclose(score, -((z - t) ** 2).sum(dim=1))
    (gradient,) = torch.autograd.grad(score.sum(), at)
    answer = (-2 * (z - t).detach() @ model.net.weight.detach()).view(x.shape)
    assert torch.allclose(gradient, answer)
    unit = answer / answer.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    assert torch.allclose(step_of(Match(t), model, x, batch[1]), 0.01 * unit, atol=1e-12)


def test_targeted_examples_may_leave_the_batch(network: Classifier, batch: tuple[Images, Labels]) -> None:
    """With keep="fooled" the targets of those who stay go on with them: the answer is that of each one alone."""
    x, y = batch
    target = (y + 1) % K
    noise = Noise(0, torch.arange(len(x)), "/test")
    together = PGD(L2(2.0), Targeted(target), 0.3, 6, Zero(), "fooled").run(network, x, y, noise)
    assert int(together.fooled.sum()) > 0
    for n in range(len(x)):
        rows = torch.tensor([n])
        alone = PGD(L2(2.0), Targeted(target[rows]), 0.3, 6, Zero(), "fooled")
        outcome = alone.run(network, x[rows], y[rows], noise.pick(rows))
        assert torch.allclose(outcome.x_adv[0], together.x_adv[n], atol=1e-5)
        assert int(outcome.step[0]) == int(together.step[n])


# Data sets made with a network.


def test_start_images_are_others_drawn_without_looking_at_the_class() -> None:
    rng = np.random.default_rng(0)
    n = 6000
    labels = rng.choice(4, n, p=(0.5, 0.3, 0.15, 0.05))
    ids = 10 * rng.permutation(n)
    partner = draw_partners(ids, seed=0)
    assert (partner != np.arange(n)).all()
    table = np.zeros((4, 4))
    np.add.at(table, (labels, labels[partner]), 1)
    assert stats.chi2_contingency(table).pvalue > 0.001  # independent of y
    assert stats.chisquare(table.sum(axis=0), n * np.bincount(labels) / n).pvalue > 0.001  # as frequent as in the data
    order = rng.permutation(n)  # the choice belongs to the ids, in whatever order they come
    assert np.array_equal(ids[order][draw_partners(ids[order], 0)], ids[partner][order])
    assert not np.array_equal(draw_partners(ids, seed=1), partner)


def test_every_other_example_can_be_a_start() -> None:
    ids = np.array([7, 3, 100, 42])
    seen = {(int(i), int(ids[j])) for seed in range(80) for i, j in zip(ids, draw_partners(ids, seed), strict=True)}
    assert seen == {(int(a), int(b)) for a in ids for b in ids if a != b}
    with pytest.raises(ValueError, match="at least two examples, but saw 1"):
        draw_partners(ids[:1], 0)


@pytest.fixture(scope="module")
def trained() -> tuple[Classifier, Dataset]:
    """A small network that knows its data a little, and 20 images it has not seen."""
    model = build("convnet", (1, 28, 28), 10, seed=3)
    for _ in fit(model, load("fashion-mini", "train").take(200), Training(epochs=3)):
        pass
    return model, load("fashion-mini", "test").take(2)


def test_matched_images_have_the_features_of_others(trained: tuple[Classifier, Dataset]) -> None:
    """From somewhere unrelated to less than a fifth of the distance, in 8-bit images too."""
    model, data = trained
    made = match_features(data, model, steps=300, step=0.1)
    start = data.batch(draw_partners(data.ids, 0)).x
    with torch.no_grad():
        wanted, before, after = (model.features(x) for x in (whole(data), start, whole(made)))
    ratio = (after - wanted).norm(dim=1) / (before - wanted).norm(dim=1)
    assert float(ratio.max()) < 0.2
    # Unlike x itself: the pixels come from elsewhere.
    assert ((whole(made) - whole(data)).flatten(1).norm(dim=1) > 2).all()


def test_matched_keeps_ids_labels_and_the_model_and_says_how_far_it_is(unbalanced: Dataset) -> None:
    model = build("small", SHAPE, K, seed=3).train()
    weights, heard = model.digest(), []
    made = match_features(unbalanced, model, steps=2, batch_size=10, watch=lambda *progress: heard.append(progress))
    assert heard == [(10, 33), (20, 33), (30, 33), (33, 33)]
    assert made.ids.tolist() == unbalanced.ids.tolist() and made.labels.tolist() == unbalanced.labels.tolist()
    assert made.names == unbalanced.names and made.counts.tolist() == unbalanced.counts.tolist()
    assert model.training and model.digest() == weights  # BatchNorm's statistics included
    assert all(parameter.grad is None for parameter in model.parameters())


def test_matched_begins_where_it_is_told(unbalanced: Dataset) -> None:
    """Without steps the start images come back: the others of the set, or those of another one."""
    model = build("convnet", SHAPE, K, seed=3)
    none = match_features(unbalanced, model, seed=4, steps=0)
    assert torch.equal(whole(none), unbalanced.batch(draw_partners(unbalanced.ids, 4)).x)
    black = Dataset.of(np.zeros((2, *SHAPE), np.uint8), np.array([0, 1]))
    assert not pixels(match_features(unbalanced, model, steps=0, start=black)).any()


def test_matched_refuses_nonsense(unbalanced: Dataset) -> None:
    model = build("convnet", SHAPE, K, seed=3)
    with pytest.raises(ValueError, match=r"shape \(3, 8, 6\) of the data, but saw 0 of shape \(3, 8, 6\)"):
        match_features(unbalanced, model, start=unbalanced.only(["cow"]))
    other = Dataset.of(np.zeros((2, 3, 6, 8), np.uint8), np.array([0, 1]))
    with pytest.raises(ValueError, match=r"shape \(3, 8, 6\) of the data, but saw 2 of shape \(3, 6, 8\)"):
        match_features(unbalanced, model, start=other)
    for make in (match_features, make_targeted_set):
        with pytest.raises(ValueError, match="a batch needs 1 image or more, but saw 0"):
            make(unbalanced, model, batch_size=0)


@pytest.mark.parametrize("batch_size", [1, 7])
def test_built_images_do_not_depend_on_the_batch(unbalanced: Dataset, network: Classifier, batch_size: int) -> None:
    """Up to rounding: a float may fall on the other side of half an 8-bit level."""
    for make in (
        lambda data, size: match_features(data, network, steps=5, batch_size=size),
        lambda data, size: make_targeted_set(data, network, steps=5, batch_size=size),
    ):
        once, again = pixels(make(unbalanced, 33)).astype(int), pixels(make(unbalanced, batch_size)).astype(int)
        assert np.abs(once - again).max() <= 1 and (once != again).mean() < 0.01


def test_features_answer_with_what_the_last_layer_receives(network: Classifier, batch: tuple[Images, Labels]) -> None:
    features = Features(network)(batch[0])
    last = [m for m in network.modules() if isinstance(m, nn.Linear)][-1]
    assert torch.allclose(last(features), network(batch[0]), atol=1e-5)


def test_next_targets_are_the_label_plus_one(unbalanced: Dataset, network: Classifier) -> None:
    made = make_targeted_set(unbalanced, network, how="next", steps=2)
    assert made.labels.tolist() == [(c + 1) % K for c in unbalanced.labels.tolist()]
    assert made.ids.tolist() == unbalanced.ids.tolist() and made.names == unbalanced.names


def test_random_targets_are_uniform_over_all_classes_and_belong_to_the_ids() -> None:
    ids = np.arange(10_000) * 3
    target = draw_below(7, ids, 0, purpose="target")
    assert stats.chisquare(np.bincount(target, minlength=7)).pvalue > 0.001 and target.max() == 6
    assert np.array_equal(draw_below(7, ids[::-1].copy(), 0, purpose="target"), target[::-1])
    assert not np.array_equal(draw_below(7, ids, 1, purpose="target"), target)


def test_the_network_sees_the_target_in_targeted_images(trained: tuple[Classifier, Dataset]) -> None:
    model, data = trained
    eps = 6.0
    made = make_targeted_set(data, model, seed=1, ball=L2(eps), step=0.6, steps=40)
    with torch.no_grad():
        hits = (model(whole(made)).argmax(dim=1).numpy() == made.labels).mean()
        chance = (model(whole(data)).argmax(dim=1).numpy() == made.labels).mean()
    assert hits >= 0.8 and chance <= 0.3


@pytest.mark.parametrize("eps", [0.5, 2.0])
def test_targeted_images_stay_in_the_ball_but_for_rounding(
    unbalanced: Dataset, network: Classifier, eps: float
) -> None:
    made = make_targeted_set(unbalanced, network, ball=L2(eps), step=0.5, steps=10)
    moved = (whole(made) - whole(unbalanced)).flatten(1).norm(dim=1)
    slack = 0.5 / 255 * math.sqrt(math.prod(SHAPE))
    assert float(moved.max()) <= eps + slack + 1e-5
    assert float(moved.min()) > eps / 4
    assert set(make_targeted_set(unbalanced, network, steps=1).labels.tolist()) == set(range(K))


def test_built_images_are_a_function_of_the_seed(unbalanced: Dataset, network: Classifier) -> None:
    a, b, c = (make_targeted_set(unbalanced, network, seed=seed, steps=2) for seed in (0, 0, 1))
    assert a.digest() == b.digest() != c.digest()


def test_targeted_set_refuses_nonsense(unbalanced: Dataset, network: Classifier) -> None:
    with pytest.raises(ValueError, match="random or next, but saw 'worst'"):
        choose_targets(unbalanced, "worst", 0)
    with pytest.raises(ValueError, match="no examples"):
        make_targeted_set(unbalanced.only(["cow"]), network)
    with pytest.raises(ValueError, match="6 logits per image"):
        more = Dataset.of(np.asarray(unbalanced.images), unbalanced.labels, list("abcdef"))
        make_targeted_set(more, network)


def test_pseudo_labels_are_the_networks_predictions(unbalanced: Dataset) -> None:
    model = build("convnet", unbalanced.shape, 3, seed=3)
    made = pseudo_label(model, unbalanced, ("a", "b", "c"))
    with inference(model), torch.no_grad():
        seen = model(unbalanced.batch(np.arange(len(unbalanced))).x).argmax(1)
    assert made.labels.tolist() == seen.tolist() and made.names == ("a", "b", "c")
    assert made.ids.tolist() == unbalanced.ids.tolist()
    with pytest.raises(ValueError, match="3 classes, but saw 2 names"):
        pseudo_label(model, unbalanced, ("a", "b"))
