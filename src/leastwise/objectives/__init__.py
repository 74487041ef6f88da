"""What is minimised (objectives), how classes differ in it (policies), and what surrounds it (averaging, schedules)."""

from leastwise.objectives.averaging import AVERAGINGS, EMA, FAWA, SWA, Averaging, averaging, tail
from leastwise.objectives.avmixup import AVmixup
from leastwise.objectives.awp import AWP
from leastwise.objectives.base import Craft, Epoch, Objective, Policy, Seen, State, Terms, armed, drawn, weighed
from leastwise.objectives.bat import BAT
from leastwise.objectives.cfa import CFA
from leastwise.objectives.cfol import CFOL
from leastwise.objectives.dafa import DAFA
from leastwise.objectives.faal import FAAL
from leastwise.objectives.frl import FRL
from leastwise.objectives.hypersphere import HE
from leastwise.objectives.mart import MART
from leastwise.objectives.methods import METHODS, POLICIES, Method, method, policy
from leastwise.objectives.pgd_at import PGDAT
from leastwise.objectives.regularisers import Confusion, Similarity
from leastwise.objectives.schedules import (
    SCHEDULES,
    Constant,
    Cosine,
    Cyclic,
    OneCycle,
    Piecewise,
    Schedule,
    Steps,
    schedule,
)
from leastwise.objectives.settings import changed
from leastwise.objectives.single_class import SingleClassAT, TargetedAT
from leastwise.objectives.standard import Standard
from leastwise.objectives.trades import TRADES
from leastwise.objectives.wat import WAT
from leastwise.objectives.weighting import LDAM, Balanced, EffectiveNumber, FairWeighting, ImportantClass

__all__ = [
    "AVERAGINGS",
    "AWP",
    "BAT",
    "CFA",
    "CFOL",
    "DAFA",
    "EMA",
    "FAAL",
    "FAWA",
    "FRL",
    "HE",
    "LDAM",
    "MART",
    "METHODS",
    "PGDAT",
    "POLICIES",
    "SCHEDULES",
    "SWA",
    "TRADES",
    "WAT",
    "AVmixup",
    "Averaging",
    "Balanced",
    "Confusion",
    "Constant",
    "Cosine",
    "Craft",
    "Cyclic",
    "EffectiveNumber",
    "Epoch",
    "FairWeighting",
    "ImportantClass",
    "Method",
    "Objective",
    "OneCycle",
    "Piecewise",
    "Policy",
    "Schedule",
    "Seen",
    "Similarity",
    "SingleClassAT",
    "Standard",
    "State",
    "Steps",
    "TargetedAT",
    "Terms",
    "armed",
    "averaging",
    "changed",
    "drawn",
    "method",
    "policy",
    "schedule",
    "tail",
    "weighed",
]
