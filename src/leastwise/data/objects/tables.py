"""Tables: frames of paths and labels, and data sets of Hugging Face with an image column."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leastwise.core.text import did_you_mean
from leastwise.data.dataset import Dataset
from leastwise.data.objects.items import LABEL_KEYS, find_key, number_labels
from leastwise.data.objects.loaders import Reading, read_items, read_stream
from leastwise.data.readers.image_folder import make_dataset

PATH_COLUMNS = ("path", "file", "filename", "filepath", "file_path", "image", "image_path", "img_path")
LABEL_COLUMNS = (*LABEL_KEYS, "category", "class_name")


def read_frame(given: Any, how: Reading, *, root: Path | None, columns: tuple[str, str] | None) -> Dataset:
    """A frame (pandas, polars, pyarrow) with a column of paths and one of labels; ids are places of its rows.

    Images are read when they are needed, as those of a folder are. Relative paths are looked for below `root`.
    """
    import narwhals.stable.v2 as nw

    frame = nw.from_native(given, eager_only=True)
    path, label = columns or (
        find_key(frame.columns, PATH_COLUMNS, "column of paths"),
        find_key(frame.columns, LABEL_COLUMNS, "column of labels"),
    )
    for name in (path, label):
        if name not in frame.columns:
            raise ValueError(f"the frame has no column {name!r}: {did_you_mean(name, frame.columns)}")
    names = how.names if how.names is not None else list_categories(frame[label])
    values, paths = frame[label].to_list(), frame[path].to_list()
    if any(value is None or value != value for value in (*values, *paths)):
        raise ValueError("every row of the frame needs a path and a label, but some are missing: drop these rows")
    labels, known = number_labels([value if isinstance(value, str) else int(value) for value in values], names)
    place = Path() if root is None else root
    files = [((place / str(file)).absolute(), int(number)) for file, number in zip(paths, labels, strict=True)]
    missing = [file for file, _ in files if not file.is_file()]
    if missing:
        raise ValueError(
            f"{len(missing):,} of the {len(files):,} files of the frame are not there, such as {missing[0]}: give the "
            "folder that paths begin in as root="
        )
    known = known if known is not None else [str(c) for c in range(int(labels.max(initial=0)) + 1)]
    common = Path(os.path.commonpath([file.parent for file, _ in files])) if files else place
    return make_dataset(common, files, known, size=how.pixels.size, watch=how.watch)


def list_categories(column: Any) -> list[str] | None:
    """The categories of a column that has any, in their order, unused ones too."""
    import narwhals.stable.v2 as nw

    if column.dtype not in (nw.Categorical, nw.Enum):
        return None
    return [str(name) for name in column.cat.get_categories().to_list()]


def read_hub(given: Any, split: str, how: Reading) -> Dataset:
    """A data set of Hugging Face: its only column of images and its only one of class labels, with their names."""
    if isinstance(given, dict):
        if split not in given:
            raise ValueError(f"the data set has no split {split!r}: choose {' or '.join(map(str, given))}")
        given = given[split]
    features = given.features
    streamed = not hasattr(given, "num_rows")
    transformed = getattr(given, "format", {}).get("type") == "custom" if not streamed else False
    if features is None or transformed:  # what comes out of a transform has columns of its own
        return (read_stream if streamed else read_items)(given, how)
    image = only_feature(features, "Image", "column of images")
    label = only_feature(features, "ClassLabel", "column of class labels")
    names = how.names if how.names is not None else list(features[label].names)
    named = replace(how, names=names)
    if streamed:
        return read_stream(((row[image], row[label]) for row in given), named)
    plain = given.with_format(None)
    values = plain.select_columns([label])[:][label]  # without it, all images would be decoded
    unlabelled = sum(value is None or value < 0 for value in values)
    if unlabelled:
        raise ValueError(
            f"{unlabelled} of the {len(plain)} images have no label: filter them out, or take another split"
        )
    return read_items(TwoColumns(plain, image, label), named)


def only_feature(features: Any, kind: str, what: str) -> str:
    """The name of the only column of a type."""
    found = [name for name, feature in features.items() if type(feature).__name__ == kind]
    if len(found) != 1:
        raise ValueError(
            f"the data set needs one {what} ({kind}), but has {', '.join(found) or 'none'} among "
            f"{', '.join(features)}: keep one with select_columns, or cast_column to {kind}"
        )
    return str(found[0])


class TwoColumns(Sequence[tuple[Any, Any]]):
    """Two columns of a table as a data set of pairs."""

    def __init__(self, table: Any, image: str, label: str) -> None:
        self.table, self.image, self.label = table, image, label

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        row = self.table[int(index)]
        return row[self.image], row[self.label]
