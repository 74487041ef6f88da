"""`lw.data`: a data set from what people have."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leastwise.front.words import in_python_words

if TYPE_CHECKING:
    from leastwise.core.progress import ProgressCallback
    from leastwise.data.dataset import Dataset
    from leastwise.data.objects.loaders import Reading

FRAMES = ("pandas", "polars", "pyarrow", "modin", "cudf")


@in_python_words
def data(
    given: Any,
    *,
    split: str = "test",
    names: Sequence[str] | None = None,
    ids: Sequence[int] | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    size: int | None = None,
    root: "str | Path | None" = None,
    columns: tuple[str, str] | None = None,
    random: bool = False,
    watch: "ProgressCallback | None" = None,
) -> "Dataset":
    """A labelled set of images with stable ids, from what people have.

    `given` is a known name, a folder, an `.npz` or `.npy`; images and labels as a pair of arrays or tensors; a torch
    data set or loader, or anything else that gives images with labels; a data set of Hugging Face; a frame with a
    column of paths and one of labels (`columns=` names them, `root=` is where relative paths begin).

    Pixels are uint8 or floats in [0, 1]; `mean=` and `std=` undo a normalisation. Classes are called as the object
    says, or as `names=` does; images are known by `ids=`, or by their places in the object. `size=` cuts a square out
    of image files and Pillow images. `split=` is for what has several. Objects are read once, in the order of the data
    set; images that would be others the next time are refused unless `random=True`. `.notes` of the result says what
    was converted or is unusual.

    >>> import numpy as np, leastwise as lw
    >>> images = np.zeros((6, 3, 8, 8), np.uint8)
    >>> found = lw.data((images, ["cat", "dog", "cat", "eel", "dog", "cat"]))
    >>> found.names, found.counts.tolist()
    (('cat', 'dog', 'eel'), [3, 2, 1])
    >>> lw.data("fashion-mini").take(20)
    Dataset of 200 images of 1x28x28, 10 classes with 20 each: T-shirt/top, Trouser, Pullover, …
    """
    from leastwise.core.progress import ignore_progress
    from leastwise.data.dataset import Dataset
    from leastwise.data.loading import load
    from leastwise.data.objects.loaders import Reading
    from leastwise.data.objects.pixels import PixelReader

    heard = watch or ignore_progress
    if isinstance(given, Dataset):
        refuse_settings(given, mean=mean, std=std, size=size, names=names, ids=ids)
        return given
    if isinstance(given, str | Path):
        refuse_settings(given, mean=mean, std=std, names=names, ids=ids)
        return load(str(given) if size is None else f"{given}@{size}", split, heard)
    how = Reading(PixelReader(tuple(mean), tuple(std), size), names, ids, random, heard)
    return find_reader(given, split, Path(root) if root is not None else None, columns=columns)(how)


def find_reader(
    given: Any, split: str, root: Path | None, *, columns: tuple[str, str] | None
) -> "Callable[[Reading], Dataset]":
    """How an object is read."""
    from torch.utils.data import DataLoader, IterableDataset

    from leastwise.data.objects.arrays import is_pair, read_arrays
    from leastwise.data.objects.loaders import read_items, read_loader, read_stream
    from leastwise.data.objects.tables import read_frame, read_hub

    library = type(given).__module__.partition(".")[0]
    if library == "datasets":
        return lambda how: read_hub(given, split, how)
    if library in FRAMES:
        return lambda how: read_frame(given, how, root=root, columns=columns)
    if isinstance(given, DataLoader):
        return lambda how: read_loader(given, how)
    if isinstance(given, Mapping):
        return lambda how: read_arrays(find_part(given, "images", "x"), find_part(given, "labels", "y"), how)
    if is_pair(given):
        return lambda how: read_arrays(given[0], given[1], how)
    if isinstance(given, IterableDataset | list | tuple):  # a list may hold images or batches
        return lambda how: read_stream(given, how)
    if hasattr(given, "__getitem__") and hasattr(given, "__len__"):
        return lambda how: read_items(given, how)
    if isinstance(given, Iterable):
        return lambda how: read_stream(given, how)
    raise ValueError(
        f"cannot tell images and labels from {type(given).__name__}: give a name, a path, (images, labels), a torch "
        "data set or loader, a Hugging Face data set, or a frame of paths and labels"
    )


def find_part(given: Mapping[str, Any], *keys: str) -> Any:
    """The images or the labels of a dictionary of arrays."""
    for key in keys:
        if key in given:
            return given[key]
    raise ValueError(f"a dictionary needs {keys[0]!r}, but has {', '.join(map(str, given))}: rename the key")


def refuse_settings(given: Any, **settings: Any) -> None:
    """Refuse what would be ignored."""
    extra = [
        name
        for name, value in settings.items()
        if value is not None and len(value if isinstance(value, Sequence) else [0])
    ]
    if extra:
        kind = "a data set that is whole" if not isinstance(given, str | Path) else "a file or a known data set"
        raise ValueError(f"{extra[0]} means nothing for {kind}, whose pixels and names are known: leave it out")
