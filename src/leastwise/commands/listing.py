"""`leastwise list`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich import box
from rich.table import Table
from rich.text import Text

from leastwise.commands.shared import Screen

if TYPE_CHECKING:
    from leastwise.models.architectures import Architecture
    from leastwise.objectives import Method
    from leastwise.papers import Exhibit

Kind = Literal["all", "attacks", "augmentations", "corruptions", "data", "methods", "models", "papers"]


@dataclass(frozen=True)
class List:
    """Show what has a name: attacks, augmentations, corruptions, data sets, training methods, models, papers."""

    kind: Annotated[tyro.conf.Positional[Kind], tyro.conf.arg(metavar="KIND")] = "all"
    """attacks, augmentations, corruptions, data, methods, models, papers, or all"""

    def run(self) -> None:
        from leastwise.attacks import TABLE
        from leastwise.data import SOURCES
        from leastwise.data.augment import AUGMENTATIONS
        from leastwise.data.corrupt import CORRUPTIONS
        from leastwise.models import ARCHITECTURES
        from leastwise.models.architectures import PARTS
        from leastwise.objectives import AVERAGINGS, METHODS, POLICIES, SCHEDULES
        from leastwise.objectives.methods import defaults
        from leastwise.papers import PAPERS, SCALES

        tables: dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]] = {
            "attacks": (
                ("name", "what it does", "paper", "cost per image"),
                [(r.spelling, r.about, r.paper, r.cost) for r in TABLE],
            ),
            "augmentations": (("name", "what it does"), [(name, a.about) for name, a in AUGMENTATIONS.items()]),
            "corruptions": (
                ("name", "family", "what it does"),
                [(name, kind.family, kind.about) for name, kind in CORRUPTIONS.items()],
            ),
            "data": (
                ("name", "splits", "what it is"),
                [(name, some_splits(s.splits), s.about) for name, s in SOURCES.items()],
            ),
            "methods": (
                ("method", "loss per example", "paper", "settings", "passes per step"),
                [
                    *((name, m.equation, m.paper, own_defaults(m), m.adds) for name, m in METHODS.items()),
                    *(
                        (f"--fair {name}", c.equation, c.paper, defaults(c.policy), c.adds)
                        for name, c in POLICIES.items()
                    ),
                    *((f"--average {name}", first_line(a), "", defaults(a), "") for name, a in AVERAGINGS.items()),
                    *((f"--schedule {name}", first_line(s), "", defaults(s), "") for name, s in SCHEDULES.items()),
                    ("--awp G", "min_w loss(w + v), |v| = G·|w| uphill", "Wu et al. 2020", "", "1 more"),
                ],
            ),
            "models": (
                ("name", "images", "parameters", "what it is"),
                [
                    *((name, str(a.size), parameters(a), a.about) for name, a in ARCHITECTURES.items()),
                    ("wrn-D-W", "cifar", "", "wide ResNet of any depth D = 6n + 4 and width W"),
                    *((f"…+{name}", "", "", f"any of them with {part.about}") for name, part in PARTS.items()),
                ],
            ),
            "papers": (
                ("exhibit", "what it shows", *(f"trainings, passes: {name}" for name in SCALES)),
                [(one.id, one.title, *in_short(one)) for paper in PAPERS.values() for one in paper.exhibits],
            ),
        }
        console = Screen()
        for kind, (columns, rows) in tables.items():
            if self.kind in ("all", kind):
                table = Table(*columns, title=kind, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
                for row in rows:
                    table.add_row(*map(Text, row))
                console.print(table)


def in_short(exhibit: "Exhibit") -> list[str]:
    """The cost of an exhibit by itself at each scale."""
    from leastwise.papers import costs
    from leastwise.papers.outline import short

    return [f"{cost.trainings}, {short(cost.passes)}" for cost in costs(exhibit).values()]


def own_defaults(method: "Method") -> str:
    """What a method can be given with --set, for any attack."""
    from leastwise.balls import Linf
    from leastwise.objectives.methods import defaults

    return defaults(method.make(Linf(8 / 255), 2 / 255, 5))


def first_line(value: object) -> str:
    """What a value's own documentation begins with."""
    return (type(value).__doc__ or "").partition("\n")[0].removesuffix(".")


def some_splits(splits: tuple[str, ...]) -> str:
    return ", ".join(splits) if len(splits) < 5 else f"{splits[0]}, …"


def parameters(architecture: "Architecture") -> str:
    """The published count for the network's own image size and number of classes."""
    return f"{architecture.params.total:,}" if architecture.params else ""
