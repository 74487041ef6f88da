"""Reading evidence and computing statistics does not wait for torch, scipy.stats or altair (3 s)."""

import subprocess
import sys

import pytest

SLOW = ("torch", "scipy.stats", "altair")
LIGHT = (
    "leastwise.audit.evidence",
    "leastwise.audit.evidence",
    "leastwise.core.files",
    "leastwise.core.text",
    "leastwise.core.recipe",
    "leastwise.core.text",
    "leastwise.statistics.gate.decide",
    "leastwise.statistics.worst_class",
    "leastwise.statistics.accuracy",
    "leastwise.statistics.power",
    "leastwise.statistics.race",
    "leastwise.statistics.seeds",
    "leastwise.statistics.spread",
    "leastwise.statistics.worst_class",
)


@pytest.mark.parametrize("module", LIGHT)
def test_a_light_module_imports_nothing_slow(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {SLOW} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
