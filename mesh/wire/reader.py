"""A cursor over one request from a peer. It reads Kafka's primitive types, and checks each against the bytes that are
left.

It accepts the same values as a broker (`org.apache.kafka.common.protocol.ByteBufferAccessor`, and the classes that
Kafka's generator makes), since clients are tested with brokers: a varint may have more bytes than it needs, every
negative length is null, and bytes that are not UTF-8 are replaced as in Java. It is stricter about tagged fields: their
tags must ascend (KIP-482), and the size of a known one must be that of its value. A broker ignores that size, so it
would read other fields than the mesh.

No memory is allocated for a length or a count before it has been checked. Array elements and tagged fields are also
counted over the whole request, since one encoded byte can need a hundred bytes of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from struct import error as StructError
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID

from mesh.wire.errors import ProtocolError
from mesh.wire.text import text_of

MAX_ELEMENTS: Final = 20_000
"""The most array elements in a request, including tagged fields. A Fetch with this many partitions has 600 KB."""

MAX_VARINT_BYTES: Final = 5
NO_TAG: Final = -1
"""Stands for the tag before the first one of a struct."""
_MAX_INT32: Final = 2**31 - 1
_MAX_UINT32: Final = 2**32 - 1

INT8: Final = Struct(">b")
INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")

Values: TypeAlias = tuple[Any, ...]
Value = TypeVar("Value")


class Cursor:
    """Reads forward through the bytes of one request. Every method raises ProtocolError for invalid bytes.

    data: the request, as bytes, so that it can be kept undecoded without keeping a receive buffer. is_lossy: whether
    the bytes that were read are more than the values: tagged fields that the mesh does not know, or text that is not
    UTF-8.
    """

    __slots__ = ("data", "elements_left", "is_lossy", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data: Final = data
        self.position = position
        self.elements_left = MAX_ELEMENTS
        self.is_lossy = False

    def finish(self) -> None:
        """Checks that no bytes are left. Used for data with exactly one form; brokers ignore bytes after a request."""
        left = len(self.data) - self.position
        if left:
            raise ProtocolError("trailing_bytes", f"{left} bytes after the end of the message")

    def unpack(self, layout: Struct) -> Values:
        """Reads a run of fields of fixed size."""
        try:
            values = layout.unpack_from(self.data, self.position)
        except StructError:
            raise self._truncated(layout.size) from None
        self.position += layout.size
        return values

    def unpack_rows(self, layout: Struct, count: int) -> list[Values]:
        """Reads several runs of the same fields of fixed size."""
        end = self.position + count * layout.size
        if end > len(self.data):
            raise self._truncated(count * layout.size)
        rows = list(layout.iter_unpack(memoryview(self.data)[self.position : end]))
        self.position = end
        return rows

    def int8(self) -> int:
        return int(self.unpack(INT8)[0])

    def int16(self) -> int:
        return int(self.unpack(INT16)[0])

    def int32(self) -> int:
        return int(self.unpack(INT32)[0])

    def int64(self) -> int:
        return int(self.unpack(INT64)[0])

    def boolean(self) -> bool:
        return self.int8() != 0

    def uuid(self) -> UUID | None:
        """Reads a UUID; None for the zero UUID, which means "no id"."""
        value = self._take(16)
        return UUID(bytes=value) if any(value) else None

    def unsigned_varint(self) -> int:
        """Reads the lowest 32 bits of a varint, as an unsigned number."""
        data, position = self.data, self.position
        value = 0
        for shift in range(0, 7 * MAX_VARINT_BYTES, 7):
            if position >= len(data):
                raise self._truncated(1)
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = position
                return value & _MAX_UINT32
        raise ProtocolError("invalid_varint", f"a varint of more than {MAX_VARINT_BYTES} bytes at {self.position}")

    def compact_length(self) -> int:
        """Reads a length or count in the flexible encoding; -1 is null, as in the older encoding.

        Java's numbers are signed. So a value above 2^31 is a negative length, which is null; 2^31 itself, minus one, is
        a huge length.
        """
        value = self.unsigned_varint()
        return value - 1 if value <= _MAX_INT32 + 1 else -1

    def string(self) -> str:
        return self._text(self.int16())

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self._text(length)

    def compact_string(self) -> str:
        return self._text(self.compact_length())

    def compact_nullable_string(self) -> str | None:
        length = self.compact_length()
        return None if length < 0 else self._text(length)

    def byte_string(self) -> bytes:
        return self._take(self.int32())

    def compact_byte_string(self) -> bytes:
        return self._take(self.compact_length())

    def skip_byte_string(self) -> None:
        """Skips nullable bytes or records without copying them."""
        self._skip_nullable(self.int32())

    def skip_compact_byte_string(self) -> None:
        self._skip_nullable(self.compact_length())

    def count(self, element_size: int) -> int:
        """Reads the length of an array; -1 is null. element_size: the fewest bytes of an element."""
        return self._affordable(max(self.int32(), -1), element_size)

    def compact_count(self, element_size: int) -> int:
        return self._affordable(self.compact_length(), element_size)

    def skip_tagged_fields(self) -> None:
        """Skips tagged fields, none of which the mesh knows. Nearly always there are none."""
        if not self.skip_empty_tags():
            self.skip_known_tagged_fields({})

    def skip_empty_tags(self) -> bool:
        """Skips the count of tagged fields and returns True if it is zero, as it nearly always is; otherwise reads
        nothing."""
        position = self.position
        if position < len(self.data) and not self.data[position]:
            self.position = position + 1
            return True
        return False

    def skip_known_tagged_fields(self, known: Mapping[int, Callable[[Cursor], object]]) -> None:
        """Skips tagged fields. known: reads the value of a known one, by its tag."""
        tag = NO_TAG
        for _ in range(self.tag_count()):
            tag = self.next_tag(tag)
            read = known.get(tag)
            if read is None:
                self.skip_unknown_tagged_field()
            else:
                self.tagged_value(tag, read)

    def next_tag(self, previous: int) -> int:
        """Reads the tag of a tagged field. previous: the tag before it in the same struct, or `NO_TAG`."""
        tag = self.unsigned_varint()
        if tag <= previous:
            raise tag_order(tag, previous)
        return tag

    def tagged_value(self, tag: int, read: Callable[[Cursor], Value]) -> Value:
        """Reads the size and the value of a known tagged field. read: reads the value."""
        size = self.unsigned_varint()
        start = self.position
        value = read(self)
        if self.position != start + size:
            raise tag_size(tag, size, self.position - start)
        return value

    def skip_unknown_tagged_field(self) -> None:
        """Skips the size and the contents of a tagged field that the mesh does not know."""
        self.is_lossy = True
        self._skip(self.unsigned_varint())

    def tag_count(self) -> int:
        """Reads the number of tagged fields. Each of them has a tag, a size and contents. A number that is negative for
        Java is above the bytes that are left."""
        return self._affordable(self.unsigned_varint(), 2)

    def records(self, length: int) -> bytes | memoryview:
        """Reads the bytes of records."""
        return self._take(length)

    def _text(self, length: int) -> str:
        content = self._take(length)
        try:
            return content.decode()
        except UnicodeDecodeError:
            self.is_lossy = True
            return text_of(content)

    def _take(self, length: int) -> bytes:
        start = self.position
        self._skip(length)
        return self.data[start : self.position]

    def _skip(self, length: int) -> None:
        if length < 0:
            raise ProtocolError("invalid_length", f"length {length} at {self.position}")
        if length > len(self.data) - self.position:
            raise self._truncated(length)
        self.position += length

    def _skip_nullable(self, length: int) -> None:
        if length >= 0:
            self._skip(length)

    def _affordable(self, count: int, element_size: int) -> int:
        if count * element_size > len(self.data) - self.position:
            raise self._truncated(count * element_size)
        if count > self.elements_left:
            raise ProtocolError("too_many_elements", f"more than {MAX_ELEMENTS} elements in one request")
        self.elements_left -= max(count, 0)
        return count

    def _truncated(self, wanted: int) -> ProtocolError:
        left = len(self.data) - self.position
        return ProtocolError("truncated", f"{wanted} bytes announced at {self.position}, {left} left")


def tag_order(tag: int, previous: int) -> ProtocolError:
    """Returns the error for a tag that is not higher than the one before it."""
    return ProtocolError("invalid_tag", f"tag {tag} after tag {previous}: tags must ascend (KIP-482)")


def tag_size(tag: int, size: int, taken: int) -> ProtocolError:
    """Returns the error for a known tagged field whose size is not that of its value."""
    return ProtocolError("invalid_tag", f"a size of {size} bytes at tag {tag}, whose value takes {taken}")


class ViewCursor(Cursor):
    """A cursor over a received message. The records that it reads are slices of the message."""

    __slots__ = ("_view",)

    def __init__(self, view: memoryview) -> None:
        super().__init__(view)  # type: ignore[arg-type]  # single elements of both types are equal
        self._view: Final = view

    def records(self, length: int) -> bytes | memoryview:
        start = self.position
        self._skip(length)
        return self._view[start : self.position] if length else b""  # an empty view would keep the message alive

    def _take(self, length: int) -> bytes:
        start = self.position
        self._skip(length)
        return bytes(self._view[start : self.position])
