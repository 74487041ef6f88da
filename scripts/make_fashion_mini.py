"""Make the embedded data set from the four official Fashion-MNIST files.

    python scripts/make_fashion_mini.py FOLDER [OUTPUT]

FOLDER holds train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and
t10k-labels-idx1-ubyte.gz (for example from the Debian package dataset-fashion-mnist). The first 600
training and 200 test images of each class are kept, in official order; an example's id is its row in
the official file. The output is the same bytes every time.
"""

import gzip
import sys
from pathlib import Path

import numpy as np

NAMES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
PARTS = (("train", "train", 600), ("test", "t10k", 200))  # our split, official file prefix, images per class
OUTPUT = Path(__file__).parent.parent / "src" / "leastwise" / "data" / "fashion_mini.npz"


def read_idx(path: Path) -> np.ndarray:
    """An idx file: two zero bytes, type 8 (uint8), the number of axes, big-endian sizes, then the data."""
    content = gzip.decompress(path.read_bytes())
    assert content[:3] == b"\0\0\x08", f"{path} is not an idx file of bytes"
    axes = content[3]
    shape = np.frombuffer(content, ">u4", axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def first_of_each_class(labels: np.ndarray, n: int) -> np.ndarray:
    """The rows of the first n images of every class, in official order."""
    return np.sort(np.concatenate([np.flatnonzero(labels == c)[:n] for c in range(len(NAMES))]))


def main(folder: Path, output: Path = OUTPUT) -> None:
    arrays = {"names": np.array(NAMES)}
    for split, prefix, n in PARTS:
        images = read_idx(folder / f"{prefix}-images-idx3-ubyte.gz")
        labels = read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz")
        rows = first_of_each_class(labels, n)
        arrays |= {f"{split}_images": images[rows], f"{split}_labels": labels[rows], f"{split}_ids": rows.astype("u4")}
    np.savez_compressed(output, allow_pickle=False, **arrays)
    print(f"{output}: {output.stat().st_size / 2**20:.2f} MiB")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
