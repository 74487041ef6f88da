"""What the papers see in CIFAR-10, seen in networks that others trained."""

from pathlib import Path

import numpy as np
import pytest

from leastwise.attacks.base import Clean
from leastwise.attacks.naming import Threat
from leastwise.attacks.registry import make_attacks
from leastwise.attacks.threats import Linf
from leastwise.audit.evidence import count_confusions, cvc
from leastwise.data.classes import CIFAR10_GROUPS, CIFAR100_GROUPS
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.insight.confusion import compare_with_groups, count_inside_groups, measure_symmetry
from leastwise.insight.features import inter_class_similarity, measure_moments, most_similar
from leastwise.jobs.audit_task import audit
from leastwise.models.classifier import Classifier
from leastwise.models.load.dispatch import load_model
from leastwise.papers.claims.agreement import confusions_are_mutual, confusions_stay_near
from leastwise.papers.claims.attacks import confidence_is_smoother, temperature_is_stronger
from leastwise.papers.claims.base import combine_decisions
from leastwise.papers.claims.spread import classes_differ
from tests.oracles.networks import IMAGENET_MEAN, cifar_network

CAT, DEER, DOG = 3, 4, 5

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cifar10(test_data: Path) -> Dataset:
    return load(str(test_data / "cifar10_test_first2000.npz"))


@pytest.fixture(scope="module")
def resnet20(test_data: Path, cifar10: Dataset) -> Classifier:
    path = str(test_data / "nets" / "akamaster_cifar10_resnet20.th")
    return load_model(
        path, cifar10.shape, cifar10.names, arch="resnet20", mean=IMAGENET_MEAN, std=(0.229, 0.224, 0.225)
    )


def test_cat_and_dog_are_each_others_most_similar_class(resnet20: Classifier, cifar10: Dataset) -> None:
    """tradeoff2022, Fig. 2a: no class of a standard network is more similar to another than cat; §2.2: it is dog."""
    means = measure_moments(resnet20, cifar10).means
    found = inter_class_similarity(means)
    assert found.argmax() in (CAT, DOG) and most_similar(means)[[CAT, DOG]].tolist() == [DOG, CAT]
    assert found.min() > 0.6 and found.max() < 0.95  # the axis of the figure


def test_confusions_are_mutual_and_their_communities_are_the_superclasses(
    resnet20: Classifier, cifar10: Dataset
) -> None:
    """Benz 2021, Fig. 12; Tian 2021, Table 2."""
    evidence = audit(resnet20, cifar10, (("clean", Clean()),))
    matrix = count_confusions(evidence, "clean")
    found = compare_with_groups(matrix, CIFAR10_GROUPS, as_many=True)
    assert found.agreement == 1
    decided = (*confusions_are_mutual(evidence, "clean"), *confusions_stay_near(evidence, "clean", CIFAR10_GROUPS))
    assert combine_decisions(decided) == "holds"


def test_confusions_on_cifar100_stay_inside_superclasses(test_data: Path) -> None:
    """Benz 2021, Fig. 13: people are taken for people, not for reptiles."""
    data = load(str(test_data / "cifar100_test.npz")).take(30)
    path = str(test_data / "nets" / "chenyaofo_cifar100_resnet20.pth")
    model = load_model(
        path, data.shape, data.names, arch="resnet20-b", mean=(0.5070, 0.4865, 0.4409), std=(0.2673, 0.2564, 0.2761)
    )
    matrix = count_confusions(audit(model, data, (("clean", Clean()),)), "clean")
    near = count_inside_groups(matrix, CIFAR100_GROUPS)
    assert near.share > 5 * near.expected and measure_symmetry(matrix).p < 0.01
    groups = {name: list(classes) for name, classes in CIFAR100_GROUPS}
    people, reptiles = groups["people"], groups["reptiles"]
    among = matrix[np.ix_(people, people)].sum() - np.trace(matrix[np.ix_(people, people)])
    assert among > 10 * matrix[np.ix_(people, reptiles)].sum()


def test_deer_and_cat_have_the_smoothest_confidence_of_a_robust_network(test_data: Path, cifar10: Dataset) -> None:
    """Tian 2021, §5: smallest and second smallest CVC; animals below vehicles; Temperature-PGD is stronger."""
    threat = Threat(Linf(4 / 255), step=1 / 255)
    model = cifar_network(test_data, "cifar_resnet2b")
    evidence = audit(model, cifar10.take(60), make_attacks("clean,pgd10,tpgd10@5", threat))
    assert set(np.argsort(cvc(evidence, "clean"))[:2].tolist()) == {DEER, CAT}
    (_, vehicles), (_, animals) = CIFAR10_GROUPS
    assert combine_decisions(confidence_is_smoother(evidence, "clean", animals, steeper=vehicles)) == "holds"
    (stronger,) = temperature_is_stronger(evidence, "pgd10", "tpgd10@5")
    assert stronger.verdict == "holds"
    assert combine_decisions(classes_differ(evidence, "pgd10")) == "holds"
