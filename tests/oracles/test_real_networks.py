"""Networks that others trained, with results that others measured, and other libraries on the same points."""

from pathlib import Path

import foolbox
import numpy as np
import pytest
import torch

from leastwise.attacks.base import Clean
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import L2, Linf
from leastwise.audit.auditor import make_auditor
from leastwise.core.noise import Noise
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.jobs.audit_task import audit
from leastwise.models.classifier import Classifier
from leastwise.models.fast.prepare import FORMS, ORIGINAL
from leastwise.models.load.dispatch import load_model
from leastwise.models.zoo.registry import build
from leastwise.training.loop import fit
from leastwise.training.recipe import Training
from tests.oracles.networks import CIFAR_MEAN, IMAGENET_MEAN, cifar_network, mnist_cnn

# Accuracy in percent on the 10,000 MNIST test images: clean, and under PGD-20 at 0.3 (step eps/4, last iterate).
MNIST_CLEAN, MNIST_PGD = 96.33, 79.54
MNIST_PGD_CLASSES = (94.1, 94.2, 85.1, 78.3, 74.0, 69.1, 91.8, 85.1, 56.7, 63.9)


@pytest.fixture(scope="module")
def mnist(test_data: Path) -> Dataset:
    return load(str(test_data / "mnist_test.npz"))


def test_clean_accuracy_of_a_robust_mnist_network(test_data: Path, mnist: Dataset) -> None:
    frame = audit(mnist_cnn(test_data), mnist, (("clean", Clean()),)).frame()
    assert 100 * float(frame.overall) == pytest.approx(MNIST_CLEAN, abs=0.011)
    assert frame.n[0].tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]  # not balanced


@pytest.fixture(scope="module")
def cifar10() -> Dataset:
    try:
        return load("cifar10/test")
    except ValueError as absent:
        pytest.skip(f"needs the CIFAR-10 test set: {absent}")


def clean_accuracy(model: Classifier, data: Dataset) -> float:
    return 100 * float(audit(model, data, (("clean", Clean()),)).frame().overall)


# Accuracy in percent on the 10,000 CIFAR-10 test images, measured elsewhere.
CIFAR_CLEAN = {"cifar_resnet2b": 69.25, "cifar_wide_kw": 61.62, "salman_cifar_cnn_small_NOR": 78.60}


@pytest.mark.medium
@pytest.mark.parametrize("name", CIFAR_CLEAN)
def test_clean_accuracy_of_cifar10_networks(test_data: Path, cifar10: Dataset, name: str) -> None:
    assert clean_accuracy(cifar_network(test_data, name), cifar10) == pytest.approx(CIFAR_CLEAN[name], abs=0.011)


@pytest.mark.slow
def test_clean_accuracy_of_a_public_resnet20_checkpoint(test_data: Path, cifar10: Dataset) -> None:
    path = str(test_data / "nets" / "akamaster_cifar10_resnet20.th")
    model = load_model(
        path, cifar10.shape, cifar10.names, arch="resnet20", mean=IMAGENET_MEAN, std=(0.229, 0.224, 0.225)
    )
    assert clean_accuracy(model, cifar10) == pytest.approx(91.7, abs=0.1)


@pytest.mark.slow
def test_clean_accuracy_of_a_public_cifar100_checkpoint(test_data: Path) -> None:
    data = load(str(test_data / "cifar100_test.npz"))
    path = str(test_data / "nets" / "chenyaofo_cifar100_resnet20.pth")
    mean, std = (0.5070, 0.4865, 0.4409), (0.2673, 0.2564, 0.2761)
    assert (
        68
        <= clean_accuracy(load_model(path, data.shape, data.names, arch="resnet20-b", mean=mean, std=std), data)
        <= 69.5
    )


@pytest.mark.slow
def test_a_prepared_form_finds_the_same_weak_images(test_data: Path) -> None:
    """The real ResNet-20 under PGD: verdicts of the folded network against those of the network as given."""
    data = load(str(test_data / "cifar10_test_first2000.npz")).take(30)
    path = str(test_data / "nets" / "akamaster_cifar10_resnet20.th")
    model = load_model(path, data.shape, data.names, arch="resnet20", mean=IMAGENET_MEAN, std=(0.229, 0.224, 0.225))
    condition = (("pgd5", PGD(Linf(0.5 / 255), step=0.125 / 255, steps=5, keep="fooled")),)
    forms = (ORIGINAL, FORMS["folded"], FORMS["folded-channels-last"])
    given, *others = (audit(model, data, condition, form=form).correct("pgd5") for form in forms)
    assert 0.2 < given.mean() < 0.8  # where verdicts could differ
    for other in others:
        assert (other != given).mean() < 0.01


