"""What the process that commands are forked from imports; nothing here may start a thread."""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import altair  # noqa: F401
import torch
import tyro  # noqa: F401
import vl_convert  # noqa: F401

import leastwise.cli.demo_story  # noqa: F401
from leastwise.cli.main import load_verb
from leastwise.cli.verbs import VERBS

for verb in VERBS.values():
    load_verb(verb)

torch.set_num_threads(1)
