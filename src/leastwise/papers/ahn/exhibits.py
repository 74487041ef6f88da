"""Ahn: Class-wise Training Dynamics and Fairness in Adversarially Robust Models. CIFAR-100, ResNet-9."""

from dataclasses import replace

from leastwise.jobs.images import ImageSet
from leastwise.papers.exhibit import Exhibit, PaperSetting
from leastwise.papers.recipes import Measured, PaperThreat, Recipe, Settings, Trained

CHAIR, FOX = 20, 34
GRID = (1, 2, 4, 6, 8, 12, 16)  # in 1/255
STEP = 2 / 255
TEST = PaperThreat(8 / 255, STEP, 20)
BOTH = ("clean", "pgd20")
# Further classes, five to a panel grid: the paper's are only in its figures.
FURTHER = ((0, 8, 53, 60, 94), (11, 55, 72, 74, 98))

OPEN = (
    PaperSetting("ResNet-9 is not described: the DAWNBench network"),
    PaperSetting("momentum and augmentation are not given: 0.9, padded crops and flips"),
    "which checkpoint is reported is not said: the last",
    "the step of PGD-20 is not given: 2/255",
)
TRAIN_RADIUS = (
    "attack and radius of training robustness are not said: PGD-10 at the radius of the training, after each epoch, on "
    "the first 100 training images of the classes that are shown"
)
EPS_GRID = "the grid of eps is not given: 1, 2, 4, 6, 8, 12, 16, in 1/255"
WHICH_CLASSES = "the classes stand only in the figures: five easy and five hard ones of other superclasses"
METHOD_SETTINGS = (
    "the version of IDBH is not said: weak",
    "AVmixup's second label weight for 100 classes is not said: 0.1",
    PaperSetting(
        "FRL's variant, start, length, rate and beta are not said: reweight and remargin, from the TRADES network, and "
        "as published 40 epochs at 0.001 with beta 1.5",
        "FRL's variant, start, rate and beta are not said: reweight and remargin, from the TRADES network, and as "
        "published at 0.001 with beta 1.5, but for 8 epochs",
    ),
    "CFA's averaging threshold of 0.2 can never be met here: the median of the worst tenth of classes so far",
)


def network(
    method: str = "standard",
    settings: Settings = (),
    eps: int = 8,
    *,
    fair: tuple[str, ...] = (),
    average: str = "",
    augment: str = "crop-flip",
    source: Trained | None = None,
) -> Trained:
    """A training of ResNet-9 on CIFAR-100 as the paper sets it up; a fine-tuning of `source` as FRL's code does it."""
    usual = Trained(
        ImageSet("cifar100"),
        "resnet9",
        method,
        settings,
        None if method == "standard" else PaperThreat(eps / 255, STEP),
        fair,
        average,
        epochs=200,
        drops=(100, 150),
        weight_decay=5e-4,
        augment=augment,
        source=source,
    )
    return usual if source is None else replace(usual, epochs=40, rate=0.001, schedule="frl", drops=())


SIX: Settings = (("beta", 6.0),)


def pgd(eps: int = 8) -> Trained:
    """Adversarial training at a radius, in 1/255."""
    return network("pgd-at", eps=eps)


def trades(eps: int = 8) -> Trained:
    """TRADES at a radius, in 1/255."""
    return network("trades", SIX, eps)


CLEAN = network()
PGD_BASED = {
    "PGD": pgd(),
    "PGD + IDBH": network("pgd-at", augment="idbh-weak"),
    "PGD + CFA": network("pgd-at", fair=("cfa",), average="fawa"),
    "PGD + AVmixup": network("avmixup", (("clean", 1.0), ("gamma", 2.0), ("vertex", 0.1))),
}
TRADES_BASED = {
    "TRADES": trades(),
    "TRADES + IDBH": network("trades", SIX, augment="idbh-weak"),
    "TRADES + CFA": network("trades", SIX, fair=("cfa",), average="fawa"),
    "TRADES + FRL": network("trades", (("beta", 1.5),), fair=("frl-both",), source=trades()),
}
METHODS = PGD_BASED | TRADES_BASED
SWEPT = {"PGD": pgd, "TRADES": trades}
SWEEP_ROLES = {(name, eps): f"{name}, eps {eps}/255" for name in SWEPT for eps in GRID}  # by method and radius
SWEEP = {role: SWEPT[name](eps) for (name, eps), role in SWEEP_ROLES.items()}


