"""Reader of SVHN's cropped digits (`train_32x32.mat` and so on). The files call digit 0 by the label 10."""

from pathlib import Path

import numpy as np

from leastwise.data.classes import DIGITS
from leastwise.data.dataset import Dataset
from leastwise.data.matlab import read_mat


def read_svhn(folder: Path, split: str) -> Dataset:
    path = folder / f"{split}_32x32.mat"
    if not path.is_file():
        raise FileNotFoundError(2, "there is no such file", str(path))
    try:
        content = read_mat(path, ("X", "y"))
        pixels, labels = content["X"], content["y"].reshape(-1)
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(f"{path} is not a whole MATLAB file with X and y ({error}): fetch it again") from None
    if pixels.ndim != 4 or pixels.shape[2] != 3 or labels.dtype.kind not in "iu":
        raise ValueError(f"{path} needs X of shape [height, width, 3, n], but has {list(pixels.shape)}")
    return Dataset.of(pixels.transpose(3, 2, 0, 1), labels.astype(np.int64) % 10, DIGITS)
