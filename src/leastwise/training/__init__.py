"""Training: the recipe as a value, the only loop, the methods (one file each) and the class-wise policies (likewise).

A method says what each example's loss is; a policy how classes differ in it. Folders, queues and clusters are in
`leastwise.jobs`.
"""

from typing import TYPE_CHECKING

from leastwise.core.lazy import lazy_names

if TYPE_CHECKING:
    from leastwise.training.averaging import FAWA
    from leastwise.training.base import Epoch, Objective, Policy, PolicyState, Terms
    from leastwise.training.loop import fit
    from leastwise.training.methods.pgd_at import PGDAT
    from leastwise.training.methods.standard import Standard
    from leastwise.training.methods.trades import TRADES
    from leastwise.training.policies.cfa import CFA
    from leastwise.training.recipe import Training, Validation
    from leastwise.training.schedules import OneCycle

__all__ = [
    "CFA",
    "FAWA",
    "PGDAT",
    "TRADES",
    "Epoch",
    "Objective",
    "OneCycle",
    "Policy",
    "PolicyState",
    "Standard",
    "Terms",
    "Training",
    "Validation",
    "fit",
]

__getattr__ = lazy_names(
    __name__,
    {
        "recipe": "Training Validation",
        "loop": "fit",
        "base": "Epoch Objective Policy PolicyState Terms",
        "methods.pgd_at": "PGDAT",
        "methods.standard": "Standard",
        "methods.trades": "TRADES",
        "policies.cfa": "CFA",
        "averaging": "FAWA",
        "schedules": "OneCycle",
    },
)
