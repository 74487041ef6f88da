"""`lw.compare`: models class by class on the same images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leastwise.core.text import escape_html
from leastwise.front.reports import list_results, take_models
from leastwise.front.words import in_python_words

if TYPE_CHECKING:
    import altair as alt

    from leastwise.report.sides import Side

LINES = 10  # of a repr, at most


@in_python_words
def compare(
    *results: Any, names: Sequence[str] = (), condition: str = "", margin: float | str | None = None
) -> "Comparison":
    """What later results change against the first one: class by class, paired, with tests corrected for their number.

    A result is an audit or its folder; a list of them is several trainings of one method, which tells the spread over
    trainings from the noise of the test images. `condition` is the strongest that all share unless given; with
    `margin=0.03` it is tested which classes have lost less than that.

    >>> import leastwise as lw
    >>> data = lw.data("fashion-mini").take(5)
    >>> nets = [lw.build("small", data.shape, data.k, seed=seed) for seed in (0, 1)]
    >>> one, two = (lw.audit(net, data, "clean,fgsm", force=True, progress=False) for net in nets)
    >>> lw.compare(one, two, names=("one", "two")).to_pandas().columns.tolist()[:5]
    ['from', 'to', 'condition', 'class', 'n']
    """
    from leastwise.core.text import parse_share
    from leastwise.report.compare import choose_condition, compare_sides
    from leastwise.report.sides import make_sides

    if len(results) < 2:
        raise ValueError(f"a comparison needs at least two results, but saw {len(results)}: give two audits or more")
    if names and len(names) != len(results):
        raise ValueError(f"{len(results)} sides need {len(results)} names, but saw {len(names)}: give one for each")
    groups = [take_models(list_results(one)) for one in results]
    if any(not group for group in groups):
        raise ValueError("a side without an audit cannot be compared: leave it out")
    usual = take_models([group[0].evidence for group in groups], [group[0].name for group in groups])
    shown = list(names) or [one.name for one in usual]
    shown = shown if len(set(shown)) == len(shown) else [f"{name} {n}" for n, name in enumerate(shown, 1)]
    sides = make_sides(shown, groups)
    share = parse_share(margin) if isinstance(margin, str) else margin
    return Comparison(compare_sides(sides, choose_condition(sides, condition), margin=share), sides)


@dataclass(frozen=True, repr=False)
class Comparison:
    """What changes between models. `content` is what `leastwise compare -o FILE.json` writes."""

    content: Mapping[str, Any]
    sides: "tuple[Side, ...]"

    @property
    def condition(self) -> str:
        """The attack under which they were compared."""
        return str(self.content["condition"])

    def __repr__(self) -> str:
        lines = [f"Comparison of {', '.join(one['name'] for one in self.content['models'])} on the same images"]
        for change in self.content["changes"]:
            for name, numbers in change["conditions"].items():
                lines.append(f"  {change['to']} − {change['from']}, {name}: {describe_change(numbers)}")
        lines = lines if len(lines) < LINES else [*lines[: LINES - 2], f"  … {len(lines) - LINES + 2} more lines"]
        return "\n".join([*lines, f"  intervals cover {self.content['changes'][0]['speaks_of']}"][:LINES])

    def rows(self) -> list[dict[str, Any]]:
        """A row per pair, condition and class, then one of all classes together, where `class` is missing."""
        rows = []
        for change in self.content["changes"]:
            for name, numbers in change["conditions"].items():
                named = [*zip(self.content["classes"], numbers["classes"], strict=True), (None, numbers["overall"])]
                for cls, one in named:
                    if one is not None:
                        head = {"from": change["from"], "to": change["to"], "condition": name, "class": cls}
                        rows.append(head | {key: value for key, value in one.items() if not isinstance(value, list)})
        return rows

    def to_pandas(self) -> Any:
        """A tidy frame: differences and their intervals as fractions, p-values corrected for the number of classes."""
        from leastwise.report.notebook import make_frame

        return make_frame(self.rows())

    def plot(self, condition: str = "") -> "alt.TopLevelMixin":
        """The change of every class from the first model to each of the others, with intervals."""
        from leastwise.report.picture import draw_changes

        if any(len(side.models) > 1 for side in self.sides):
            raise ValueError("changes are drawn of single models, and here are several trainings: compare one of each")
        models = [side.models[0] for side in self.sides]
        names = [side.name for side in self.sides]
        return draw_changes(take_models([one.evidence for one in models], names), condition or self.condition)

    def _repr_html_(self) -> str:
        from leastwise.report.notebook import table_html

        conditions = list(self.content["changes"][0]["conditions"])
        rows = []
        for change in self.content["changes"]:
            if len(self.content["changes"]) > 1:
                rows.append([(escape_html(f"{change['to']} − {change['from']}"), False)])
            parts = [change["conditions"][name] for name in conditions]
            for c, name in enumerate(self.content["classes"]):
                found = [part["classes"][c] for part in parts]
                if all(found):
                    rows.append([(escape_html(name), False), *(change_cell(one) for one in found)])
            rows.append([("overall", False), *(change_cell(part["overall"]) for part in parts)])
        first = self.content["changes"][0]
        said = f"{first['to']} − {first['from']}" if len(self.content["changes"]) == 1 else "changes from the first"
        return table_html(
            ["class", *conditions],
            rows,
            caption=f"{said}: points [95 % interval] on the same {self.content['images']:,} images",
            notes=["◂ chance does not explain it, corrected for the number of classes and of models"],
        )


def describe_change(numbers: Mapping[str, Any]) -> str:
    """A change in a line: overall, of the worst class, and how many classes differ beyond chance."""
    known = [one for one in numbers["classes"] if one is not None]
    better = sum(1 for one in known if one["significant"] and one["difference"] > 0)
    worse = sum(1 for one in known if one["significant"] and one["difference"] < 0)
    said = f"overall {points(numbers['overall'])}"
    if "extremes" in numbers:
        worst = numbers["extremes"]["worst"]
        said += f", worst class {points(worst | {'difference': worst['value']})}"
    return f"{said}; {better} classes better and {worse} worse beyond chance, of {len(known)}"


def points(one: Mapping[str, Any]) -> str:
    """A difference in points with its interval."""
    ends = [one["low"], one["high"]]
    interval = "" if None in ends else f" [{100 * ends[0]:+.1f}, {100 * ends[1]:+.1f}]"
    return f"{100 * one['difference']:+.1f}{interval}"


def change_cell(one: Mapping[str, Any]) -> tuple[str, bool]:
    """A difference in a table, marked where chance does not explain it and it is a loss."""
    text, _, interval = points(one).partition(" ")
    shown = f"{text} <small>{interval}</small>" + (" ◂" if one["significant"] else "")
    return shown, bool(one["significant"] and one["difference"] < 0)
