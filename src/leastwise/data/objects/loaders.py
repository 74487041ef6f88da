"""torch data sets, loaders and streams -> a data set whose images were each read once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler, Subset
from torch.utils.data.dataloader import default_collate, default_convert

from leastwise.core.progress import ProgressCallback, ignore_progress
from leastwise.data.dataset import Dataset, ImageRows
from leastwise.data.objects.items import Apart, ItemReader, find_names, number_labels
from leastwise.data.objects.pixels import PixelReader
from leastwise.data.objects.spool import Spool

AT_ONCE = 64  # items that are read between two words on progress
TWICE = 64  # images that are read a second time, to see whether they are the same
RANDOM = "give the data set without random transforms, or say random=True to keep these images as they came"


@dataclass(frozen=True)
class Reading:
    """How images of an object are read."""

    pixels: PixelReader
    names: Sequence[str] | None = None
    ids: Sequence[int] | None = None  # of the images, in the order of the object
    random: bool = False  # whether images that differ every time are kept as they came
    watch: ProgressCallback = ignore_progress

    def assemble(
        self, images: ImageRows, labels: Sequence[Any], *, names: Sequence[str] | None = None, ids: Any = None
    ) -> Dataset:
        """The data set, once all images are there; `names` and `ids` are what the object itself says."""
        numbers, known = number_labels(labels, names if self.names is None else self.names)
        given = ids if self.ids is None else np.asarray(self.ids)
        if given is not None and len(given) != len(numbers):
            raise ValueError(f"every image needs one id, but saw {len(numbers)} images and {len(given)} ids")
        return Dataset.of(images, numbers, known, ids=given).with_notes(*self.pixels.remarks())


def read_loader(loader: "DataLoader[Any]", how: Reading) -> Dataset:
    """Every image that the loader's data set has for it, in the data set's order, whatever order the loader has.

    Shuffling means nothing to an audit, and images that `drop_last` would leave out belong to the data.
    """
    if isinstance(loader.dataset, IterableDataset):
        notes = ["the loader drops its last images (drop_last=True), which are read all the same"] * loader.drop_last
        found = read_stream(remake(loader, batch_size=loader.batch_size, drop_last=False), how, given=loader)
        return found.with_notes(*notes)
    indices, notes = find_indices(loader)
    own = None if loader.collate_fn in (default_collate, default_convert) else loader.collate_fn
    return read_items(loader.dataset, how, indices=indices, workers=loader, collate=own).with_notes(*notes)


def find_indices(loader: "DataLoader[Any]") -> tuple["np.ndarray", list[str]]:
    """Which items of its data set a loader gives, in the order of the data set, and what to say about it."""
    size = len(loader.dataset)  # type: ignore[arg-type]
    batches, sampler = loader.batch_sampler, loader.sampler
    if type(sampler) in (SequentialSampler, RandomSampler) and type(batches) in (BatchSampler, type(None)):
        if isinstance(sampler, RandomSampler) and (sampler.replacement or sampler.num_samples != size):
            raise ValueError(draws_at_random(type(sampler).__name__))
        whole = loader.batch_size is None or not loader.drop_last or size % loader.batch_size == 0
        return np.arange(size), [] if whole else ["images that the loader drops (drop_last=True) are read all the same"]
    with torch.random.fork_rng(devices=[]):
        if type(batches) in (BatchSampler, type(None)):
            drawn = [int(index) for index in sampler]
        else:
            drawn = [int(index) for batch in batches or () for index in batch]
    if len(set(drawn)) != len(drawn):
        raise ValueError(
            draws_at_random(type(sampler if type(batches) in (BatchSampler, type(None)) else batches).__name__)
        )
    said = f"the loader's sampler gives {len(drawn):,} of the {size:,} images of its data set"
    return np.sort(np.array(drawn, dtype=np.int64)), [said] if len(drawn) < size else []


def draws_at_random(name: str) -> str:
    return (
        f"the loader draws images at random, some several times ({name}), and an audit needs each once: give the data "
        "set itself, loader.dataset"
    )


def remake(loader: "DataLoader[Any]", **changed: Any) -> "DataLoader[Any]":
    """A loader like that one, with its workers and with the changes."""
    settings: dict[str, Any] = {
        "num_workers": loader.num_workers,
        "collate_fn": loader.collate_fn,
        "timeout": loader.timeout,
        "worker_init_fn": loader.worker_init_fn,
        "multiprocessing_context": loader.multiprocessing_context,
    }
    return DataLoader(loader.dataset, **(settings | changed))


def read_items(
    items: Any,
    how: Reading,
    *,
    indices: "np.ndarray | None" = None,
    workers: "DataLoader[Any] | None" = None,
    collate: Any = None,
) -> Dataset:
    """The items of a data set that can be asked for any of them, each once; ids are their places in the innermost."""
    indices = np.arange(len(items)) if indices is None else indices
    if not len(indices):
        raise ValueError("a data set needs at least one image, but this one is empty")
    join, reader, spool = collate or Apart, ItemReader(how.pixels), Spool()
    order: dict[str, Any] = {"sampler": indices.tolist(), "batch_size": AT_ONCE, "collate_fn": join}
    loader = remake(workers, **order) if workers is not None else DataLoader(items, **order)
    with torch.random.fork_rng(devices=[]):  # making an iterator draws a seed from the generator of the user
        for batch in loader:
            for block in reader.read(batch):
                spool.add(block)
            how.watch(spool.count, len(indices))
    if spool.count != len(indices):
        raise ValueError(
            f"the data set has {len(indices)} items, but gave {spool.count} images: give one image an item"
        )
    images = spool.finish()
    note = []
    some = np.unique(np.linspace(0, len(indices) - 1, TWICE).astype(np.int64))
    again = np.concatenate([*ItemReader(how.pixels).read(join([items[int(indices[place])] for place in some]))])
    changed = (again != images[some]).any(axis=(1, 2, 3))
    if changed.any():
        count = f"{int(changed.sum())} of {len(some)} images"
        said = f"{count} were others when they were read again, as augmentation makes them"
        if not how.random:
            raise ValueError(f"{said}: {RANDOM}")
        note = [f"{said}: each is kept as it came first"]
    return how.assemble(images, reader.labels, names=find_names(items), ids=find_ids(items, indices)).with_notes(*note)


def find_ids(items: Any, indices: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Places in the innermost data set: a subset's images keep the ids that they have in the whole."""
    ids = indices
    while isinstance(items, Subset):
        ids, items = np.asarray(items.indices, dtype=np.int64)[ids], items.dataset
    return ids if len(np.unique(ids)) == len(ids) else indices


def read_stream(stream: Iterable[Any], how: Reading, *, given: Any = None) -> Dataset:
    """Everything a stream gives, which is asked for once: items or batches. ids are places in the stream."""
    reader, spool, total = ItemReader(how.pixels), Spool(), find_length(stream)
    with torch.random.fork_rng(devices=[]):
        for item in stream:
            for block in reader.read(item):
                spool.add(block)
            if total:
                how.watch(min(spool.count, total), total)
    return how.assemble(spool.finish(), reader.labels, names=find_names(stream if given is None else given))


def find_length(stream: Any) -> int | None:
    """How many images a stream says that it has; of a loader, those of its data set."""
    held: Any = stream.dataset if isinstance(stream, DataLoader) else stream
    try:
        return len(held)
    except TypeError:
        return None
