"""Reader of `.npz` archives with `images`, `labels` and, if wanted, `names` and `ids`.

Pickled content is refused: `allow_pickle=False` means an object array raises instead of running code.
"""

import zipfile
from pathlib import Path

import numpy as np

from leastwise.data.dataset import Dataset


def read_npz(path: Path, prefix: str = "") -> Dataset:
    """The data set in `path`; `prefix` selects among several sets in one archive."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            held = archive.files
            wanted = [name for name in ("images", "labels", "names", "ids") if prefix + name in held]
            arrays = {name: archive[prefix + name] for name in wanted}
            if "names" not in arrays and "names" in held:
                arrays["names"] = archive["names"]
    except (ValueError, OSError, EOFError, TypeError, zipfile.BadZipFile) as error:  # TypeError: a bare .npy
        raise ValueError(f"{path} is not a readable .npz of plain arrays ({error}): save it with numpy.savez") from None
    if not {"images", "labels"} <= set(arrays):
        raise ValueError(
            f"{path} needs the arrays {prefix}images and {prefix}labels, but holds {', '.join(held) or 'nothing'}: "
            "save it with numpy.savez(path, images=…, labels=…, names=…)"
        )
    names = [str(n) for n in arrays["names"].tolist()] if "names" in arrays else None
    return Dataset.of(channels_first(arrays["images"]), arrays["labels"], names, arrays.get("ids"))


def channels_first(images: np.ndarray) -> np.ndarray:
    """`[n h w]` and `[n h w c]` become `[n c h w]`; other shapes are left for the data set to judge."""
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[1] not in (1, 3) and images.shape[3] in (1, 3):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return images
