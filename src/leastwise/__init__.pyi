"""What editors and type checkers know of the names that `__init__.py` imports when they are first asked for."""

from leastwise.attacks.pgd import PGD as PGD
from leastwise.attacks.threats import L1 as L1
from leastwise.attacks.threats import L2 as L2
from leastwise.attacks.threats import Linf as Linf
from leastwise.front.datasets import data as data
from leastwise.front.models import model as model

__version__: str
