"""Much of everything: large images, many classes. Memory is measured in a process of its own, beside the model's."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

GIB = 1 << 30
# A network that pools at once: what is measured is what the audit needs beside it.
POOLED = """
import torch
from torch import nn

class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(x.mean(dim=(2, 3)))

def build():
    return Pooled()
"""
MANY = """
import torch
from torch import nn

def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10_000))
"""
# What importing and loading alone take is not the audit's doing.
MEASURED = """
import resource, sys, time
from leastwise.cli.main import main
import leastwise.cli.audit, leastwise.jobs.audit_task, leastwise.report.summary, leastwise.attacks.registry
before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
code = main(sys.argv[1:])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print("MEASURED", code, (after - before) * 1024, time.monotonic() - begun)
"""


def audit(folder: Path, *arguments: str) -> tuple[float, float, str]:
    """Bytes and seconds of an audit beside the imports, and what it said."""
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", MEASURED, "audit", *arguments]
    made = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=3600)
    found = re.search(r"MEASURED (\d+) (\d+) ([\d.]+)", made.stdout)
    assert found is not None and found[1] == "0", made.stderr[-2000:]
    return float(found[2]), float(found[3]), made.stdout


def photographs(folder: Path, count: int, size: tuple[int, int], *, flat: bool) -> None:
    rng = np.random.default_rng(0)
    for number in range(count):
        place = folder / "set" / f"class{number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        if flat:
            Image.new("RGB", size, (number % 256, 100, 50)).save(place / f"{number}.png")
        else:
            small = rng.integers(0, 256, (15, 20, 3), dtype=np.uint8)
            Image.fromarray(small).resize(size).save(place / f"{number}.jpg", quality=60)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "size", "flat"), [(100, (2000, 1500), False), (120, (4000, 4000), True)])
def test_large_images_are_audited_in_two_gigabytes(
    count: int, size: tuple[int, int], flat: bool, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(POOLED)
    photographs(tmp_path, count, size, flat=flat)
    used, seconds, said = audit(
        tmp_path,
        "net.py:build",
        "--data",
        "./set",
        "--attack",
        "clean,fgsm",
        "--force",
        "--out",
        "o",
        "--form",
        "given",
    )
    print(f"{count} images of {size}: {used / GIB:.2f} GiB, {seconds:.0f} s")
    assert f"{count} images of 3x{size[1]}x{size[0]}" in said and used < 2 * GIB


def ten_thousand(folder: Path) -> None:
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (1000, 1, 8, 8), dtype=np.uint8)
    names = np.array([f"class {c}" for c in range(10_000)])
    np.savez(folder / "set.npz", images=images, labels=rng.integers(0, 10_000, 1000), names=names)
    (folder / "net.py").write_text(MANY)


@pytest.mark.slow
def test_ten_thousand_classes_take_ten_megabytes_on_disk_and_one_gigabyte_for_a_minute(tmp_path: Path) -> None:
    ten_thousand(tmp_path)
    used, seconds, _ = audit(
        tmp_path, "net.py:build", "--data", "./set.npz", "--attack", "clean,fgsm", "--force", "--out", "o"
    )
    size = (tmp_path / "o" / "evidence.safetensors").stat().st_size
    print(f"10,000 classes: {used / GIB:.2f} GiB, {seconds:.0f} s, {size / 1e6:.1f} MB")
    assert used < GIB and seconds < 60 and size < 10e6
    made = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert len(made["classes"]) == 10_000 and sum(made["conditions"]["clean"]["n"]) == 1000


def test_this_test_measures_memory_at_all() -> None:
    code = "import resource, numpy as np; x = np.ones(1 << 27, np.uint8); "
    code += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(made.stdout) > 1 << 27 and resource.RUSAGE_SELF == 0
