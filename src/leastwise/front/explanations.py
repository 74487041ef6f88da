"""`lw.explain`: what weak classes have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leastwise.front.words import in_python_words

if TYPE_CHECKING:
    from leastwise.report.explain.facts import ExplainFacts
    from leastwise.report.results import AuditedModel


@in_python_words
def explain(
    *results: Any, condition: str = "", names: Sequence[str] = (), model: Any = None, data: Any = None
) -> "Explanations":
    """Say what weak classes have in common: confusion, entropy, images, and with `model=` and `data=` their features.

    Results are audits, or their folders; several models of the same classes are compared, too. `condition` is the one
    where the worst class is lowest unless given. The model and its data, if given, are those of the first result.

    >>> import leastwise as lw
    >>> data = lw.data("fashion-mini").take(5)
    >>> found = lw.audit(lw.build("small", data.shape, data.k), data, "clean", force=True, progress=False)
    >>> lw.explain(found).content["small"]["condition"]
    'clean'
    """
    from leastwise.front.reports import take_models

    if not results:
        raise ValueError("an explanation needs at least one audit, but saw none: give what lw.audit returned")
    made: dict[str, ExplainFacts] = {}
    for number, one in enumerate(take_models(results, names)):
        wanted = condition or next((str(facts["condition"]) for facts in made.values()), "")
        looked = {"model": model, "data": data} if number == 0 else {"model": None, "data": None}
        made[one.name] = explain_one(one, wanted if wanted in one.evidence.conditions else "", **looked)
    return Explanations(made)


def explain_one(one: "AuditedModel", condition: str, *, model: Any, data: Any) -> "ExplainFacts":
    """The facts of one audit: what is new, and what an earlier explanation found that was not looked for now."""
    from leastwise.report.explain.facts import collect_facts, keep_earlier_facts

    moments, points = None, None
    if model is not None:
        from leastwise.front.datasets import data as read_data
        from leastwise.front.models import model as read_model
        from leastwise.insight.features import look_at_features

        if data is None:
            raise ValueError("the features of a model are looked at on images: give data= too")
        images = read_data(data)
        if images.digest() != one.evidence.data:
            raise ValueError("data= holds other images than the audit saw: give the same")
        moments, points = look_at_features(read_model(model, images), images)
    found = collect_facts(one.evidence, condition, moments=moments, plane=points)
    if found is None:
        raise ValueError(f"{one.name} was not looked at without attack: audit it with clean among the attacks")
    return keep_earlier_facts(found, one.explained)


@dataclass(frozen=True, repr=False)
class Explanations:
    """Facts on each model by its name; `content` is what `explain.json` holds."""

    content: "Mapping[str, ExplainFacts]"

    def sentences(self) -> list[str]:
        """What a person reads of the models, a sentence each."""
        from leastwise.report.explain.sentences import explain_sentences

        many = len(self.content) > 1
        return [
            f"{name}: {said}" if many else said
            for name, made in self.content.items()
            for said in explain_sentences(made)
        ]

    def __repr__(self) -> str:
        said = self.sentences()
        return "\n".join(said if len(said) <= 10 else [*said[:9], f"… {len(said) - 9} more; .sentences() has all"])

    def rows(self) -> list[dict[str, Any]]:
        """A row per model and class: images, accuracies, entropy, variance of confidence."""
        return [
            {"model": name, "class": cls, "images": made["images"][c]}
            | {f"accuracy {what}": values[c] for what, values in made["accuracy"].items()}
            | {f"entropy {what}": values[c] for what, values in made["entropy"].items()}
            for name, made in self.content.items()
            for c, cls in enumerate(made["classes"])
        ]

    def to_pandas(self) -> Any:
        """A row per model and class; fractions."""
        from leastwise.report.notebook import make_frame

        return make_frame(self.rows())

    def save(self, file: str | Path) -> Path:
        """Write the page that `leastwise explain` writes; the path of the file."""
        from leastwise.core.files import write_atomic
        from leastwise.report.explain.page import explain_page

        if Path(file).suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"an explanation is a page, but saw {file}: give it the ending .html")
        write_atomic(Path(file), explain_page(self.content).encode())
        return Path(file)

    def _repr_html_(self) -> str:
        from leastwise.core.text import escape_html

        return f"<ul>{''.join(f'<li>{escape_html(said)}</li>' for said in self.sentences())}</ul>"
