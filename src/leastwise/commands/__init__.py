"""The verbs: each is a value made of its settings, with `run()`.

torch is imported inside `run`, so that asking a verb for help does not wait for it.
"""

from typing import Any

from leastwise.commands.audit import Audit
from leastwise.commands.calibrate import Calibrate
from leastwise.commands.compare import Compare
from leastwise.commands.data import Data
from leastwise.commands.demo import Demo
from leastwise.commands.explain import Explain
from leastwise.commands.gate import Gate
from leastwise.commands.listing import List
from leastwise.commands.power import Power
from leastwise.commands.race import Race
from leastwise.commands.report import Report
from leastwise.commands.reproduce import Reproduce
from leastwise.commands.study import Study
from leastwise.commands.train import Train

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
