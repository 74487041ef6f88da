"""Understanding the robustness-accuracy tradeoff by rethinking robust fairness (submitted to ICLR 2022, anonymous)."""

from leastwise.data.classes import CIFAR10
from leastwise.jobs.images import ImageSet
from leastwise.papers.exhibit import BN, Exhibit, PaperSetting
from leastwise.papers.recipes import Measured, PaperThreat, Settings, Trained

BIRD, CAR, CAT = 2, 1, 3
THREAT = PaperThreat(0.03125, 0.008)  # 8/256
RST = PaperThreat(0.031, 0.007)  # as its code trains
LEADERBOARD = PaperThreat(8 / 255, 0.007)
TABLE = ("clean", "pgd20", "cw20", "autoattack")
FIGURE = ("clean", "pgd10")

TEST_STEP = PaperSetting("the test step of PGD is not given: 0.008", "the test step of PGD is not given: 2/255")
CW = PaperSetting(
    "confidence, step and start of C&W-20 are not given: 50, 0.008, uniform",
    "confidence, step and start of C&W-20 are not given: 50, 2/255, uniform",
)
LS = (
    "the convention of label smoothing is not said: 1 − a + a/K on the true class",
    "labels of the adversary under smoothing are not said: hard",
)
ON_TEST = PaperSetting(
    "checkpoints are chosen by PGD-20 on the test images, as in the paper",
    "checkpoints are the last ones, and not chosen by PGD-20 on the test images as in the paper",
)
VARIANCE = "the variance of features is not defined: mean over dimensions of the population variance; pooled beside it"
TWO_D = "whether the layer to two features has a bias is not said: it has"


def network(
    method: str = "standard",
    settings: Settings = (),
    arch: str = "resnet18",
    *,
    change: tuple[str | int, ...] = (),
    keep: str = "best-test:pgd20",
) -> Trained:
    """A training as the paper sets it up."""
    return Trained(
        ImageSet("cifar10", change),
        arch,
        method,
        settings,
        None if method == "standard" else THREAT,
        batch_size=64,
        drops=(75, 90),
        keep="last" if method == "standard" else keep,
    )


def make_audit(net: Trained, *conditions: str, features: bool = False, each_epoch: bool = False) -> Measured:
    """A network on the test images, with its features where an exhibit shows them."""
    return Measured(
        net,
        net.data,
        conditions or ("clean",),
        THREAT if conditions else None,
        each_epoch=each_epoch,
        keeps=("features",) if features else (),
    )


def trades(lam: float = 6.0) -> Trained:
    """TRADES with a weight of its divergence."""
    return network("trades", (("beta", lam),))


def me_trades(lam: float) -> Trained:
    """TRADES with maximum entropy, by the weight of its divergence."""
    return network("me-trades", (("beta", lam), ("entropy", 1.0)))


def single(cls: int) -> Trained:
    """Only one class is attacked in training; two features."""
    return network("single-class-at", (("classes", (cls,)),), "resnet18+2d", keep="last")


SMOOTH: Settings = (("convention", "all"), ("smoothing", 0.1))
ST, PGD_AT = network(), network("pgd-at")
ST_LS, PGD_AT_LS = network(settings=SMOOTH), network("pgd-at", SMOOTH)
TRADES_LS = network("trades", (("beta", 6.0), *SMOOTH))
ME_AT = {entropy: network("me-at", (("entropy", entropy),)) for entropy in (0.5, 1.0)}
OTHERS = tuple(c for c in range(len(CIFAR10)) if c not in (CAR, CAT))

# Roles of Table 2 by lambda.
TRADES_ROLES = {lam: f"TRADES λ={lam:g}" for lam in (6.0, 9.0, 12.0, 15.0)}
ME_TRADES_ROLES = {lam: f"ME-TRADES β=1 λ={lam:g}" for lam in (15.0, 18.0, 24.0, 27.0)}

