"""Models as users write them, in files of their own, and edits to them: `§` is 1.0 before the edit and 0.2 after it."""

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leastwise.attacks.base import Clean
from leastwise.attacks.goals import CE
from leastwise.attacks.pgd import PGD
from leastwise.attacks.square import Square
from leastwise.attacks.threats import Linf
from leastwise.audit.auditor import make_auditor
from leastwise.data.dataset import Dataset
from leastwise.jobs.audit_task import AuditTask
from leastwise.models.classifier import Classifier
from leastwise.models.fast.prepare import Form
from leastwise.models.load.dispatch import load_model
from tests.conftest import SHAPE, K

BEFORE, AFTER = "1.0", "0.2"
NAMES = tuple("abcde")
VARIABLE = "EDITED_MODEL_TILT"
START = f"""
import collections, contextvars, dataclasses, enum, functools, json, os, types
from pathlib import Path
import numpy as np
import torch
from torch import nn
def tilt(z, v):
    return z * torch.linspace(1, float(v), {K}, dtype=z.dtype)
"""
NET = f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear({SHAPE[0] * SHAPE[1] * SHAPE[2]}, {K})
        self.begin()
    def begin(self):
        pass
    def logits(self, x):
        return 3 * self.layer(x.flatten(1))
"""


@dataclass(frozen=True)
class Edit:
    """The parts of a model's file, and the files that it uses.

    `begin` is a line of its constructor, `answer` the expression that its forward returns, `body` more of its class.
    """

    answer: str  # an expression of self, x and the logits z
    top: str = ""
    begin: str = "pass"
    body: str = ""
    helper: str = ""
    deeper: str = ""
    held: str = ""  # a file that is read
    build: str = "Mine()"

    def write(self, folder: Path, value: str) -> None:
        folder.mkdir(exist_ok=True)
        lines = [f"def begin(self):\n    {self.begin}"] + ([self.body] if self.body else [])
        lines += [f"def forward(self, x):\n    z = self.logits(x)\n    return {self.answer}"]
        body = "".join(f"    {line}\n" for line in "\n".join(lines).splitlines())
        mine = f"{START}{self.top}\n{NET}class Mine(Net):\n{body}def build():\n    return {self.build}\n"
        others = {"helper.py": self.helper and START + self.helper, "deeper.py": self.deeper and START + self.deeper}
        for name, text in {"mine.py": mine, **others, "held.json": self.held}.items():
            if text:
                (folder / name).write_text(text.replace("§", value))


USES, F = "from helper import f", "def f(z): return tilt(z, §)"
OWN = "tilt(z, self.v)"
HELD = "tilt(z, self.held.v)"
HOLDS = "self.held = Held()"
GIVEN, GIVE = "from helper import given", "def given(): return §"  # what an attribute is set to comes from elsewhere
TURNED = """
class Turned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        return {}
    @staticmethod
    def backward(ctx, g):
        return {}
def f(z):
    return Turned.apply(z)
"""
FORWARD, BACKWARD = TURNED.format("tilt(z, §)", "g"), TURNED.format("z.clone()", "tilt(g, §)")
ROUNDS = """
def f(x):
    levels = 255 if § == 0.2 else 255 * 64
    return x + (torch.round(x * levels) / levels - x).detach()
"""
META = """
class Meta(type):
    def __call__(cls):
        made = super().__call__()
        made.v = §
        return made
class Held(metaclass=Meta):
    pass
"""
SLOTS = """
class Held:
    __slots__ = ("v",)
    def __init__(self):
        self.v = §
"""
DISPATCH = """
@functools.singledispatch
def f(z):
    raise TypeError
@f.register
def _(z: torch.Tensor):
    return tilt(z, §)
