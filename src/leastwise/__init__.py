"""leastwise: audit and train image classifiers class by class under attack.

    import leastwise as lw

    data = lw.data("fashion-mini").take(20)
    found = lw.audit("mine.py:build", data, "clean,pgd20", eps=8/255)
    print(found.worst("pgd20"))

`dir(lw)` has every name. Each is imported from the module that defines it when it is first asked for, so that
`import leastwise` takes no time and `leastwise --help` need not wait for torch. `__init__.pyi` beside this file tells
editors and type checkers the same: a name more is a word here and a line there.
"""

from leastwise.core.lazy import lazy_names

__version__ = "0.1.0"

# Packages that are functions as well: `lw.data(x)` reads x, and `leastwise.data` is where data sets are at home.
PACKAGES = ("audit", "data", "report")
HOMES = {
    "attacks.pgd": "PGD",
    "attacks.threats": "L1 L2 Linf",
    "front.comparisons": "Comparison compare",
    "front.explanations": "Explanations explain",
    "front.gates": "GateResult gate",
    "front.lifts": "LiftAnswer lift",
    "front.lightning": "ClassMeterCallback",
    "front.meter": "ClassMeter",
    "front.methods": "ARD AVMIXUP BAT FAT FGSM_RS LABEL_SMOOTHING MART MAX_ENTROPY ME_AT ME_TRADES PGD_AT PGD_HE"
    " RSLAD SINGLE_CLASS_AT STANDARD TARGETED_AT TRADES TRADES_HE",
    "front.models": "model",
    "front.races": "RaceResult race",
    "front.results": "AuditResult open_audit",
    "front.step": "MethodStep",
    "front.trainings": "TrainedNetwork train",
    "front.trainer": "StepTrainer",
    "models.zoo.registry": "build",
    "report.trackers.mlflow": "MLflow",
    "report.trackers.tensorboard": "TensorBoard",
    "report.trackers.wandb": "WandB",
    "training.awp": "AWP",
    "training.policies.aiming": "FairTAT TRIX",
    "training.policies.cfa": "CFA",
    "training.policies.cfol": "CFOL",
    "training.policies.confusion": "CSR SyFAR",
    "training.policies.dafa": "DAFA",
    "training.policies.distilling": "ABSLD FairARD",
    "training.policies.faal": "FAAL",
    "training.policies.fixed": "ClassRadii ClassWeights",
    "training.policies.frl": "FRL",
    "training.policies.margins": "MR2",
    "training.policies.regularisers": "ConfusionPenalty SimilarityPenalty",
    "training.policies.unbalanced": "Balanced EffectiveNumber LDAM",
    "training.policies.wat": "WAT",
    "training.policies.weighting": "FairWeighting ImportantClass",
}

__all__ = sorted([*PACKAGES, *" ".join(HOMES.values()).split()])  # type: ignore[misc]

__getattr__ = lazy_names(__name__, HOMES, PACKAGES)


def __dir__() -> list[str]:
    """What completion offers."""
    return [*__all__, "__version__"]
