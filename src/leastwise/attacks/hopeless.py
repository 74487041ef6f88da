"""When a run of an attack is given up: it has won too little to win the rest.

Most of what AutoAttack spends goes to images that never fall, and long before the end of a run those that do are nearly
there. A rule looks once: after some steps or queries a run goes on only where what is left to win is at most a share of
what was won. It is a bet, which can lose an image; the members of `autoattack` make none.
"""

from dataclasses import dataclass
from typing import ClassVar

from leastwise.core.types import Mask, PerExample


@dataclass(frozen=True)
class Hopeless:
    """After `after` steps a run is hopeless if more than `share` times what it has won is left to be won.

    What is won and left are parts of the way of a score from the clean image to zero, where the mistakes begin; for
    FAB, which has no way to go, `share` is of eps: how far beyond the ball the nearest mistake may be that it knows.
    """

    recipe_name: ClassVar[str] = "Hopeless"

    after: int
    share: float

    def __post_init__(self) -> None:
        if self.after < 1:
            raise ValueError(f"a run is judged after one step or more, but saw {self.after}")
        if not self.share > 0:
            raise ValueError(f"what may be left is a positive share of what was won, but saw {self.share}")

    def __str__(self) -> str:
        return f"given up after {self.after} unless at most {self.share:g} times what was won is left"

    def lets_go_on(self, clean: PerExample, best: PerExample) -> Mask:
        """Where the best score of a run is near enough to zero, given that of the clean image."""
        return -best <= self.share * (best - clean)
