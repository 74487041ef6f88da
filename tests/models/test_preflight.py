"""What preflight refuses, what it warns of, and what it lets pass; every sentence says what to do."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leastwise.models.classifier import Classifier, wrap
from leastwise.models.preflight import check_labels, check_model
from leastwise.models.zoo.registry import build
from tests.conftest import SHAPE, B, K, random_linear

Batch = tuple[torch.Tensor, torch.Tensor]


class Through(nn.Module):
    """A model followed by a function."""

    def __init__(self, model: nn.Module, function: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(self.model(x))


class Before(nn.Module):
    """A function followed by a model."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor], model: nn.Module) -> None:
        super().__init__()
        self.function, self.model = function, model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(self.function(x))


def raising(error: Exception) -> Callable[[torch.Tensor], object]:
    def function(_: torch.Tensor) -> object:
        raise error

    return function


def only_pairs(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, 2, *SHAPE).reshape(-1, *SHAPE)


GOOD = random_linear(K, torch.float32)

IMPOSSIBLE: dict[str, nn.Module] = {
    "logits that are not finite": Through(GOOD, lambda z: z * torch.nan),
    "returned tuple": Through(GOOD, lambda z: (z, None)),
    "cannot take images": build("convnet", (1, 8, 6), K),
    r"cannot take images .*TypeError: no": Through(GOOD, raising(TypeError("no"))),
    "a batch of 1 gave the shape": Through(GOOD, lambda z: z.squeeze(0)),
    r"shape \[1, 3, 8, 6\] .*larger batches work, but attacks need any number": Before(only_pairs, GOOD),
    "gives its input no gradient": Through(GOOD, lambda z: z.detach()),
    "gives its input no gradient: ": Before(lambda x: x.detach(), GOOD),
    "gradient is not finite": Before(lambda x: (x - x).sqrt() + x, GOOD),
    "mean and std have 1 channels, but the images have 3": Classifier(GOOD.net, K, (0.5,), (0.5,)),
    "changes its input in place": Before(lambda x: x.mul_(2) if not x.requires_grad else x * 2, GOOD),
}


@pytest.mark.parametrize("message", IMPOSSIBLE)
@pytest.mark.parametrize("force", [False, True])
def test_what_cannot_be_audited_is_refused_even_when_forced(message: str, force: bool, batch: Batch) -> None:
    x = batch[0].clone()
    with pytest.raises(ValueError, match=message):
        check_model(IMPOSSIBLE[message], x, K, force=force)
    assert torch.equal(x, batch[0])


def test_a_sound_model_passes_without_a_word(batch: Batch) -> None:
    assert check_model(GOOD, batch[0], K, y=batch[1]) == ()
    for arch in ("convnet", "small"):
        assert (
            check_model(build(arch, SHAPE, K, mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2)), batch[0], K, y=batch[1]) == ()
        )
    with pytest.raises(ValueError, match="must return 6 logits per image for these classes"):
        check_model(GOOD, batch[0], K + 1)


