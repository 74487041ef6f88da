"""Maximum entropy under attack: PGD-AT and TRADES with an entropy bonus (an anonymous submission to ICLR 2022)."""

from leastwise.training.entries import MAXIMUM_ENTROPY_PAPER, Method, ce_attack, kl_attack
from leastwise.training.methods.pgd_at import PGDAT
from leastwise.training.methods.trades import TRADES

METHODS = {
    "me-at": Method(
        lambda *a: PGDAT(ce_attack(*a), entropy=0.5),
        "CE(f(x'), y) - β·H(p(x'))",
        MAXIMUM_ENTROPY_PAPER,
        "n + 1",
    ),
    "me-trades": Method(
        lambda *a: TRADES(kl_attack(*a), beta=15.0, entropy=1.0),
        "TRADES - β·H(p(x))",
        MAXIMUM_ENTROPY_PAPER,
        "n + 2, a clean forward",
    ),
}
