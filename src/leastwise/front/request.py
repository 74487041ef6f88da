"""What `lw.audit`, `lw.race` and `lw.explain` are asked for, made into what the packages below work with."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leastwise.core.text import Screen, say
from leastwise.front.conditions import USUAL, Radii, conditions_of, read_conditions, read_recipe, spell_radii
from leastwise.front.progress import open_screen

if TYPE_CHECKING:
    from leastwise.attacks.naming import Threat
    from leastwise.audit.auditor import Auditor
    from leastwise.audit.evidence import Evidence
    from leastwise.data.dataset import Dataset
    from leastwise.jobs.executor import Executor


@dataclass(frozen=True)
class Request:
    """A classifier, images, what to attack with, and who computes."""

    model: Any
    data: Any
    attacks: Any
    eps: Radii
    norm: str
    step: float | int | str | None
    keep: Any
    like: "Evidence | str | Path | None"
    out: str | Path | None
    name: str
    seed: int
    batch_size: int
    device: str
    threads: int
    engine: str
    scheduler: str
    workers: int
    force: bool
    fresh: bool
    progress: bool

    @property
    def screen(self) -> Screen:
        return open_screen(self.progress)

    @property
    def label(self) -> str:
        """What the model is called."""
        if self.name or isinstance(self.model, str | Path):
            return self.name or str(self.model)
        inner = getattr(self.model, "net", self.model)
        arch = getattr(self.model, "arch", None)
        return str(arch or getattr(inner, "__name__", type(inner).__name__))

    @property
    def about(self) -> dict[str, str]:
        """What a reader of the results wants to know and the recipe has only digests of."""
        given = self.data
        named = {"data": str(given)} if isinstance(given, str | Path) else {"data": type(given).__name__}
        arch = getattr(self.model, "arch", None)
        return {"model": self.label} | named | ({"arch": str(arch)} if arch else {})

    def prepare(self, *, images: bool = False) -> "tuple[Auditor, Dataset]":
        """Everything checked that can be before time is spent: a misspelt name or number before the data are read."""
        from leastwise.attacks.registry import make_threat, split_names
        from leastwise.audit.auditor import make_auditor
        from leastwise.front.models import model as read_model
        from leastwise.models.preflight import choose_device
        from leastwise.report.terminal.view import steps

        if self.like is not None and self.attacks is not None:
            raise ValueError("like= brings the attacks of an earlier audit: leave the attacks or like= out")
        radii = spell_radii(self.eps)
        threat = make_threat(self.norm, radii[0], self.step, keep=self.keep)
        for radius in radii[1:]:
            make_threat(self.norm, radius, self.step)
        if isinstance(self.attacks, str):
            split_names(self.attacks)
        from leastwise.front.datasets import data as read_data

        with steps(self.screen, "reading images") as watch:
            data = read_data(self.data, watch=watch)
        device = choose_device(self.device, self.threads or (1 if self.engine == "dask" else 0))
        classifier = read_model(self.model, data)
        conditions, seed, shard = self.choose_conditions(self.with_surrogates(threat, data, device), radii, data)
        auditor = make_auditor(
            classifier,
            data,
            conditions,
            seed=seed,
            batch_size=self.batch_size,
            device=device,
            force=self.force,
            shard=shard,
            images=images,
        )
        self.say(*(f"warning: {warning}" for warning in auditor.warnings))
        return auditor, data

    def say(self, *lines: str) -> None:
        """Tell the user something, where progress is shown."""
        for line in lines:
            say(self.screen, line)

    def with_surrogates(self, threat: "Threat", data: "Dataset", device: str) -> "Threat":
        """The threat with a way to find the other network of a transfer attack."""
        from leastwise.attacks.surrogate import Surrogate, make_surrogate
        from leastwise.front.models import model as read_model

        def other(name: str) -> Surrogate:
            return make_surrogate(name, read_model(name, data).to(device))

        return replace(threat, load=other)

    def choose_conditions(self, threat: "Threat", radii: Sequence[str], data: "Dataset") -> tuple[Any, int, int]:
        """The attacks, the seed, and the size of the shards: as asked for, or those of an earlier audit."""
        if self.like is None:
            return read_conditions(USUAL if self.attacks is None else self.attacks, threat, radii), self.seed, 0
        from leastwise.front.results import open_audit

        earlier = open_audit(self.like)
        if earlier.data != data.digest():
            raise ValueError(
                "like= is an audit of other images, so that nothing could be compared image by image: give the same "
                "data, or name the attacks"
            )
        told = read_recipe(earlier)
        return conditions_of(earlier), int(told["seed"]), int(told["shard"])


@contextmanager
def open_engine(engine: str, scheduler: str = "", workers: int = 0) -> "Iterator[Executor]":
    """Who computes; processes that were started here end with this."""
    from leastwise.jobs.executor import LOCAL

    if engine not in ("local", "dask"):
        raise ValueError(f"an audit is computed by the engine local or dask, but saw {engine!r}: choose one of them")
    if engine == "local":
        if scheduler or workers:
            raise ValueError("scheduler= and workers= are those of a cluster: give engine='dask' too")
        yield LOCAL
        return
    try:
        from leastwise.jobs.dask.cluster import connect_cluster, processors
    except ImportError:
        raise ValueError("Dask is not installed: pip install 'leastwise[cluster]'") from None
    count = 0 if scheduler else workers or processors()
    with connect_cluster(scheduler, count, None, plain=False, limit=None) as executor:
        yield executor