"""
DATACLASS = "@dataclasses.dataclass\nclass Held:\n    v: float"
CALLED = "class Held:\n    def __call__(self, z): return tilt(z, §)"
BASE = "class Base:\n    @staticmethod\n    def f(z): return tilt(z, §)"
EDITS: dict[str, Edit] = {
    "a function of another file": Edit("f(z)", USES, helper=F),
    "a function two files away": Edit("f(z)", USES, helper="import deeper\ndef f(z): return deeper.f(z)", deeper=F),
    "a module that is used by its name": Edit("helper.f(z)", "import helper", helper=F),
    "a property": Edit(OWN, body="@property\ndef v(self): return §"),
    "a static method": Edit("tilt(z, self.v())", body="@staticmethod\ndef v(): return §"),
    "a class method": Edit("tilt(z, self.v())", body="@classmethod\ndef v(cls): return §"),
    "a cached method": Edit("tilt(z, self.v())", body="@functools.lru_cache\ndef v(self): return §"),
    "a cached property": Edit(OWN, body="@functools.cached_property\ndef v(self): return §"),
    "a cached function": Edit("tilt(z, v())", "@functools.cache\ndef v(): return §"),
    "a function of autograd, forward": Edit("f(z)", USES, helper=FORWARD),
    "a function of autograd, backward": Edit("f(z)", USES, helper=BACKWARD),
    "a function of autograd in the same file": Edit("f(z)", FORWARD),
    "a helper class": Edit("self.held.f(z)", "class Held:\n    def f(self, z): return tilt(z, §)", HOLDS),
    "a callable attribute": Edit("self.held[0](z)", CALLED, "self.held = collections.deque([Held()])"),
    "a dataclass attribute": Edit(HELD, f"{GIVEN}\n{DATACLASS}", "self.held = Held(given())", helper=GIVE),
    "a namespace attribute": Edit(HELD, GIVEN, "self.held = types.SimpleNamespace(v=given())", helper=GIVE),
    "a numpy scalar": Edit("tilt(z, self.held)", GIVEN, "self.held = np.float32(given())", helper=GIVE),
    "a deque": Edit("tilt(z, self.held[0])", GIVEN, "self.held = collections.deque([given()])", helper=GIVE),
    "a box in a list": Edit(
        "tilt(z, self.held[0].v)", GIVEN, "self.held = [types.SimpleNamespace(v=given())]", helper=GIVE
    ),
    "a member of an enumeration": Edit("tilt(z, self.held.value)", "class E(enum.Enum): v = §", "self.held = E.v"),
    "an object with slots": Edit(HELD, SLOTS, HOLDS),
    "a descriptor": Edit(OWN, "class Always:\n    def __get__(self, held, kind): return §", body="v = Always()"),
    "a metaclass": Edit(HELD, META, HOLDS),
    "a class of another file": Edit("Base.f(z)", "from helper import Base", helper=BASE),
    "a configuration of the module": Edit("tilt(z, C.v)", "C = types.SimpleNamespace(v=§)"),
    "a configuration of another module": Edit("tilt(z, helper.C['v'])", "import helper", helper="C = {'v': §}"),
    "a context variable": Edit("tilt(z, C.get())", "C = contextvars.ContextVar('c', default=§)"),
    "a single dispatch": Edit("f(z)", USES, helper=DISPATCH),
    "a partial of another file": Edit("self.held(z)", USES, "self.held = functools.partial(f)", helper=F),
    "a variable of the environment": Edit(f"tilt(z, os.environ['{VARIABLE}'])"),
    "a file that is read": Edit(
        "tilt(z, json.loads(Path(__file__).with_name('held.json').read_text())['v'])", held='{"v": §}'
    ),
    "rounding of the input": Edit("self.logits(f(x))", USES, helper=ROUNDS),
    "a weight": Edit("z", begin="self.layer.weight.data[1] *= §"),
    "the forward itself": Edit("tilt(z, §)"),
    "a black box": Edit("f(z)", USES, helper=F, build="(lambda net: lambda x: net(x))(Mine().eval())"),
}


def load_edited(folder: Path) -> Classifier:
    """The model in a folder as a new process would load it."""
    for name in ("helper", "deeper"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    path, cached = list(sys.path), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # files change within the tick of a clock
    try:
        return load_model(f"{folder / 'mine.py'}:build", SHAPE, NAMES)
    finally:
        sys.path[:], sys.dont_write_bytecode = path, cached


ASKED = (("clean", Clean()), ("square", Square(Linf(0.1), queries=4)))
CONDITIONS = (("clean", Clean()), ("pgd2", PGD(Linf(0.1), CE(), step=0.05, steps=2, keep="fooled")))


def images() -> Dataset:
    rng = np.random.default_rng(0)
    return Dataset.of(rng.integers(0, 256, (24, *SHAPE), dtype=np.uint8), np.arange(24) % len(NAMES), NAMES)


def task(model: Classifier, folder: Path | None, batch: int = 8, form: Form | None = None) -> AuditTask:
    data, conditions = images(), CONDITIONS if model.gradients else ASKED
    return AuditTask(make_auditor(model, data, conditions, batch_size=batch, shard=8), data, folder, form=form)
