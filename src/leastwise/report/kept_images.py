"""Which images of a result were right, in a file small enough for a repository: what a paired `drop` needs of its base.

Ten thousand images under two conditions take about 12 kB. It is JSON with packed arrays; nothing in it is code.
"""

import base64
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from leastwise.core.files import write_json
from leastwise.core.text import escape_unprintable
from leastwise.statistics.gate.decide import Result, SingleImages

KIND = "leastwise-kept-images"
MOST_BYTES = 1 << 27  # of one array, unpacked


def keep_images(path: Path, result: Result) -> None:
    """Write ids, labels and which images are right under each condition."""
    images = result.images
    if images is None:
        raise ValueError("a summary knows no single images to keep: give the folder that `leastwise audit` wrote")
    content = {
        "kind": KIND,
        "classes": list(result.names),
        "images": len(images.ids),
        "id_steps": pack(np.diff(images.ids.astype("<i8"), prepend=0)),  # steps of sorted ids take 1/20 of their room
        "labels": pack(images.labels.astype("<i4")),
        "right": {name: pack(np.packbits(hit)) for name, hit in images.hits.items()},
        "attacks": dict(result.attacks),
        "model": result.model,
        "data": result.data,
        "doubted": sorted(result.doubted),
    }
    write_json(path, content)


def from_kept(content: Mapping[str, Any]) -> Result:
    """Read what `keep_images` wrote; a ValueError if it cannot be that."""
    names = tuple(escape_unprintable(str(name)) for name in content["classes"])
    count = int(content["images"])
    ids, labels = np.cumsum(unpack(content["id_steps"], "<i8")), unpack(content["labels"], "<i4")
    if len(ids) != count or len(labels) != count or len(np.unique(ids)) != count:
        raise ValueError("ids that cannot be")
    if count and (labels.min() < 0 or labels.max() >= len(names)):
        raise ValueError("labels that cannot be")
    hits = {}
    for name, packed in content["right"].items():
        bits = np.unpackbits(unpack(packed, "u1"))
        if not count <= len(bits) < count + 8:
            raise ValueError("bits that cannot be")
        hits[str(name)] = bits[:count].astype(bool)
    n = np.bincount(labels, minlength=len(names))
    counts = {name: (np.bincount(labels[hit], minlength=len(names)), n) for name, hit in hits.items()}
    images = SingleImages(ids.astype(np.int64), labels.astype(np.int64), hits)
    doubted = frozenset(escape_unprintable(str(name)) for name in content.get("doubted", ()))
    facts = (dict(content.get("attacks", {})), str(content.get("model", "")), str(content.get("data", "")))
    return Result(names, counts, images, *facts, doubted=doubted)


def pack(values: "np.ndarray") -> str:
    """The bytes of an array, compressed, as text."""
    return base64.b64encode(zlib.compress(values.tobytes(), 9)).decode("ascii")


def unpack(text: str, kind: str) -> "np.ndarray":
    """The array back; a ValueError for what is cut short or too large."""
    opened = zlib.decompressobj()
    try:
        content = opened.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
    except zlib.error:
        raise ValueError("packed numbers that cannot be") from None
    if opened.unconsumed_tail or not opened.eof:
        raise ValueError("packed numbers that cannot be")
    return np.frombuffer(content, dtype=np.dtype(kind))
