"""`leastwise list`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import tyro
from rich.table import Table
from rich.text import Text

from leastwise.report.terminal.screen import Screen

if TYPE_CHECKING:
    from leastwise.models.zoo.registry import Architecture
    from leastwise.papers.exhibit import Exhibit
    from leastwise.training.registry import Method

Kind = Literal["all", "attacks", "augmentations", "corruptions", "data", "methods", "models", "papers"]


@dataclass(frozen=True)
class List:
    """Show what has a name: attacks, augmentations, corruptions, data sets, training methods, models, papers."""

    kind: Annotated[tyro.conf.Positional[Kind], tyro.conf.arg(metavar="KIND")] = "all"
    """attacks, augmentations, corruptions, data, methods, models, papers, or all"""

    def run(self) -> None:
        from leastwise.attacks.registry import TABLE
        from leastwise.data.augment.crops import AUGMENTATIONS
        from leastwise.data.corrupt.corruption import CORRUPTIONS
        from leastwise.data.registry import SOURCES
        from leastwise.models.zoo.registry import ARCHITECTURES, PARTS
        from leastwise.papers.registry import PAPERS
        from leastwise.papers.scales import SCALES
        from leastwise.training.averaging import AVERAGINGS
        from leastwise.training.registry import METHODS, POLICIES, defaults
        from leastwise.training.schedules import SCHEDULES

        kinds: dict[str, list[Entry]] = {
            "attacks": [Entry(r.spelling, r.about, (r.paper, f"cost per image: {r.cost}")) for r in TABLE],
            "augmentations": [Entry(name, a.about) for name, a in AUGMENTATIONS.items()],
            "corruptions": [Entry(name, kind.about, (kind.family,)) for name, kind in CORRUPTIONS.items()],
            "data": [Entry(name, s.about, (some_splits(s.splits),)) for name, s in SOURCES.items()],
            "methods": [
                *(Entry(name, m.equation, training(m.paper, m.adds, own_defaults(m))) for name, m in METHODS.items()),
                *(
                    Entry(f"--fair {name}", c.equation, training(c.paper, c.adds, defaults(c.policy)))
                    for name, c in POLICIES.items()
                ),
                *(Entry(f"--average {name}", first_line(a), (defaults(a),)) for name, a in AVERAGINGS.items()),
                *(Entry(f"--schedule {name}", first_line(s), (defaults(s),)) for name, s in SCHEDULES.items()),
                Entry("--extra DATA", "pseudo-labelled images fill half of each batch", ("RST: Carmon et al. 2019",)),
                Entry("--awp G", "min_w loss(w + v), |v| = G·|w| uphill", training("Wu et al. 2020", "1 more")),
            ],
            "models": [
                *(Entry(name, a.about, (f"{a.size} images", parameters(a))) for name, a in ARCHITECTURES.items()),
                Entry("wrn-D-W", "wide ResNet of any depth D = 6n + 4 and width W", ("cifar images",)),
                *(Entry(f"…+{name}", f"any of them with {part.about}") for name, part in PARTS.items()),
            ],
            "papers": [
                Entry(one.id, one.title, tuple(f"{at}: {cost}" for at, cost in zip(SCALES, in_short(one), strict=True)))
                for paper in PAPERS.values()
                for one in paper.exhibits
            ],
        }
        console = Screen()
        for kind, entries in kinds.items():
            if self.kind in ("all", kind):
                console.print(Text(f"{kind}\n", "bold"))
                # Two columns stay readable in a narrow terminal, where five would leave a word to each line.
                table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
                table.add_column(no_wrap=True)
                table.add_column()
                for entry in entries:
                    table.add_row(Text(entry.name), Text.assemble(entry.about, *entry.second_line))
                console.print(table, "")


class Entry(NamedTuple):
    """A name, what it stands for, and facts of less importance."""

    name: str
    about: str
    facts: tuple[str, ...] = ()

    @property
    def second_line(self) -> tuple[tuple[str, str], ...]:
        said = " · ".join(fact for fact in self.facts if fact)
        return ((f"\n{said}", "dim"),) if said else ()


def training(paper: str, adds: str, settings: str = "") -> tuple[str, ...]:
    return (paper, f"passes per step: {adds}" if adds else "", " ".join(settings.split()))


def in_short(exhibit: "Exhibit") -> list[str]:
    """The cost of an exhibit by itself at each scale."""
    from leastwise.papers.cost import costs
    from leastwise.papers.outline import short

    return [f"{cost.trainings} trainings, {short(cost.passes)} passes" for cost in costs(exhibit).values()]


def own_defaults(method: "Method") -> str:
    """What a method can be given with --set, for any attack."""
    from leastwise.attacks.threats import Linf
    from leastwise.training.registry import defaults

    return defaults(method.make(Linf(8 / 255), 2 / 255, 5))


def first_line(value: object) -> str:
    """What a value's own documentation begins with."""
    return (type(value).__doc__ or "").partition("\n")[0].removesuffix(".")


def some_splits(splits: tuple[str, ...]) -> str:
    return ", ".join(splits) if len(splits) < 5 else f"{splits[0]}, …"


def parameters(architecture: "Architecture") -> str:
    """The published count for the network's own image size and number of classes."""
    return f"{architecture.params.total:,} parameters" if architecture.params else ""
