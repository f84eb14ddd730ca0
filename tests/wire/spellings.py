"""The bytes of kio's entities as peers may also write them: varints wider than needed, null instead of a length.

One `Spelling` writes one entity; kio's own bytes are those of `Spelling()`, which a test of this package holds.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Final, get_type_hints
from uuid import UUID

from tests.wire.entities import unfold

_SIZES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
}


@dataclass(slots=True)
class Spelling:
    """A way to write one entity.

    width: least number of bytes of each varint. null_at: the position of the null field among the written fields that
    have a length. null: the length that means null, -1 or less.
    """

    width: int = 1
    null_at: int | None = None
    null: int = -1
    lengths: int = field(default=0, init=False)
    """Fields with a length so far: of the whole entity when it has been written."""

    def write(self, entity: Any) -> bytes:
        """The bytes of the entity."""
        hints = get_type_hints(type(entity))
        plain, tagged = b"", []
        for each in fields(entity):
            value, tag = getattr(entity, each.name), each.metadata.get("tag")
            if tag is None:
                plain += self._field(entity, each.metadata.get("kafka_type"), hints[each.name], value)
            elif value != each.default:
                written = self._field(entity, each.metadata.get("kafka_type"), hints[each.name], value)
                tagged.append(self.varint(tag) + self.varint(len(written)) + written)
        return plain + self.varint(len(tagged)) + b"".join(tagged) if entity.__flexible__ else plain

    def varint(self, value: int) -> bytes:
        """An unsigned varint of 32 bits."""
        value &= 2**32 - 1
        parts = [value >> shift & 0x7F for shift in range(0, 35, 7)]
        size = max(self.width, max(place for place, part in enumerate(parts) if part or not place) + 1)
        return bytes(part | (0x80 if place + 1 < size else 0) for place, part in enumerate(parts[:size]))

    def _field(self, entity: Any, kafka_type: str | None, annotation: Any, value: Any) -> bytes:
        item, is_array, _ = unfold(annotation)
        if not is_array:
            return self._value(entity, kafka_type, item, value)
        length = self._length(value)
        elements = [] if length < 0 else [self._value(entity, kafka_type, item, element) for element in value]
        return self._written(length, entity.__flexible__, 4) + b"".join(elements)

    def _value(self, entity: Any, kafka_type: str | None, item: type, value: Any) -> bytes:
        match kafka_type:
            case None:
                return self.write(value)
            case "string" | "bytes" | "records":
                content = value.encode() if isinstance(value, str) else value
                length = self._length(content)
                # The client id of a header is never compact, since ApiVersions must be readable in every version.
                is_compact = entity.__flexible__ and type(entity).__name__ != "RequestHeader"
                written = self._written(length, is_compact, 2 if kafka_type == "string" else 4)
                return written if length < 0 else written + content
            case "uuid":
                return (value or UUID(int=0)).bytes
            case _:
                number = round(value.total_seconds() * 1000) if isinstance(value, timedelta) else int(value)
                return number.to_bytes(_SIZES[kafka_type], "big", signed=True)

    def _length(self, content: Sized | None) -> int:
        place, self.lengths = self.lengths, self.lengths + 1
        return self.null if content is None or place == self.null_at else len(content)

    def _written(self, length: int, is_compact: bool, size: int) -> bytes:
        return self.varint(length + 1) if is_compact else length.to_bytes(size, "big", signed=True)
