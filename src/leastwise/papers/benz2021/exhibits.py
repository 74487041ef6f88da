"""Benz, Zhang, Karjauv, Kweon: Robustness May Be at Odds with Fairness (PMLR 148, 2021). It counts classes from 1."""

from collections.abc import Iterable

from leastwise.jobs.images import ImageSet
from leastwise.jobs.job import ReleasedNetwork
from leastwise.papers.exhibit import Exhibit, PaperSetting
from leastwise.papers.recipes import Measured, PaperThreat, Settings, Trained

CAT = 3  # the paper's class 4
IMAGENET = ImageSet("imagenet")
THREAT = PaperThreat(8 / 255, 2 / 255)
BOTH = ("clean", "pgd20")
SETTING = PaperSetting(
    "epochs, batch size and learning rate are not given: 200 epochs, batches of 128, 0.1 divided by ten at 100 and 150"
)
RADIUS = PaperSetting(
    "radius and steps of attacks on CIFAR are not given: Linf 8/255, ten steps of 2/255 in training, twenty in test",
    "radius and steps of attacks on CIFAR are not given: Linf 8/255, five steps of 2/255 in training, twenty in test",
)
SOFT_RADIUS = (
    "the radius of attacks on standard networks is not given, and 8/255 would leave nothing of the printed 59.5 %: "
    "PGD-20 at 1/4, 1/2, 1, 2 and 4/255, and of these the one that leaves nearest to 60 % on the whole"
)
WHICH = "which networks stand in the figure is not said in the text: those of the pre-registered list that exist here"

SMALL_IMAGES = ("vgg16-bn", "vgg19-bn", "resnet18", "resnet50", "densenet121", "densenet169", "googlenet")
MORE = ("resnet56", "wrn-28-10", "resnext29-32x4d")
STANDARD_IMAGENET = (
    "vgg16-bn-imagenet",
    "resnet18-imagenet",
    "resnet50-imagenet",
    "wide-resnet50-2",
    "resnext50-32x4d",
    "densenet121-imagenet",
    "googlenet-imagenet",
    "inception-v3",
)
ROBUST_IMAGENET = ("resnet18-imagenet", "resnet50-imagenet", "wide-resnet50-2", "resnext50-32x4d", "vgg16-bn-imagenet")
CORRUPTED = ("brightness", "contrast", "gaussian_noise", "defocus_blur", "frost", "fog", "pixelate")
SEVERITIES = (1, 2, 3, 4, 5)
CORRUPTIONS = tuple(f"{name}:3" for name in CORRUPTED)
ALL_SEVERITIES = tuple(f"{name}:{severity}" for name in CORRUPTED for severity in SEVERITIES)
# A standard network keeps nothing at 8/255, and the paper prints 59.5 %: of these radii, the one that keeps about 60 %.
SOFT_ATTACKS = tuple(f"pgd20[{radius}/255]" for radius in ("0.25", "0.5", "1", "2", "4"))
DIGITS = ("mnist", "svhn")
DATA_SETS = ("mnist", "svhn", "cifar10", "cifar100", "tiny-imagenet")
PROTOCOL_SETS = (*DATA_SETS, "imagenet")
UNDIVIDED = "whether the loss is divided by the weights is not said: it is not"


def network(
    data: str,
    arch: str,
    method: str = "standard",
    *,
    settings: Settings = (),
    fair: tuple[str, ...] = (),
    change: tuple[str | int, ...] = (),
    source: Trained | None = None,
    weight_decay: float = 1e-4,
    optimiser: str = "sgd",
    schedule: str = "steps",
) -> Trained:
    """A training as the paper sets it up; what it leaves open is in `SETTING`."""
    return Trained(
        ImageSet(data, change),
        arch,
        method,
        settings,
        None if method == "standard" else threat_of(data),
        fair,
        epochs=200,
        drops=(100, 150) if schedule == "steps" else (),
        weight_decay=weight_decay,
        optimiser=optimiser,
        rate=1e-3 if optimiser == "adam" else 0.1,
        schedule=schedule,
        augment="none" if data in DIGITS else "crop-flip",
        source=source,
    )