def make_audits(nets: dict[str, Trained]) -> dict[str, Recipe]:
    """Each network on clean test images and under PGD-20."""
    return {name: Measured(net, ImageSet("cifar100"), BOTH, TEST) for name, net in nets.items()}


def list_records(nets: dict[str, Trained]) -> dict[str, Recipe]:
    """The class-wise record that each training keeps of its own images."""
    return dict(nets)


def both_radii(eps: int) -> dict[str, Recipe]:
    """Robustness of a PGD network at its own radius and at 8/255, on training and on test images.

    The paper seems to compare the first of the training images with the second of the test images.
    """
    conditions = ("clean", f"pgd20[{eps}/255]", "pgd20[8/255]")
    images = ImageSet("cifar100", classes=(CHAIR, FOX))
    return {
        f"PGD, eps {eps}/255, {split} images": Measured(pgd(eps), images, conditions, TEST, split=split)
        for split in ("train", "test")
    }


EXHIBITS = (
    Exhibit(
        "ahn/fig1",
        "Clean accuracy, robustness and spread over the radius of training",
        "three curves each for PGD and TRADES over eps: overall clean, overall robust, deviation over classes",
        make_audits(SWEEP),
        (*OPEN, EPS_GRID, "whether the deviation is of clean or robust accuracies is not said: both"),
    ),
    Exhibit(
        "ahn/fig2abcd",
        "Chair and fox over the radius of training",
        "four panels: clean and robust test accuracy of each, with the clean network",
        make_audits({"clean": CLEAN} | SWEEP),
        (*OPEN, EPS_GRID),
        classes=(CHAIR, FOX),
    ),
    Exhibit(
        "ahn/fig2efgh",
        "Chair and fox while training",
        "four panels: clean and robust training accuracy over the epochs, a line for each eps",
        list_records({"clean": CLEAN} | SWEEP) | both_radii(1),
        (*OPEN, EPS_GRID, f"{TRAIN_RADIUS}; 8/255 beside it"),
        (CHAIR, FOX),
    ),
    Exhibit(
        "ahn/table1",
        "Nine trainings: average, worst class, best class, deviation",
        "nine rows of clean / robust pairs",
        make_audits({"Clean": CLEAN} | METHODS),
        (*OPEN, *METHOD_SETTINGS),
    ),
    Exhibit(
        "ahn/fig3",
        "Chair and fox while training, by method",
        "two panels: clean training accuracy over the epochs, a line for each method",
        list_records(METHODS),
        (*OPEN, *METHOD_SETTINGS),
        (CHAIR, FOX),
    ),
    Exhibit(
        "ahn/fig4",
        "Superclasses by robustness, mean of all methods",
        "bars, sorted, with the spread inside each superclass",
        make_audits(METHODS),
        (*OPEN, *METHOD_SETTINGS),
    ),
    *(
        Exhibit(
            f"ahn/fig{number}",
            f"Further classes over the radius of training ({part + 1} of 2)",
            "a grid of panels: clean and robust test accuracy over eps",
            make_audits({"clean": CLEAN} | SWEEP),
            (*OPEN, EPS_GRID, WHICH_CLASSES),
            classes=FURTHER[part],
        )
        for part, number in enumerate((5, 6))
    ),
    *(
        Exhibit(
            f"ahn/fig{number}",
            f"Further classes while training, by radius ({part + 1} of 2)",
            "a grid of panels: clean and robust training accuracy over the epochs",
            list_records({"clean": CLEAN} | SWEEP),
            (*OPEN, EPS_GRID, WHICH_CLASSES, TRAIN_RADIUS),
            classes=FURTHER[part],
        )
        for part, number in enumerate((7, 8))
    ),
    *(
        Exhibit(
            f"ahn/fig{number}",
            f"Further classes while training, by method ({part + 1} of 2)",
            "a grid of panels: clean and robust training accuracy over the epochs",
            list_records(METHODS),
            (*OPEN, *METHOD_SETTINGS, WHICH_CLASSES, TRAIN_RADIUS),
            classes=FURTHER[part],
        )
        for part, number in enumerate((9, 10))
    ),
    Exhibit(
        "ahn/fig11",
        "Superclasses by robustness, methods on PGD",
        "sorted bars for each method",
        make_audits(PGD_BASED),
        (*OPEN, *METHOD_SETTINGS),
    ),
    Exhibit(
        "ahn/fig12",
        "Superclasses by robustness, methods on TRADES",
        "sorted bars for each method",
        make_audits(TRADES_BASED),
        (*OPEN, *METHOD_SETTINGS),
    ),
)
