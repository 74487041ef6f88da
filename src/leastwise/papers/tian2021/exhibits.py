"""Tian et al.: Analysis and Applications of Class-wise Robustness in Adversarial Training (KDD 2021)."""

from dataclasses import replace

import numpy as np

from leastwise.data.classes import CIFAR10
from leastwise.jobs.images import ImageSet
from leastwise.papers.exhibit import Exhibit, PaperSetting
from leastwise.papers.recipes import Measured, PaperThreat, Settings, Trained

CAT, DOG = 3, 5
ONE_BETA = 6.0
BETAS_OF_DOG = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
WIDE = "wrn-34-10"
WIDE_TEST = PaperThreat(0.031, 0.003, 20)

BATCH = PaperSetting("the batch size is not given: 128, and 256 on ImageNet, as in the cited code")
WIDE_SHAPE = PaperSetting("WideResNet-32-10 does not exist in the cited code: 34-10")
WIDE_TRAINING = PaperSetting("wide networks are trained as in the code of each method, Madry as TRADES")
IMAGENET = PaperSetting("the cited code trains ImageNet in three phases of growing images: one size here")
STL_SIZE = "the size of STL-10 images is not given: 96 pixels"
TEMPERATURE = "1/T of TRADES is blank in Table 3: the worst of 2, 5, 10, 50, each of which is reported"
TWELVE = "which twelve classes of CIFAR-100 and ImageNet were drawn is not said: drawn here with seed 0"
MASKS = (
    "masks were drawn by hand and are not available: objects are found by colours, edges and a preference for the "
    "centre (like GrabCut), and with a tighter and a wider expectation beside it"
)

DATA_SETS: dict[str, tuple[str, PaperThreat, str, float, tuple[int, ...]]] = {
    # name: network, threat, test attack, learning rate, epochs of its drops
    "mnist": ("small-cnn", PaperThreat(0.3, 0.01, 40), "pgd40", 0.01, (55, 75, 90)),
    "cifar10": ("resnet18", PaperThreat(0.031, 0.007), "pgd20", 0.1, (75, 90)),
    "cifar100": ("resnet18", PaperThreat(0.031, 0.007), "pgd20", 0.1, (75, 90)),
    "svhn": ("resnet18", PaperThreat(0.031, 0.007), "pgd20", 0.01, (75, 90)),
    "stl10": ("resnet18", PaperThreat(0.031, 0.007), "pgd20", 0.01, (75, 90)),
}


def network(
    data: str, method: str, change: tuple[str | int, ...] = (), *, threat: PaperThreat | None = None
) -> Trained:
    """§4 and Appendix A.1; ImageNet by the fast training of Wong et al."""
    if data == "imagenet":
        return Trained(
            ImageSet(data),
            "resnet50-imagenet",
            "standard" if method == "standard" else "fgsm-rs",
            threat=None if method == "standard" else PaperThreat(0.007, 1.25 * 0.007, 1),
            epochs=15,
            batch_size=256,
            rate=0.4,
            schedule="fast-imagenet",
        )
    arch, usual, _, rate, drops = DATA_SETS[data]
    return Trained(
        ImageSet(data, change),
        arch,
        method,
        threat=None if method == "standard" else threat or usual,
        rate=rate,
        drops=drops,
        augment="none" if data in ("mnist", "svhn") else "crop-flip",
    )


def wide_network(
    method: str, settings: Settings = (), arch: str = WIDE, *, epochs: int = 76, weight_decay: float = 2e-4
) -> Trained:
    """§4.3: as the code of each method trains it on CIFAR-10.

    That code counts epochs from 1 and lowers the rate for epochs >= 75 and >= 90: after 74 and after 89.
    """
    threat = None if method == "standard" else PaperThreat(0.031, 0.007)
    data = ImageSet("cifar10")
    return Trained(data, arch, method, settings, threat, epochs=epochs, drops=(74, 89), weight_decay=weight_decay)


def wide_trades(beta: float | tuple[float, ...]) -> Trained:
    """TRADES with one beta or one for each class; its first code passes the clean batch twice in train mode."""
    return wide_network("trades", (("beta", beta), ("clean_passes", 2)))


STANDARD = wide_network("standard", epochs=100)
DEFENCES = {
    "Madry": wide_network("pgd-at"),
    "TRADES": wide_trades(ONE_BETA),
    "MART": wide_network("mart", (("beta", 6.0),), epochs=90, weight_decay=7e-4),
    "HE": wide_network("pgd-he", (("margin", 0.2), ("scale", 10.0)), f"{WIDE}+cosine", epochs=77, weight_decay=5e-4),
}


def with_beta_of_dog(beta: float) -> Trained:
    """Equation 5: six for every class but dog."""
    if beta == ONE_BETA:
        return DEFENCES["TRADES"]
    return wide_trades(tuple(beta if c == DOG else ONE_BETA for c in range(len(CIFAR10))))


