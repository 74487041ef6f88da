"""What the process that commands are forked from imports; nothing here may start a thread.

What many commands import when they are at work is here too: an optimiser, tests of hypotheses, charts. Commands of
other processes would each import it again.
"""

import os
import subprocess
import sys

os.environ["OMP_NUM_THREADS"] = "1"

import altair  # noqa: F401
import scipy.optimize
import scipy.stats  # noqa: F401
import torch
import torch._dynamo  # every optimiser imports it, in a second
import tyro  # noqa: F401
import vl_convert  # noqa: F401

import leastwise.cli.demo_story
import leastwise.report.figures
import leastwise.training.registry  # noqa: F401
from leastwise.cli.main import load_verb
from leastwise.cli.verbs import VERBS
from leastwise.report import html

for verb in VERBS.values():
    load_verb(verb)

torch.set_num_threads(1)

# The code that draws charts is put together by threads, in a second: once, and in another process.
BUNDLE = "from leastwise.report.html import drawing_code; print(drawing_code(), end='')"
CODE = subprocess.run([sys.executable, "-c", BUNDLE], capture_output=True, text=True, check=True).stdout
html.drawing_code = lambda: CODE
