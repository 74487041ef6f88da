"""Which classes stand at the ends of a ranking; of classes that are level nobody is the weakest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NAMED = 3  # classes at each end that get a name, at most


@dataclass(frozen=True)
class RankingEnds:
    """The classes that lie below, or above, all that are not named with them."""

    weakest: tuple[int, ...]
    strongest: tuple[int, ...]
    level_below: str = ""  # what is said in the place of names where too many classes are level
    level_above: str = ""

    @property
    def kinds(self) -> dict[int, str]:
        """How their lines are drawn."""
        return dict.fromkeys(self.weakest, "weak") | dict.fromkeys(self.strongest, "strong")

    def describe_weakest(self, names: Sequence[str]) -> str:
        return ", ".join(names[c] for c in self.weakest) or self.level_below

    def describe_strongest(self, names: Sequence[str]) -> str:
        return ", ".join(names[c] for c in self.strongest) or self.level_above


def find_ends(accuracy: Mapping[int, float]) -> RankingEnds:
    """By the accuracies of the classes in percent: a third of them at each end, but no more than three."""
    order = sorted(accuracy, key=lambda c: accuracy[c])
    most = min(NAMED, max(1, len(order) // 3))
    weakest, below = cut_end(order, accuracy, most)
    strongest, above = cut_end(order[::-1], accuracy, most)
    return RankingEnds(weakest, strongest, below, above)


def cut_end(order: Sequence[int], accuracy: Mapping[int, float], most: int) -> tuple[tuple[int, ...], str]:
    """As many classes from the beginning as can be told from those behind them; or how many are level there."""
    for count in range(min(most, len(order) - 1), 0, -1):
        if accuracy[order[count - 1]] != accuracy[order[count]]:
            return tuple(order[:count]), ""
    level = [c for c in order if accuracy[c] == accuracy[order[0]]]
    return (), f"{len(level)} classes level at {accuracy[order[0]]:.1f} %" if len(level) > 1 else ""