def shown_classes(k: int, count: int = 12, seed: int = 0) -> tuple[int, ...]:
    """All classes, or as many as the paper shows of a data set with more, drawn with a seed."""
    if k <= count:
        return tuple(range(k))
    return tuple(sorted(int(c) for c in np.random.default_rng(seed).choice(k, count, replace=False)))


def make_robust_audit(data: str, each_epoch: bool = False) -> Measured:
    """An adversarially trained network of a data set, tested as in §4."""
    return make_audit(network(data, "pgd-at"), each_epoch)


def make_audit(model: Trained, each_epoch: bool = False) -> Measured:
    """A network on the test images of its data set, under the attack of its data set."""
    data = model.data.name
    if data == "imagenet":
        attack, threat = "pgd50", PaperThreat(0.007, 0.003, 50)
    else:
        _, threat, attack, _, _ = DATA_SETS[data]
    conditions = ("clean",) if model.method == "standard" else ("clean", attack)
    # A network without a class is tested without its images: it has no output for them.
    attacked = threat if model.threat else None
    return Measured(model, model.data, conditions, attacked, each_epoch=each_epoch)


def make_wide_audit(model: Trained, *conditions: str, data: ImageSet = ImageSet("cifar10")) -> Measured:
    """A wide network on CIFAR-10, or on some images of it."""
    surrogate = STANDARD if "transfer" in conditions else None
    return Measured(model, data, conditions, WIDE_TEST, surrogate)


CATS = ImageSet("cifar10", classes=(CAT,))
WHITE_CATS = ImageSet("cifar10", ("white_background",), classes=(CAT,))
OTHER_MASKS = {f"white, {how} masks": ("white_background", how) for how in ("tight", "wide")}
ALL_SIX = (*DATA_SETS, "imagenet")
FULL = make_audit(network("cifar10", "pgd-at"))
WITHOUT_CLASS = {c: f"without {c}" for c in range(len(CIFAR10))}  # roles of networks trained without a class
COLOURED = PaperThreat(0.5, 0.025, 40)