EXHIBITS = (
    Exhibit(
        "tradeoff2022/fig1ab",
        "Class errors of standard and adversarial training",
        "two panels of lines by class, standard and adversarial training: natural and PGD-10 error",
        {"ST": make_audit(ST, *FIGURE), "PGD-AT": make_audit(PGD_AT, *FIGURE)},
        (BN, TEST_STEP, ON_TEST),
    ),
    Exhibit(
        "tradeoff2022/fig1c",
        "Share of each class in the fall of accuracy",
        "a bar of shares",
        {"ST": make_audit(ST, *FIGURE), "PGD-AT": make_audit(PGD_AT, *FIGURE)},
        (BN, ON_TEST),
        (BIRD, CAT),
    ),
    Exhibit(
        "tradeoff2022/fig2",
        "Inter-class similarity and intra-class variance of three trainings",
        "two panels of lines by class, and the pooled variance beside them",
        {name: make_audit(net, features=True) for name, net in (("ST", ST), ("PGD-AT", PGD_AT), ("TRADES", trades()))},
        (BN, ON_TEST, VARIANCE),
    ),
    Exhibit(
        "tradeoff2022/fig3",
        "Adversarial training of one class: car, cat",
        "2×2: class errors beside two-dimensional features",
        {name: make_audit(single(c), *FIGURE, features=True) for name, c in (("car", CAR), ("cat", CAT))},
        (BN, TEST_STEP, TWO_D),
    ),
    Exhibit(
        "tradeoff2022/fig4",
        "Similarity of each class where it alone is attacked, against standard training",
        "two lines over the classes",
        {f"single {c}": make_audit(single(c), features=True) for c in range(len(CIFAR10))}
        | {"ST": make_audit(network(arch="resnet18+2d"), features=True)},
        (BN, TWO_D),
    ),
    Exhibit(
        "tradeoff2022/fig5",
        "Cat against each other class",
        "two panels, PGD-AT and TRADES: natural and PGD-10 error, sorted by similarity to cat in standard training",
        {
            f"{name}, cat and {c}": make_audit(net, *FIGURE)
            for c in range(len(CIFAR10))
            if c != CAT
            for name, net in (
                ("PGD-AT", network("pgd-at", change=("binary", CAT, c))),
                ("TRADES", network("trades", (("beta", 6.0),), change=("binary", CAT, c))),
            )
        }
        | {"ST": make_audit(ST, features=True)},
        (BN, TEST_STEP, ON_TEST),
    ),
    Exhibit(
        "tradeoff2022/fig6",
        "Smoothing and entropy: similarity and variance",
        "four panels of lines by class, and pooled variances beside them",
        {
            name: make_audit(net, features=True)
            for name, net in (
                ("PGD-AT", PGD_AT),
                ("PGD-AT+LS", PGD_AT_LS),
                ("ME-AT", ME_AT[0.5]),
                ("TRADES", trades()),
                ("TRADES+LS", TRADES_LS),
                ("ME-TRADES", me_trades(15.0)),
            )
        },
        (BN, *LS, ON_TEST, VARIANCE, "weights of ME-AT and ME-TRADES are not said: 0.5; 1 with lambda 15"),
    ),
    Exhibit(
        "tradeoff2022/table1",
        "Label smoothing in three trainings",
        "natural accuracy and AutoAttack with and without, and the gain",
        {
            name: make_audit(net, "clean", "autoattack")
            for name, net in (
                ("ST+LS", ST_LS),
                ("ST", ST),
                ("PGD-AT+LS", PGD_AT_LS),
                ("PGD-AT", PGD_AT),
                ("TRADES+LS", TRADES_LS),
                ("TRADES", trades()),
            )
        },
        (BN, *LS, ON_TEST),
    ),
    Exhibit(
        "tradeoff2022/fig7",
        "Entropy over the epochs",
        "four curves: clean and adversarial, PGD-AT and TRADES, with the line ln K",
        {
            name: make_audit(net, "clean", "pgd20", each_epoch=True)
            for name, net in (("PGD-AT", PGD_AT), ("TRADES", trades()))
        },
        (BN, TEST_STEP, ON_TEST),
    ),
    Exhibit(
        "tradeoff2022/table2",
        "TRADES and ME-TRADES over lambda",
        "eight rows: natural, PGD-20, C&W-20, AutoAttack",
        {role: make_audit(trades(lam), *TABLE) for lam, role in TRADES_ROLES.items()}
        | {role: make_audit(me_trades(lam), *TABLE) for lam, role in ME_TRADES_ROLES.items()},
        (BN, TEST_STEP, CW, ON_TEST),
    ),
    Exhibit(
        "tradeoff2022/table3",
        "PGD-AT with smoothing and with entropy",
        "four rows: natural, PGD-20, C&W-20, AutoAttack",
        {"PGD-AT": make_audit(PGD_AT, *TABLE), "PGD-AT+LS α=0.1": make_audit(PGD_AT_LS, *TABLE)}
        | {f"ME-AT β={entropy:g}": make_audit(net, *TABLE) for entropy, net in ME_AT.items()},
        (BN, TEST_STEP, CW, *LS, ON_TEST),
    ),
    Exhibit(
        "tradeoff2022/table4",
        "The worst class",
        "seven rows: natural, PGD-20, C&W-20, AutoAttack of the worst class of each",
        {
            name: make_audit(net, *TABLE)
            for name, net in (
                ("PGD-AT", PGD_AT),
                ("PGD-AT+LS", PGD_AT_LS),
                ("ME-AT β=0.5", ME_AT[0.5]),
                ("TRADES λ=6", trades()),
                ("TRADES+LS λ=6", TRADES_LS),
                ("ME-TRADES β=1 λ=15", me_trades(15.0)),
                ("ME-TRADES β=1 λ=27", me_trades(27.0)),
            )
        },
        (BN, TEST_STEP, CW, *LS, ON_TEST),
    ),
    Exhibit(
        "tradeoff2022/table5",
        "Beside the leaderboard: WRN-28-10 with pseudo-labelled images",
        "natural accuracy and AutoAttack at 8/255, with what others report",
        {
            name: Measured(
                Trained(
                    ImageSet("cifar10"),
                    arch,
                    "me-trades",
                    (("beta", 27.0), ("entropy", 1.0)),
                    RST,
                    extra="tinyimages-500k",
                    epochs=200,
                    batch_size=256,
                    optimiser="nesterov",
                    schedule="cosine",
                    weight_decay=5e-4,
                ),
                ImageSet("cifar10"),
                ("clean", "autoattack"),
                LEADERBOARD,
            )
            for name, arch in (("ME-RST", "wrn-28-10"), ("ME-RST+BIN", "wrn-28-10+bin"))
        },
        (
            BN,
            PaperSetting(
                "the paper changes the weights of RST only: the rest, 0.031 in training among it, as in its code"
            ),
            "the extra pictures are not to be had any more",
        ),
    ),
    Exhibit(
        "tradeoff2022/fig8",
        "Adversarial training of one class: the other eight",
        "eight pairs of panels: class errors beside two-dimensional features",
        {f"single {c}": make_audit(single(c), *FIGURE, features=True) for c in OTHERS},
        (BN, TEST_STEP, TWO_D),
    ),
    Exhibit(
        "tradeoff2022/fig9",
        "Similarity and variance over lambda",
        "two panels of lines by class, and the pooled variance beside them",
        {f"TRADES λ={lam:g}": make_audit(trades(lam), features=True) for lam in (1.0, 6.0, 12.0)}
        | {"PGD-AT": make_audit(PGD_AT, features=True)},
        (BN, ON_TEST, VARIANCE),
    ),
)