def threat_of(data: str) -> PaperThreat:
    """Networks of ImageNet are others', robust in L2."""
    return {"mnist": PaperThreat(0.3, 0.01, 40), "imagenet": PaperThreat(3.0, 0.5, 20, "l2")}.get(data, THREAT)


def make_audit(
    model: Trained | ReleasedNetwork, conditions: tuple[str, ...] = ("clean",), each_epoch: bool = False
) -> Measured:
    """A network on the test images of its data set, under some conditions."""
    threat = threat_of(model.data.name) if any(c.startswith("pgd") for c in conditions) else None
    return Measured(model, ImageSet(model.data.name), conditions, threat, each_epoch=each_epoch)


def architecture_audits(data: str, archs: Iterable[str]) -> dict[str, Measured]:
    """Standard networks of several architectures on one data set."""
    return {f"{data} {arch}": make_audit(network(data, arch)) for arch in archs}


def imagenet_audits(archs: Iterable[str], kind: str) -> dict[str, Measured]:
    """Networks of ImageNet that others give away."""
    nets = (ReleasedNetwork(f"{kind}/{arch}", arch, IMAGENET) for arch in archs)
    return {f"{kind} {net.arch}": make_audit(net) for net in nets}


def fair_training(method: str) -> Trained:
    """ResNet-56 trained with fair weights."""
    settings: Settings = (("fair-weighting.alpha", 0.05), ("fair-weighting.floor", 0.05))
    return network("cifar10", "resnet56", method, settings=settings, fair=("fair-weighting",))


def important_class_training(arch: str, method: str, weight: float) -> Trained:
    """A training in which cat has a larger weight."""
    settings: Settings = (("important-class.label", CAT), ("important-class.weight", weight))
    return network("cifar10", arch, method, settings=settings, fair=("important-class",))


PLAIN = make_audit(network("cifar10", "resnet56"))
SOURCES = {kind: network("cifar10", "resnet18", method) for kind, method in (("NRF", "standard"), ("RF", "pgd-at"))}

