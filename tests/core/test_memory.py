"""The memory of an audit does not grow with the number of images."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from leastwise.models.load.checkpoint import save_checkpoint
from leastwise.models.zoo.registry import build

# A thread looks every few milliseconds: progress events would miss what happens between them.
WATCHED = """
import sys, threading, time
from leastwise.cli.main import main

def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))

peak = 0
def look():
    global peak
    while True:
        peak = max(peak, anonymous())
        time.sleep(0.005)

threading.Thread(target=look, daemon=True).start()
code = main(sys.argv[1:])
print("peak", peak)
sys.exit(code)
"""


def peak_of_an_audit(folder: Path, n: int) -> int:
    """Peak anonymous memory in kB of a whole audit from the command line, shards and report of the table included."""
    if not Path("/proc/self/status").exists():
        pytest.skip("anonymous memory is read from /proc")
    place = folder / str(n)
    place.mkdir()
    rng = np.random.default_rng(0)
    images = np.lib.format.open_memmap(place / "images.npy", "w+", np.uint8, (n, 3, 32, 32))
    images[:] = rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
    images.flush()
    del images
    np.save(place / "labels.npy", rng.integers(0, 10, n))
    save_checkpoint(place / "model.pt", build("small", (3, 32, 32), 10), (3, 32, 32), names=tuple(map(str, range(10))))
    arguments = ["audit", "model.pt", "--data", "images.npy", "--attack", "clean,fgsm", "--force", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments, "--threads", "1"],
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout.split("peak ")[-1])


@pytest.mark.slow
def test_fifty_thousand_images_take_the_memory_of_ten_thousand(tmp_path: Path) -> None:
    few, many = (peak_of_an_audit(tmp_path, n) for n in (10_000, 50_000))
    print(f"peak anonymous memory: {few / 1024:.0f} MB for 10,000 images, {many / 1024:.0f} MB for 50,000")
    assert many < 1.1 * few, (few, many)
