"""The class an attacker would pick: the weakest one, under the condition where it is weakest."""

from dataclasses import dataclass

from leastwise.audit.evidence import Evidence
from leastwise.core.counts import ClassFrame
from leastwise.report.text import percent, span
from leastwise.statistics.intervals import wilson_interval


def lowest_accuracy(frame: ClassFrame) -> list[float]:
    """The worst class's accuracy, by condition."""
    lowest: list[float] = frame.accuracy.gather(1, frame.worst[:, None]).squeeze(1).tolist()
    return lowest


@dataclass(frozen=True)
class AttackersPick:
    """The class an attacker would pick, under the condition where the worst class is lowest."""

    condition: str
    picked: str
    ties: int  # classes that share the last place
    accuracy: str
    interval: str
    overall: str


def find_attackers_pick(evidence: Evidence) -> AttackersPick:
    """The weakest class under the condition where it is weakest."""
    frame = evidence.frame()
    lowest = lowest_accuracy(frame)
    overall: list[float] = frame.overall.tolist()
    # Of conditions that are equally bad the last: clean images stand first, and no attacker is needed for them.
    row = min(range(len(lowest)), key=lambda r: (lowest[r], overall[r], -r))
    worst = int(frame.worst[row])
    low, high = wilson_interval(frame.correct[row].numpy(), frame.n[row].numpy())
    return AttackersPick(
        frame.conditions[row],
        frame.names[worst],
        int((frame.accuracy[row] == lowest[row]).sum()),
        percent(lowest[row]),
        span(low[worst], high[worst]),
        percent(overall[row]),
    )
