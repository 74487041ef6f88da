"""What editors and type checkers know of the names that `__init__.py` imports when they are first asked for."""

from leastwise.attacks.pgd import PGD as PGD
from leastwise.attacks.threats import L1 as L1
from leastwise.attacks.threats import L2 as L2
from leastwise.attacks.threats import Linf as Linf
from leastwise.front.datasets import data as data
from leastwise.front.meter import ClassMeter as ClassMeter
from leastwise.front.methods import AVMIXUP as AVMIXUP
from leastwise.front.methods import BAT as BAT
from leastwise.front.methods import FAT as FAT
from leastwise.front.methods import FGSM_RS as FGSM_RS
from leastwise.front.methods import LABEL_SMOOTHING as LABEL_SMOOTHING
from leastwise.front.methods import MART as MART
from leastwise.front.methods import MAX_ENTROPY as MAX_ENTROPY
from leastwise.front.methods import ME_AT as ME_AT
from leastwise.front.methods import ME_TRADES as ME_TRADES
from leastwise.front.methods import PGD_AT as PGD_AT
from leastwise.front.methods import PGD_HE as PGD_HE
from leastwise.front.methods import SINGLE_CLASS_AT as SINGLE_CLASS_AT
from leastwise.front.methods import STANDARD as STANDARD
from leastwise.front.methods import TARGETED_AT as TARGETED_AT
from leastwise.front.methods import TRADES as TRADES
from leastwise.front.methods import TRADES_HE as TRADES_HE
from leastwise.front.models import model as model
from leastwise.front.step import MethodStep as MethodStep
from leastwise.training.awp import AWP as AWP
from leastwise.training.policies.aiming import TRIX as TRIX
from leastwise.training.policies.aiming import FairTAT as FairTAT
from leastwise.training.policies.cfa import CFA as CFA
from leastwise.training.policies.cfol import CFOL as CFOL
from leastwise.training.policies.confusion import CSR as CSR
from leastwise.training.policies.confusion import SyFAR as SyFAR
from leastwise.training.policies.dafa import DAFA as DAFA
from leastwise.training.policies.faal import FAAL as FAAL
from leastwise.training.policies.frl import FRL as FRL
from leastwise.training.policies.regularisers import ConfusionPenalty as ConfusionPenalty
from leastwise.training.policies.regularisers import SimilarityPenalty as SimilarityPenalty
from leastwise.training.policies.unbalanced import LDAM as LDAM
from leastwise.training.policies.unbalanced import Balanced as Balanced
from leastwise.training.policies.unbalanced import EffectiveNumber as EffectiveNumber
from leastwise.training.policies.wat import WAT as WAT
from leastwise.training.policies.weighting import FairWeighting as FairWeighting
from leastwise.training.policies.weighting import ImportantClass as ImportantClass

__version__: str