class BatchStatistics(nn.Module):
    """BatchNorm that has no running statistics uses those of whoever is in the batch, in evaluation too."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(3, track_running_stats=False)
        self.model = random_linear(K, torch.float32).net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(self.bn(x))


DOUBTFUL: dict[str, nn.Module] = {
    "returns probabilities: remove its softmax": Through(GOOD, lambda z: z.softmax(1)),
    r"is randomised \(two passes .*, so results are for one draw": Before(lambda x: F.dropout(x, 0.5), GOOD),
    "depend on the others in its batch .*: give BatchNorm running statistics": BatchStatistics(),
    "gradient is zero on all": Before(lambda x: (255 * x).round() / 255, GOOD),
}


@pytest.mark.parametrize("message", DOUBTFUL)
def test_what_makes_a_result_doubtful_is_refused_unless_forced(message: str, batch: Batch) -> None:
    with pytest.raises(ValueError, match=rf"{message}.*, or go on with --force$"):
        check_model(DOUBTFUL[message], batch[0], K)
    (warning,) = check_model(DOUBTFUL[message], batch[0], K, force=True)
    assert warning.startswith("overridden: ") and "--force" not in warning


def test_dropout_that_obeys_evaluation_mode_is_not_random(batch: Batch) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(144, K)).train()
    assert check_model(model, batch[0], K) == ()
    assert model.training and model[1].training


def test_a_clean_audit_needs_no_gradient(batch: Batch) -> None:
    assert check_model(DOUBTFUL["gradient is zero on all"], batch[0], K, gradients=False) == ()
    assert check_model(IMPOSSIBLE["gives its input no gradient"], batch[0], K, gradients=False) == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda x: (x - 0.5) / 0.25,
            r"pixels must lie in \[0, 1\], but go from -2 to .*give the model --mean",
        ),
        (lambda x: x * 255, r"but go from .* to 25\d: divide them by 255"),
        (lambda x: x / 0, "pixels are not finite"),
    ],
)
def test_images_of_another_range_are_refused(
    change: Callable[[torch.Tensor], torch.Tensor], message: str, batch: Batch
) -> None:
    with pytest.raises(ValueError, match=message):
        check_model(GOOD, change(batch[0]), K, force=True)


def test_images_divided_twice_are_noticed(batch: Batch) -> None:
    bits = (batch[0] > 0.5).float() / 255  # 0 and 1 stored as bytes
    with pytest.raises(ValueError, match=r"brightest pixel is 0\.0039: the images seem to be divided by 255 twice"):
        check_model(GOOD, bits, K)
    assert check_model(GOOD, bits, K, force=True)[0].startswith("overridden: the brightest pixel")


def test_impossible_labels_are_refused(batch: Batch) -> None:
    x, y = batch
    check_model(GOOD, x, K, y=torch.full_like(y, K - 1))
    with pytest.raises(ValueError, match="labels of 5 classes must lie in 0 to 4, but go from 0 to 5: relabel"):
        check_model(GOOD, x, K, y=torch.tensor([0] * (B - 1) + [K]))
    with pytest.raises(ValueError, match="go from -1 to 0"):
        check_model(GOOD, x, K, y=torch.tensor([0] * (B - 1) + [-1]))
    with pytest.raises(ValueError, match="one label per image, but saw 11 for 12"):
        check_labels(y[1:], B, K)


def test_log_probabilities_and_sigmoids_are_mentioned(batch: Batch) -> None:
    (warning,) = check_model(Through(GOOD, lambda z: z.log_softmax(1)), batch[0], K)
    assert "log-probabilities" in warning
    (warning,) = check_model(Through(GOOD, lambda z: z.div(20).sigmoid()), batch[0], K)
    assert "if the model ends in a sigmoid, remove it" in warning


def test_the_share_of_images_without_a_gradient_is_counted(batch: Batch) -> None:
    """A network that lets black images, and only those, pass without a gradient."""
    x = batch[0].clone()
    x[:3] = 0.0
    stuck = Before(lambda v: torch.where(v.flatten(1).sum(1).view(-1, 1, 1, 1) > 0, v, v.detach()), GOOD)
    (warning,) = check_model(stuck, x, K)
    assert warning.startswith("the input gradient is zero on 3 of 12 images")


CENTRED = Classifier(GOOD.net, K, (0.5,) * 3, (0.1,) * 3)  # noise gets many answers from it; from the other, one


def labelled(right: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`n` images and labels of which the centred model gets `right` right."""
    x = torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(5))
    y = CENTRED(x).argmax(1)
    y[right:] = (y[right:] + 1 + torch.arange(n - right) % (K - 1)) % K  # all mistakes alike: no order explains them
    return x, y


def test_a_model_that_guesses_is_mentioned() -> None:
    """With 100 images and five classes a guesser has 20 ± 4 right; 20 + 2.33 · 4 = 29.3."""
    x, y = labelled(29, 100)
    (warning,) = check_model(CENTRED, x, K, y=y)
    assert warning.startswith("the model is right on 29 of 100 images, no better than guessing: check --mean and --std")
    x, y = labelled(30, 100)
    assert check_model(CENTRED, x, K, y=y) == ()
    x, y = labelled(0, 99)  # too few to tell
    assert check_model(CENTRED, x, K, y=y) == ()


def test_black_boxes_are_for_query_attacks(batch: Batch) -> None:
    box = wrap(lambda x: GOOD(x).numpy(), K)
    assert check_model(box, batch[0], K, gradients=False) == ()
    for force in (False, True):
        with pytest.raises(ValueError, match="black box without gradients: use query attacks"):
            check_model(box, batch[0], K, force=force)


def test_a_container_without_logits_is_named(batch: Batch) -> None:
    with pytest.raises(ValueError, match="must return a tensor of logits, but returned dict: return the logits from"):
        check_model(wrap(Through(GOOD, lambda z: {"a": z, "b": z}), K), batch[0], K)
