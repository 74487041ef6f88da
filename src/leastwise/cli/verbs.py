"""The verbs of the command line: what each is for, and where its settings and its `run()` are.

A verb is imported when it is asked for, and torch inside `run`, so that help and small verbs are immediate.
"""

from typing import NamedTuple


class Verb(NamedTuple):
    """A verb: the module of `leastwise.cli` it lives in, its type there, and its help in one line."""

    module: str
    type_name: str
    about: str


VERBS = {
    "demo": Verb(
        "demo", "Demo", "train and audit three networks on the embedded data: the whole story in three minutes"
    ),
    "audit": Verb("audit", "Audit", "attack a classifier and report every class, with intervals"),
    "report": Verb("report", "Report", "make one self-contained HTML page, or a table, of audits"),
    "compare": Verb("compare", "Compare", "compare models class by class on the same images"),
    "explain": Verb(
        "explain", "Explain", "what weak classes have in common: confusion, features, images, other models"
    ),
    "race": Verb("race", "Race", "find the worst class with as few attacks as possible"),
    "gate": Verb("gate", "Gate", "pass, fail or inconclusive: does a result meet its demands?"),
    "power": Verb("power", "Power", "how many images per class show a difference"),
    "train": Verb("train", "Train", "train a network and write a checkpoint"),
    "lift": Verb("lift", "Lift", "make the worst class of a trained network better, and prove it"),
    "reproduce": Verb(
        "reproduce", "Reproduce", "make the tables and figures of a paper anew, beside the printed numbers"
    ),
    "study": Verb("study", "Study", "train and audit a grid of methods, radii, seeds and models, and rank them"),
    "calibrate": Verb("calibrate", "Calibrate", "lift the worst class of a trained network with an offset per logit"),
    "data": Verb("data", "Data", "list, fetch, verify and look at data sets"),
    "list": Verb("list", "List", "the attacks, data sets, methods and models that have names"),
}