EXHIBITS = (
    Exhibit(
        "benz2021/fig1",
        "Class accuracy and robustness of a standard ResNet-18 on CIFAR-10",
        "2×2 bars: accuracy and robustness, as they are and minus their mean",
        {"standard": make_audit(network("cifar10", "resnet18"), ("clean", *SOFT_ATTACKS))},
        (SETTING, SOFT_RADIUS),
    ),
    Exhibit(
        "benz2021/fig2",
        "The same of an adversarially trained ResNet-18",
        "2×2 bars: accuracy and robustness, as they are and minus their mean",
        {"adversarial": make_audit(network("cifar10", "resnet18", "pgd-at"), BOTH)},
        (SETTING, RADIUS),
    ),
    Exhibit(
        "benz2021/fig3",
        "Architectures on digits",
        "bars of deviation and a model × model matrix of cosines, for MNIST and for SVHN",
        architecture_audits("mnist", ("convnet", "lenet5")) | architecture_audits("svhn", SMALL_IMAGES),
        (SETTING, WHICH),
    ),
    Exhibit(
        "benz2021/fig4",
        "Architectures on CIFAR",
        "deviations and cosines, for CIFAR-10 and for CIFAR-100",
        architecture_audits("cifar10", SMALL_IMAGES + MORE) | architecture_audits("cifar100", SMALL_IMAGES + MORE),
        (SETTING, WHICH),
    ),
    Exhibit(
        "benz2021/fig5",
        "Architectures on Tiny-ImageNet and ImageNet",
        "deviations and cosines, for each",
        architecture_audits("tiny-imagenet", SMALL_IMAGES) | imagenet_audits(STANDARD_IMAGENET, "standard"),
        (SETTING, WHICH),
    ),
    Exhibit(
        "benz2021/fig6",
        "Optimisers, weight decay and learning rate on CIFAR-10",
        "bars of deviation and cosines of four trainings",
        {
            "SGD, 1e-4": make_audit(network("cifar10", "resnet18")),
            "Adam": make_audit(network("cifar10", "resnet18", optimiser="adam")),
            "weight decay 1e-5": make_audit(network("cifar10", "resnet18", weight_decay=1e-5)),
            "cyclic": make_audit(network("cifar10", "resnet18", schedule="cyclic")),
        },
        (
            SETTING,
            PaperSetting("the network is not named: ResNet-18, as pre-registered"),
            PaperSetting(
                "rates of Adam and of the cyclic schedule are not given: 0.001, and two triangles between 0 and 0.1",
                "rates of Adam and of the cyclic schedule are not given: 0.001, and two triangles between 0 and 0.2",
            ),
        ),
    ),
    Exhibit(
        "benz2021/fig7",
        "Class accuracy while training on digits",
        "a line per class over the epochs, for MNIST and for SVHN",
        {
            "mnist": make_audit(network("mnist", "lenet5"), each_epoch=True),
            "svhn": make_audit(network("svhn", "resnet18"), each_epoch=True),
        },
        (SETTING, PaperSetting("the networks are not named: LeNet and ResNet-18")),
    ),
    Exhibit(
        "benz2021/fig8",
        "Class accuracy while training on CIFAR",
        "a line per class over the epochs, for CIFAR-10 and for CIFAR-100",
        {data: make_audit(network(data, "resnet18"), each_epoch=True) for data in ("cifar10", "cifar100")},
        (SETTING, PaperSetting("the network is not named: ResNet-18")),
    ),
    Exhibit(
        "benz2021/fig9",
        "A standard and an adversarially trained ResNet-50 on ImageNet",
        "lines of deviation and their cosine",
        imagenet_audits(("resnet50-imagenet",), "standard") | imagenet_audits(("resnet50-imagenet",), "robust-l2-3.0"),
        (),
    ),
    Exhibit(
        "benz2021/fig10",
        "Five robust networks on ImageNet",
        "lines of deviation",
        imagenet_audits(ROBUST_IMAGENET, "robust-l2-3.0"),
        (
            PaperSetting(
                "which five of the released networks (Salman et al. 2020) is not said: those that are named here"
            ),
        ),
    ),
    Exhibit(
        "benz2021/fig11",
        "How alike the five robust networks are",
        "model × model matrix of cosines",
        imagenet_audits(ROBUST_IMAGENET, "robust-l2-3.0"),
        (
            PaperSetting(
                "which five of the released networks (Salman et al. 2020) is not said: those that are named here"
            ),
        ),
    ),
    Exhibit(
        "benz2021/fig12",
        "Confusions of ResNet-56 on CIFAR-10",
        "10×10 matrix of counts with its symmetry",
        {"standard": PLAIN},
        (SETTING,),
    ),
    Exhibit(
        "benz2021/fig13",
        "Confusions of ResNet-56 on CIFAR-100 by superclass",
        "three matrices with an empty diagonal: all classes in superclass order, people, people taken for reptiles",
        {"standard": make_audit(network("cifar100", "resnet56"))},
        (SETTING,),
    ),
    Exhibit(
        "benz2021/fig14",
        "ResNet-18 trained on robust and on non-robust features",
        "bars of deviation and a 2×2 matrix of cosines, for each construction",
        {
            f"{kind}, {change[0]}": make_audit(network("cifar10", "resnet18", change=change, source=source))
            for kind, source in SOURCES.items()
            for change in (("matched",), ("targeted_set", "random"))
        },
        (SETTING, RADIUS, "how the data were made is not said: both constructions of Ilyas et al. (2019)"),
    ),
    Exhibit(
        "benz2021/fig15",
        "Fair weights in standard and adversarial training of ResNet-56",
        "three panels of bars of deviation: standard, adversarial, adversarial under attack",
        {
            "standard": PLAIN,
            "standard fair": make_audit(fair_training("standard")),
            "adversarial": make_audit(network("cifar10", "resnet56", "pgd-at"), BOTH),
            "adversarial fair": make_audit(fair_training("pgd-at"), BOTH),
        },
        (
            SETTING,
            RADIUS,
            "which accuracy steers the weights is not said: that of the images as they are trained on",
            "the rule drives weights below zero after 20 epochs: they have a floor of 0.05",
            UNDIVIDED,
        ),
    ),
    Exhibit(
        "benz2021/table1",
        "One important class: a fixed weight for cat",
        "accuracy of cat and overall for five weights",
        {
            f"{weight:g}": PLAIN
            if weight == 1
            else make_audit(important_class_training("resnet56", "standard", weight))
            for weight in (1.0, 10.0, 20.0, 50.0, 100.0)
        },
        (SETTING, UNDIVIDED),
        classes=(CAT,),
    ),
    Exhibit(
        "benz2021/fig16",
        "Common corruptions of CIFAR-10",
        "deviations by condition and a matrix of cosines between conditions",
        {"standard": make_audit(network("cifar10", "resnet56"), ("clean", *SOFT_ATTACKS, *ALL_SEVERITIES))},
        (
            SETTING,
            SOFT_RADIUS,
            "the severity is not given: the mean over all five, which fits the printed means better, and 3 beside it",
        ),
    ),
    Exhibit(
        "benz2021/protocol",
        "What was pre-registered: both trainings on every data set, robustness over epochs, corruptions under both",
        "bars, curves and matrices of class accuracy and robustness",
        {
            f"{data} {kind}": make_audit(network(data, "resnet18", method), BOTH, each_epoch=True)
            for data in DATA_SETS
            for kind, method in (("standard", "standard"), ("adversarial", "pgd-at"))
        }
        | {
            f"imagenet {kind}": make_audit(
                ReleasedNetwork(f"{weights}/resnet50-imagenet", "resnet50-imagenet", IMAGENET), BOTH
            )
            for kind, weights in (("standard", "standard"), ("adversarial", "robust-l2-3.0"))
        }
        | {
            "important class, adversarial": make_audit(important_class_training("resnet18", "pgd-at", 10.0), BOTH),
            "corruptions, adversarial": make_audit(network("cifar10", "resnet18", "pgd-at"), (*BOTH, *CORRUPTIONS)),
        },
        (
            SETTING,
            RADIUS,
            PaperSetting(
                "MNIST is attacked as in Tian et al.: Linf 0.3, 40 steps of 0.01",
                "MNIST is attacked as in Tian et al.: Linf 0.3, 40 steps of 0.01, but five of 0.075 in training",
            ),
            PaperSetting(
                "networks of ImageNet are released ones, and the robust one is robust in L2: 3.0, twenty steps of 0.5"
            ),
            UNDIVIDED,
            "the weight of the important class is not given: 10",
        ),
    ),
    Exhibit(
        "benz2021/extras",
        "What was proposed or tried without numbers: regularisers, targeted training, similarity of mean logits",
        "class accuracy and robustness of each, and a matrix of cosines of mean logits",
        {
            kind: make_audit(network("cifar10", "resnet18", "pgd-at", fair=fair_training), BOTH)
            for kind, fair_training in (("plain", ()), ("confusions", ("confusion",)), ("similarity", ("similarity",)))
        }
        | {"targeted": make_audit(network("cifar10", "resnet18", "targeted-at", settings=(("target", CAT),)), BOTH)},
        (SETTING, RADIUS, "the paper gives no formulas: they are ours"),
    ),
)