EXHIBITS = (
    Exhibit(
        "tian2021/fig1",
        "Class robustness over the epochs on six data sets",
        "six panels of lines, a class each, with the band between the best and the worst; twelve classes of many",
        {data: make_robust_audit(data, each_epoch=True) for data in ALL_SIX},
        (
            BATCH,
            STL_SIZE,
            IMAGENET,
            TWELVE,
        ),
    ),
    Exhibit(
        "tian2021/fig2",
        "Robust confusion on six data sets",
        "six matrices in percent with their symmetry",
        {data: make_robust_audit(data) for data in ALL_SIX},
        (BATCH, STL_SIZE, IMAGENET),
    ),
    Exhibit(
        "tian2021/table1",
        "Four defences under five attacks on CIFAR-10",
        "20 rows: total, ten classes, CV, MCD",
        {name: make_wide_audit(net, "fgsm-rs", "pgd20", "transfer") for name, net in DEFENCES.items()}
        | {
            f"{name}, 2000 images": make_wide_audit(net, "cwinf", "nattack", data=ImageSet("cifar10", per_class=200))
            for name, net in DEFENCES.items()
        },
        (
            BATCH,
            WIDE_SHAPE,
            WIDE_TRAINING,
            PaperSetting("the rounds of NAttack are not given: 500", "the rounds of NAttack are not given: 50"),
            "the step of FGSM behind its random start is not given: eps",
            PaperSetting(
                "2,000 images are drawn at random, 200 of each class: here the first 200 of each",
                "2,000 images are drawn at random, 200 of each class: here the first 200 of each, and for NAttack 20",
            ),
        ),
    ),
    Exhibit("tian2021/table2", "Superclasses of CIFAR-10 and STL-10", "classes by superclass", {}),
    Exhibit(
        "tian2021/fig3a",
        "Class-wise variance of confidence of four defences",
        "bars by class and defence",
        {name: make_wide_audit(net, "clean", "pgd20") for name, net in DEFENCES.items()},
        (BATCH, WIDE_SHAPE, WIDE_TRAINING, "natural or adversarial images is not said: natural"),
    ),
    Exhibit(
        "tian2021/fig3bcd",
        "Confidence of MART for test image 127 after 1, 10 and 20 steps of PGD and of Temperature-PGD",
        "three panels of ten pairs of bars",
        {
            "MART": Measured(
                DEFENCES["MART"],
                CATS,
                ("pgd1", "pgd10", "pgd20", "tpgd1@5", "tpgd10@5", "tpgd20@5"),
                WIDE_TEST,
                keeps=("logits",),
            )
        },
        (BATCH, WIDE_SHAPE, WIDE_TRAINING),
        classes=(CAT,),
        images=(127,),
    ),
    Exhibit(
        "tian2021/table3",
        "Temperature-PGD against four defences",
        "rows by defence and 1/T: total, ten classes, CV, MCD, each with its change from PGD",
        {name: make_wide_audit(net, "clean", "pgd20", "tpgd20-grid") for name, net in DEFENCES.items()},
        (BATCH, WIDE_SHAPE, WIDE_TRAINING, TEMPERATURE),
    ),
    Exhibit(
        "tian2021/fig4a",
        "Who is taken for whom under attack",
        "10×10 counts, diagonal hidden",
        {"full": FULL},
        (BATCH,),
    ),
    Exhibit(
        "tian2021/fig4b",
        "Who comes home when the confound class is removed from training",
        "10×10 counts",
        {"full": FULL}
        | {role: make_audit(network("cifar10", "pgd-at", ("removed", c))) for c, role in WITHOUT_CLASS.items()},
        (BATCH, "outputs of a retrained network are not said: one less, numbered anew"),
    ),
    Exhibit(
        "tian2021/fig4c",
        "A smaller or larger beta for dog",
        "class robustness under Temperature-PGD, a line for each beta",
        {f"{beta:g}": make_wide_audit(with_beta_of_dog(beta), "tpgd20-grid") for beta in BETAS_OF_DOG},
        (
            BATCH,
            WIDE_SHAPE,
            WIDE_TRAINING,
            TEMPERATURE,
            "most values of beta stand only in the figure: 0.5, 1, 2, 4, 6, 8, 10",
        ),
    ),
    Exhibit(
        "tian2021/fig5",
        "MNIST on coloured backgrounds",
        "a sheet of samples and two matrices: confusions without and with attack",
        {
            kind: Measured(
                network("mnist", method, ("coloured",), threat=COLOURED),
                ImageSet("mnist", ("coloured",)),
                ("clean", "pgd40"),
                COLOURED,
            )
            for kind, method in (("adversarial", "pgd-at"), ("standard", "standard"))
        },
        (
            BATCH,
            "colours and groups stand only in the figure (2 and 3 share one, 2 and 5 do not): 0–4 on red, 5–9 on blue",
            PaperSetting(
                "40 steps of 0.01 do not reach a radius of 0.5: steps of 0.025",
                "40 steps of 0.01 do not reach a radius of 0.5: steps of 0.025, and five of 0.125 in training",
            ),
        ),
    ),
    Exhibit(
        "tian2021/fig6",
        "Two cats and their backgrounds",
        "annotated images: the two classes of highest confidence without and with attack, before and after whitening",
        {
            "original": Measured(DEFENCES["TRADES"], CATS, ("clean", "tpgd20-grid"), WIDE_TEST, keeps=("images",)),
            "white": Measured(DEFENCES["TRADES"], WHITE_CATS, ("clean", "tpgd20-grid"), WIDE_TEST, keeps=("images",)),
        },
        (
            BATCH,
            WIDE_SHAPE,
            WIDE_TRAINING,
            TEMPERATURE,
            MASKS,
            "the two images are swapped in the text: 3634 is the one on white",
        ),
        classes=(CAT,),
        images=(3634, 2261),
    ),
    Exhibit(
        "tian2021/table4",
        "What 1000 cats are taken for on white, and with a beta of 0.5 for dog",
        "six rows of ten counts",
        {
            "original": make_wide_audit(DEFENCES["TRADES"], "clean", "tpgd20-grid", data=CATS),
            "white": make_wide_audit(DEFENCES["TRADES"], "clean", "tpgd20-grid", data=WHITE_CATS),
            "white, adjusted": make_wide_audit(with_beta_of_dog(0.5), "clean", "tpgd20-grid", data=WHITE_CATS),
        }
        | {
            role: make_wide_audit(DEFENCES["TRADES"], "clean", "tpgd20-grid", data=replace(WHITE_CATS, change=change))
            for role, change in OTHER_MASKS.items()
        },
        (BATCH, WIDE_SHAPE, WIDE_TRAINING, TEMPERATURE, MASKS),
    ),
    Exhibit(
        "tian2021/table5",
        "CV and MCD of standard and adversarial training on six data sets",
        "six rows: CV and MCD of natural accuracy and of robustness, as printed and without sampling noise",
        {
            f"{data}, {kind}": make_audit(network(data, method))
            for data in ALL_SIX
            for kind, method in (("standard", "standard"), ("adversarial", "pgd-at"))
        },
        (
            BATCH,
            STL_SIZE,
            IMAGENET,
            "CIFAR-100 and ImageNet seem to be of twelve classes: of all, and of twelve with seed 0",
        ),
    ),
)
