"""Every claim of the papers by its id, in the order of their numbers; each is declared beside its tests."""

from leastwise.papers.claims.agreement import AGREEMENT_CLAIMS
from leastwise.papers.claims.attacks import ATTACKS_CLAIMS
from leastwise.papers.claims.base import Claim
from leastwise.papers.claims.features import FEATURES_CLAIMS
from leastwise.papers.claims.spread import SPREAD_CLAIMS

CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for claim in sorted(
        (*SPREAD_CLAIMS, *AGREEMENT_CLAIMS, *ATTACKS_CLAIMS, *FEATURES_CLAIMS), key=lambda claim: claim.number
    )
}
