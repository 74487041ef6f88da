"""What an Arrow file may hold, looked at before anything of it is unpacked or believed.

Buffers of a stream may be compressed, each with its unpacked size before it; pyarrow asks for that memory at once. It
also believes offsets and lengths unless it is told to validate them.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leastwise.data.readers.arrays import LARGE, MOST_PACKING

DICTIONARY, RECORDS = 2, 3  # kinds of messages that have buffers
NOT_PACKED = -1  # instead of a size


class FlatTable:
    """A table of a flatbuffer: fields by number, each perhaps absent (Arrow's format/Message.fbs has the numbers)."""

    def __init__(self, content: memoryview, place: int) -> None:
        self.content, self.place = content, place
        self.index = place - self.number("<i", place)
        self.index_size = self.number("<H", self.index)

    def number(self, kind: str, place: int) -> int:
        if place < 0:
            raise ValueError("a message points outside itself")
        value: int = struct.unpack_from(kind, self.content, place)[0]
        return value

    def find(self, field: int) -> int | None:
        """Where a field lies, if it is there."""
        entry = 4 + 2 * field
        offset = self.number("<H", self.index + entry) if entry < self.index_size else 0
        return self.place + offset if offset else None

    def follow(self, field: int) -> int | None:
        """Where the table or list lies that a field points to."""
        place = self.find(field)
        return None if place is None else place + self.number("<I", place)

    def table(self, field: int) -> "FlatTable | None":
        place = self.follow(field)
        return None if place is None else FlatTable(self.content, place)


def check_unpacked_size(file: Any) -> None:
    """Refuse a stream whose compressed buffers would unpack to much more than images ever shrink by."""
    import pyarrow

    announced = 0
    for message in pyarrow.ipc.MessageReader.open_stream(file):
        announced += sum(packed_sizes(memoryview(message.metadata), memoryview(message.body)))
    if announced > LARGE and announced > MOST_PACKING * file.size():
        raise ValueError(
            f"{file.size():,} bytes would unpack to {announced:,}: save the data set again, without compression"
        )


def packed_sizes(metadata: memoryview, body: memoryview) -> Iterator[int]:
    """What every compressed buffer of a message announces to unpack to."""
    try:
        message = FlatTable(metadata, struct.unpack_from("<I", metadata)[0])
        kind = message.find(1)
        batch = message.table(2)
        if kind is None or batch is None or message.number("<B", kind) not in (DICTIONARY, RECORDS):
            return
        if message.number("<B", kind) == DICTIONARY:
            batch = batch.table(1)
        buffers = None if batch is None or batch.find(3) is None else batch.follow(2)
        if batch is None or buffers is None:
            return
        for number in range(batch.number("<I", buffers)):
            place, length = struct.unpack_from("<qq", metadata, buffers + 4 + 16 * number)
            if length >= 8 and place >= 0:
                size: int = struct.unpack_from("<q", body, place)[0]
                yield 0 if size == NOT_PACKED else abs(size)
    except (struct.error, IndexError) as error:
        raise ValueError(f"a message is damaged: {error}") from None


def check_columns(table: Any, image: str, label: str, *, folder: Path) -> None:
    """Columns of the kinds that are read, with offsets and lengths that stay inside their buffers."""
    import pyarrow

    types = pyarrow.types
    kind = table.schema.field(image).type
    held = kind.field("bytes").type if types.is_struct(kind) and kind.get_field_index("bytes") >= 0 else None
    if held is None or not (types.is_binary(held) or types.is_large_binary(held)):
        raise ValueError(f"{folder} has no encoded images in {image!r}: save it again with the images embedded")
    if not types.is_integer(table.schema.field(label).type):
        raise ValueError(f"the labels of {folder} must be whole numbers, but are {table.schema.field(label).type}")
    try:
        table.select([image, label]).validate(full=True)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{folder} contradicts itself ({error}): save the data set again") from None
