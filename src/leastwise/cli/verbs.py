"""The verbs: each is a value made of its settings, with `run()`.

torch is imported inside `run`, so that asking a verb for help does not wait for it.
"""

from typing import Any

from leastwise.cli.audit import Audit
from leastwise.cli.calibrate import Calibrate
from leastwise.cli.compare import Compare
from leastwise.cli.data import Data
from leastwise.cli.demo import Demo
from leastwise.cli.explain import Explain
from leastwise.cli.gate import Gate
from leastwise.cli.list import List
from leastwise.cli.power import Power
from leastwise.cli.race import Race
from leastwise.cli.report import Report
from leastwise.cli.reproduce import Reproduce
from leastwise.cli.study import Study
from leastwise.cli.train import Train

COMMANDS: dict[str, Any] = {
    "demo": Demo,
    "audit": Audit,
    "report": Report,
    "compare": Compare,
    "explain": Explain,
    "race": Race,
    "gate": Gate,
    "power": Power,
    "train": Train,
    "reproduce": Reproduce,
    "study": Study,
    "calibrate": Calibrate,
    "data": Data,
    "list": List,
}
