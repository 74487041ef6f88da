"""Writes src/leastwise/cli/listing.json: what `leastwise list` shows, from the registries.

    python -m scripts.listing

The file saves the verb from importing torch. Verdicts on claims are those of the pages under results/lite. It is the
same on every machine: whether a data set is here is not in it.
"""

import json
from typing import Any

from scripts.lite_tables import summarise_verdicts

from leastwise.attacks.registry import NAMES
from leastwise.attacks.threats import Linf
from leastwise.cli.listing import FILE
from leastwise.core.files import write_atomic
from leastwise.data.augment.registry import AUGMENTATIONS
from leastwise.data.corrupt.registry import CORRUPTIONS
from leastwise.data.registry import SOURCES
from leastwise.data.source import Source, describe_origin
from leastwise.models.zoo.registry import ARCHITECTURES, PARTS, Architecture
from leastwise.papers.claims.table import CLAIMS
from leastwise.papers.cost import costs_by_scale
from leastwise.papers.exhibit import Exhibit
from leastwise.papers.outline import short
from leastwise.papers.registry import PAPERS
from leastwise.papers.scales import SCALES
from leastwise.training.attack_steps import ATTACK_STEPS
from leastwise.training.averaging import AVERAGINGS
from leastwise.training.entries import Method
from leastwise.training.registry import METHODS, POLICIES, settings_text
from leastwise.training.schedules import SCHEDULES


def main() -> None:
    write_atomic(FILE, listing_text().encode())
    print(FILE)


def listing_text() -> str:
    """The content of the file."""
    return json.dumps(make_listing(), indent=1, ensure_ascii=False) + "\n"


def make_listing() -> dict[str, list[dict[str, Any]]]:
    """Names, what they stand for and facts of less importance, by topic."""
    said = summarise_verdicts()
    return {
        "attacks": [entry(r.spelling, r.about, r.paper, f"cost per image: {r.cost}") for r in NAMES],
        "augmentations": [entry(name, a.about) for name, a in AUGMENTATIONS.items()],
        "claims": [
            entry(name, claim.statement, ", ".join(claim.papers), f"measured on two cores: {said[name]}")
            for name, claim in CLAIMS.items()
        ],
        "corruptions": [entry(name, kind.about, kind.family) for name, kind in CORRUPTIONS.items()],
        "data": [data_entry(name, source) for name, source in SOURCES.items()],
        "methods": [
            *(entry(name, m.equation, *training(m.paper, m.passes, own_defaults(m))) for name, m in METHODS.items()),
            *(
                entry(f"--fair {name}", c.equation, *training(c.paper, c.passes, settings_text(c.policy)))
                for name, c in POLICIES.items()
            ),
            *(entry(f"--average {name}", first_line(a), settings_text(a)) for name, a in AVERAGINGS.items()),
            *(entry(f"--schedule {name}", first_line(s), settings_text(s)) for name, s in SCHEDULES.items()),
            *(entry(f"--attack-steps {name}", first_line(s), settings_text(s)) for name, s in ATTACK_STEPS.items()),
            entry("--extra DATA", "pseudo-labelled images fill half of each batch", "RST: Carmon et al. 2019"),
            entry("--awp G", "min_w loss(w + v), |v| = G·|w| uphill", *training("Wu et al. 2020", "1 more")),
        ],
        "models": [
            *(entry(name, a.about, f"{a.size} images", parameters(a)) for name, a in ARCHITECTURES.items()),
            entry("wrn-D-W", "wide ResNet of any depth D = 6n + 4 and width W", "cifar images"),
            *(entry(f"…+{name}", f"any of them with {part.about}") for name, part in PARTS.items()),
        ],
        "papers": [
            entry(one.id, one.title, *(f"{at}: {cost}" for at, cost in zip(SCALES, cost_texts(one), strict=True)))
            for paper in PAPERS.values()
            for one in paper.exhibits
        ],
    }


def entry(name: str, about: str, *facts: str) -> dict[str, Any]:
    return {"name": name, "about": about, "facts": [fact for fact in facts if fact]}


def data_entry(name: str, source: Source) -> dict[str, Any]:
    """A data set, with what is needed to say whether it is on a machine."""
    splits = ", ".join(source.splits) if len(source.splits) < 5 else f"{source.splits[0]}, …"
    origins = [describe_origin(offer) for offer in source.offers]
    return entry(name, source.about, splits) | {"origins": origins, "folders": list(source.folders)}


def training(paper: str, adds: str, settings: str = "") -> tuple[str, ...]:
    """The facts of a training method."""
    return (paper, f"passes per step: {adds}" if adds else "", " ".join(settings.split()))


def cost_texts(exhibit: Exhibit) -> list[str]:
    """The cost of an exhibit by itself at each scale."""
    return [f"{cost.trainings} trainings, {short(cost.passes)} passes" for cost in costs_by_scale(exhibit).values()]


def own_defaults(method: Method) -> str:
    """What a method can be given with --set, for any attack."""
    return settings_text(method.make(Linf(8 / 255), 2 / 255, 5))


def first_line(value: object) -> str:
    """What a value's own documentation begins with."""
    return (type(value).__doc__ or "").partition("\n")[0].removesuffix(".")


def parameters(architecture: Architecture) -> str:
    """The published count for the network's own image size and number of classes."""
    return f"{architecture.params.total:,} parameters" if architecture.params else ""


if __name__ == "__main__":
    main()
