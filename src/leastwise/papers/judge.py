"""Which evidence decides which claim: from what the exhibits of a paper found to findings and verdicts."""

from leastwise.papers.ahn import verdicts as ahn
from leastwise.papers.benz2021 import verdicts as benz2021
from leastwise.papers.registry import PAPERS
from leastwise.papers.results import ClaimVerdict, ExhibitResults, Results, VerdictRule
from leastwise.papers.tian2021 import verdicts as tian2021
from leastwise.papers.tradeoff2022 import verdicts as tradeoff2022

RULES: dict[str, tuple[VerdictRule, ...]] = {
    "benz2021": benz2021.RULES,
    "tian2021": tian2021.RULES,
    "ahn": ahn.RULES,
    "tradeoff2022": tradeoff2022.RULES,
}
EXHIBITS = {one.id: one for paper in PAPERS.values() for one in paper.exhibits}


def judge_claims(paper: str, results: Results, scale: str) -> tuple[ClaimVerdict, ...]:
    """Every claim of a paper on everything that is there to decide it, and what is missing for the rest."""
    found = []
    for rule in RULES[paper]:
        view = ExhibitResults(EXHIBITS[rule.exhibit], scale, results, EXHIBITS)
        for case in rule.cases:
            on = "; ".join(word for word in case if word not in EXHIBITS)
            try:
                found.append(ClaimVerdict(rule.claim, rule.exhibit, on, rule.test(view, *case)))
            except ValueError as reason:  # something is missing, or there is too little of it to say anything
                found.append(ClaimVerdict(rule.claim, rule.exhibit, on, (), str(reason)))
    return tuple(found)
