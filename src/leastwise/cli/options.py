"""What several verbs need: the screen, numbers as people write them, threats, devices, data."""

import math
import os
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from leastwise.core.parsing import parse_number
from leastwise.core.text import first_line

if TYPE_CHECKING:
    from leastwise.attacks.naming import Threat
    from leastwise.data.dataset import Dataset

# Spelled out again here, because their homes import torch.
Keep = Literal["fooled", "last"]
Norm = Literal["linf", "l2", "l1"]


def threat_of(norm: str, eps: str, step: str, keep: Keep = "fooled") -> "Threat":
    """The radius, step and counting rule that all attacks of a command share."""
    from leastwise.attacks.naming import Threat
    from leastwise.attacks.threats import L1, L2, Linf

    radius = parse_number(eps, "eps")
    if norm == "linf" and 1 < radius < math.inf:
        raise ValueError(f"eps is in pixel units and images span [0, 1], but saw {radius:g}: write {radius:g}/255")
    ball = Linf(radius) if norm == "linf" else L2(radius) if norm == "l2" else L1(radius)
    return Threat(ball, parse_number(step, "step") if step else radius / 4, keep)


def chosen_device(device: str, threads: int) -> str:
    """Set the threads and name the device: an accelerator if there is one and nothing else was asked for."""
    import torch

    if threads < 0:
        raise ValueError(f"threads must be 1 or more, but saw {threads}")
    most = 4 * (os.cpu_count() or 1)  # beyond, threads only wait; with very many, the process dies
    if threads > most:
        raise ValueError(f"threads may be {most} at most on this machine, but saw {threads}")
    if threads:
        torch.set_num_threads(threads)
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"the device {device!r} cannot be used ({first_line(error)}): try cpu") from None
    return device


def use_data_dir(folder: str) -> None:
    """`--data-dir DIR` is short for LEASTWISE_DATA=DIR."""
    if folder:
        os.environ["LEASTWISE_DATA"] = folder


def sized(data: str, size: int) -> str:
    """`--size 64` is short for DATA@64."""
    if size < 0:
        raise ValueError(f"the size must be 1 pixel or more, but saw {size}")
    return f"{data}@{size}" if size else data


def loaded(console: Console, spec: str, split: str = "test") -> "Dataset":
    """The data set, with progress while image files are examined for the first time."""
    from leastwise.data.loading import load
    from leastwise.report.terminal.progress import steps

    with steps(console, "examining images") as watch:
        return load(spec, split, watch)
