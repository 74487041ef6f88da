"""`lw.race`: which class is the worst, with as few attacks as possible."""

import json
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leastwise.core.text import escape_html, percent
from leastwise.front.conditions import Radii
from leastwise.front.request import Request, open_engine
from leastwise.front.words import in_python_words
from leastwise.statistics.race import Question

if TYPE_CHECKING:
    import altair as alt

    from leastwise.attacks.choices import Keep, Norm
    from leastwise.audit.evidence import Evidence
    from leastwise.front.audits import Engine


@in_python_words
def race(
    model: Any,
    data: Any,
    attack: Any = "pgd20",
    *,
    question: Question = "this-test-set",
    top: int = 1,
    below: float | str | None = None,
    prior: "Evidence | str | Path | None" = None,
    confidence: float = 0.95,
    round: int = 5,
    eps: Radii = "8/255",
    norm: "Norm" = "linf",
    step: float | int | str | None = None,
    keep: "Keep" = "fooled",
    out: str | Path | None = None,
    name: str = "",
    seed: int = 0,
    batch_size: int = 0,
    device: str = "auto",
    threads: int = 0,
    engine: "Engine" = "local",
    scheduler: str = "",
    workers: int = 0,
    force: bool = False,
    fresh: bool = False,
    progress: bool = True,
) -> "RaceResult":
    """Find the worst class under one attack: only classes that may still be the worst are attacked.

    `question` is about these very images, or about the population that they were drawn from. `top` worst classes are
    looked for, or, with `below=0.2`, the classes that are less accurate than that. `prior`, an earlier audit of the
    same classes, says where to look first and never changes the answer. With `out=` an interrupted race goes on.

    >>> import leastwise as lw
    >>> data = lw.data("fashion-mini").take(5)
    >>> net = lw.build("small", data.shape, data.k)
    >>> lw.race(net, data, "fgsm", force=True, progress=False).attacked <= len(data)
    True
    """
    settings = dict(locals())
    return RaceRequest(attacks=settings.pop("attack"), like=None, **settings).run()


@dataclass(frozen=True)
class RaceRequest(Request):
    """The settings of a race."""

    question: Question
    top: int
    below: float | str | None
    prior: "Evidence | str | Path | None"
    confidence: float
    round: int

    def run(self) -> "RaceResult":
        """Race, or find it done."""
        from leastwise.audit.race import RaceRecipe, take_guess
        from leastwise.core.text import parse_share
        from leastwise.front.results import open_audit
        from leastwise.jobs.race_task import RaceTask
        from leastwise.report.terminal.race import show_race
        from leastwise.statistics.race import RaceAim

        share = parse_share(self.below) if isinstance(self.below, str) else self.below
        aim = RaceAim(self.question, self.top, share, self.confidence)
        auditor, data = self.prepare()
        if len(auditor.recipe.conditions) != 1:
            names = ", ".join(name for name, _ in auditor.recipe.conditions)
            raise ValueError(f"a race is run under one attack, but saw {names}: join several with +")
        guess = () if self.prior is None else take_guess(open_audit(self.prior), data.names)
        recipe = RaceRecipe(auditor.key, self.round, aim, guess)
        place = tempfile.TemporaryDirectory() if self.out is None else nullcontext(str(self.out))
        with place as folder, open_engine(self.engine, self.scheduler, self.workers) as executor:
            task = RaceTask(auditor, data, Path(folder), recipe, about=self.about)
            if task.finished and not self.fresh:
                self.say(f"done before, in {task.folder} (fresh=True does it anew)", *filter(None, [task.likeness]))
            else:
                with show_race(self.screen, data.names) as listen:
                    task.run(listen, fresh=self.fresh, executor=executor)
            return RaceResult(json.loads(task.result.read_text("utf-8")), None if self.out is None else task.folder)


@dataclass(frozen=True, repr=False)
class RaceResult:
    """The answer of a race, with what it took. `content` is what `race.json` holds."""

    content: Mapping[str, Any]
    folder: Path | None = None

    @property
    def worst(self) -> str | None:
        """The worst class; None while several may be it, or share the last place."""
        found: str | None = self.content["worst"]
        return found

    @property
    def named(self) -> tuple[str, ...]:
        """The worst classes that were asked for; none while undecided."""
        return tuple(self.content["named"])

    @property
    def contenders(self) -> tuple[str, ...]:
        """The classes of which nothing is decided."""
        return tuple(self.content["contenders"])

    @property
    def attacked(self) -> int:
        """How many images were attacked."""
        return int(self.content["attacked"])

    def __repr__(self) -> str:
        from leastwise.report.terminal.race import race_sentence

        warnings = self.content["warnings"]
        return "\n".join([race_sentence(self.content), *(f"  warning: {one}" for one in warnings[:3])])

    def rows(self) -> list[dict[str, Any]]:
        """A row per class: its images, those right as they are, attacked and surviving, and what was decided."""
        left = {one["class"]: one["better_than"] for one in self.content["eliminated"]}
        told = self.content["by_class"]
        named, open_ones = set(self.named), set(self.contenders)
        below, above = set(self.content["below"]), set(self.content["above"])
        rows = []
        for c, name in enumerate(self.content["classes"]):
            state = "worst" if name in named else "open" if name in open_ones else ""
            state = state or ("below" if name in below else "above" if name in above else "better")
            counts = {part: int(values[c]) for part, values in told.items()}
            rows.append({"class": name, "state": state, **counts, "better_than": left.get(name)})
        return rows

    def to_pandas(self) -> Any:
        """A row per class: images, right_before, seen, attacked, survived, and what was decided of it."""
        from leastwise.report.notebook import make_frame

        return make_frame(self.rows())

    def plot(self) -> "alt.TopLevelMixin":
        """What survived of the attacked images of each class, with intervals; who is or may be the worst is marked."""
        from leastwise.report.picture import draw_race

        return draw_race(self.rows(), str(self.content["condition"]))

    def _repr_html_(self) -> str:
        from leastwise.report.notebook import table_html

        rows = [
            [
                (escape_html(row["class"]), False),
                (f"{row['attacked']:,} of {row['right_before']:,}", False),
                (percent(row["survived"] / row["attacked"]) if row["attacked"] else "", row["state"] == "worst"),
                (row["state"] + (f" than {escape_html(row['better_than'])}" if row["better_than"] else ""), False),
            ]
            for row in self.rows()
        ]
        head = ["class", "attacked of those right", "survived, %", "so it is"]
        return table_html(head, rows, caption=repr(self).partition("\n")[0], notes=self.content["warnings"])