def test_the_right_class_order_and_normalisation_matter(test_data: Path) -> None:
    """A swapped class order or a missing normalisation is seen before any attack is run."""
    data = load(str(test_data / "cifar10_test_first2000.npz"))
    turned = data.relabel({c: (c + 1) % 10 for c in range(10)})
    model = cifar_network(test_data, "cifar_resnet2b")
    assert model.mean == CIFAR_MEAN
    assert make_auditor(model, data, (("clean", Clean()),)).warnings == ()
    (warning,) = make_auditor(model, turned, (("clean", Clean()),)).warnings
    assert "guess" in warning


@pytest.mark.slow
def test_pgd20_on_a_robust_mnist_network(test_data: Path, mnist: Dataset) -> None:
    """Overall within 0.3 points and every class within 1.5 of what was measured elsewhere.

    Both rows are of single random starts, and one start moves a class by up to a point either way: textbook PGD
    with torch's own generator gave 62.7 to 63.0 for the nines (printed: 63.9) and 69.4 to 70.2 for the fives
    (printed: 69.1) in four runs. Three starts are averaged here; the printed row remains one.
    """
    attack = PGD(Linf(0.3), step=0.075, steps=20, keep="last")
    model = mnist_cnn(test_data)
    frames = [audit(model, mnist, (("pgd20", attack),), seed=seed).frame() for seed in range(3)]
    assert all(100 * float(frame.overall) == pytest.approx(MNIST_PGD, abs=0.3) for frame in frames)
    mean = torch.stack([frame.accuracy[0] for frame in frames]).mean(0)
    assert (100 * mean).tolist() == pytest.approx(MNIST_PGD_CLASSES, abs=1.5)
    assert all(int(frame.worst) == 8 for frame in frames)


@pytest.fixture(scope="module")
def trained() -> Classifier:
    """A network of middling robustness, where two attacks could disagree."""
    data = load("fashion-mini/train").take(60)
    model = build("convnet", data.shape, data.k, seed=0)
    for _ in fit(model, data, Training(epochs=12, batch_size=20)):
        pass
    return model.eval()


@pytest.mark.medium
@pytest.mark.parametrize("norm", ["Linf", "L2"])
def test_pgd_is_as_strong_as_foolboxs(trained: Classifier, norm: str) -> None:
    """Same images, radius, step, number of steps and kind of start; the starts themselves differ."""
    x, y, ids = load("fashion-mini/test").take(50).batch(np.arange(500))
    eps = {"Linf": 0.03, "L2": 0.6}[norm]
    ours = PGD({"Linf": Linf, "L2": L2}[norm](eps), step=eps / 4, steps=20, keep="last")
    mine = ours.run(trained, x, y, Noise(0, ids, "/test"))
    kind = {"Linf": foolbox.attacks.LinfPGD, "L2": foolbox.attacks.L2PGD}[norm]
    torch.manual_seed(0)
    theirs = kind(abs_stepsize=eps / 4, steps=20)
    model = foolbox.models.PyTorchModel(trained, bounds=(0, 1), device="cpu")
    _, _, fooled = theirs(model, x, y, epsilons=eps)
    robust = 1 - mine.fooled.float().mean()
    assert 0.15 < float(robust) < 0.85
    assert float(robust) == pytest.approx(1 - float(fooled.float().mean()), abs=0.01)
    assert float((mine.fooled == fooled).float().mean()) > 0.97


@pytest.mark.slow
def test_pgd20_on_a_certified_cifar_network(test_data: Path, cifar10: Dataset) -> None:
    """All 10,000 test images: overall within 0.3 points and every class within 1.0 of what was measured elsewhere."""
    attack = PGD(Linf(2 / 255), step=0.5 / 255, steps=20, keep="last")
    frame = audit(cifar_network(test_data, "cifar_resnet2b"), cifar10, (("pgd20", attack),)).frame()
    known = [66.3, 76.7, 36.7, 23.4, 36.5, 50.6, 73.2, 64.6, 73.7, 65.0]
    assert 100 * float(frame.overall) == pytest.approx(56.7, abs=0.3)
    assert (100 * frame.accuracy[0]).tolist() == pytest.approx(known, abs=1.0)
    assert cifar10.names[int(frame.worst)] == "cat"
