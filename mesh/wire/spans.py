"""A frame that is read once, and passed on with some of its spans replaced. Unchanged spans are not copied.

It accepts the same values as `mesh.wire.reader`, and checks them in the same way: a length or a count is checked
against the bytes that are left before it is used. Array elements and tagged fields are also counted over the whole
frame: one byte can be an element that takes a microsecond to read, and all clients wait meanwhile.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from mesh.wire.errors import ProtocolError
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT8, INT16, INT32, INT64, MAX_VARINT_BYTES, NO_TAG, tag_order
from mesh.wire.text import text_of
from mesh.wire.writer import encode_unsigned_varint

MAX_REPLACED: Final = 1_000_000
"""The most replaced spans of one frame: enough for the replica lists of a million partitions."""

MAX_REQUEST_ELEMENTS: Final = 100_000
"""The most array elements in a request, including tagged fields. Each takes a few microseconds, and a few hundred bytes
of memory in a tree."""

MAX_TEXT_BYTES: Final = 2**15 - 1
"""The most bytes of a string in any of Kafka's encodings."""

_MAX_INT32: Final = 2**31 - 1
_MAX_UINT32: Final = 2**32 - 1


class Spans:
    """A frame with a reading position. Reads raise ProtocolError for invalid bytes.

    end: the end of the readable bytes. elements_left: how many more array elements and tagged fields may be read.
    replaced: the start, end and new contents of each replacement, in the order of the frame.
    """

    __slots__ = ("elements_left", "end", "frame", "position", "replaced")

    def __init__(self, frame: memoryview, position: int, most_elements: int = MAX_REQUEST_ELEMENTS) -> None:
        self.frame: Final = frame
        self.elements_left = most_elements
        self.position = position
        self.end = len(frame)
        self.replaced: Final[list[tuple[int, int, Buffer]]] = []

    def pieces(self) -> list[Buffer]:
        """Returns the whole frame with its replacements, including the unread part."""
        if not self.replaced:
            return [self.frame] if self.frame else []
        pieces: list[Buffer] = []
        position = 0
        for start, end, content in self.replaced:
            if start > position:
                pieces.append(self.frame[position:start])
            if len(content):
                pieces.append(content)
            position = end
        if position < len(self.frame):
            pieces.append(self.frame[position:])
        return pieces

    def replace(self, start: int, end: int, content: Buffer) -> None:
        """Replaces a span after all spans that have been replaced so far."""
        self.insert(len(self.replaced), start, end, content)

    def insert(self, place: int, start: int, end: int, content: Buffer) -> None:
        """Replaces a span. place: the position in `replaced`, before spans that were replaced earlier."""
        if len(self.replaced) >= MAX_REPLACED:
            raise ProtocolError("too_many_elements", f"more than {MAX_REPLACED} spans of one frame to replace")
        self.replaced.insert(place, (start, end, content))

    def grown_by(self, place: int) -> int:
        """Returns by how many bytes the replacements from this place on have made the frame longer."""
        return sum(len(content) - (end - start) for start, end, content in self.replaced[place:])

    def skip(self, size: int) -> None:
        position = self.position + size
        if size < 0 or position > self.end:
            raise self.unfit(size)
        self.position = position

    def int8(self) -> int:
        return self._integer(INT8)

    def int16(self) -> int:
        return self._integer(INT16)

    def int32(self) -> int:
        return self._integer(INT32)

    def int64(self) -> int:
        return self._integer(INT64)

    def unsigned_varint(self) -> int:
        """Reads the lowest 32 bits of a varint, as an unsigned number."""
        frame, position, end = self.frame, self.position, self.end
        value = 0
        for shift in range(0, 7 * MAX_VARINT_BYTES, 7):
            if position >= end:
                raise self.unfit(1)
            byte = frame[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = position
                return value & _MAX_UINT32
        raise ProtocolError("invalid_varint", f"a varint of more than {MAX_VARINT_BYTES} bytes at {self.position}")

    def compact_length(self) -> int:
        """Reads a length or count in the flexible encoding; -1 is null."""
        position = self.position
        if position < self.end and (byte := self.frame[position]) < 0x80:
            self.position = position + 1
            return byte - 1
        value = self.unsigned_varint()
        return value - 1 if value <= _MAX_INT32 + 1 else -1

    def count(self, element_size: int, is_flexible: bool) -> int:
        """Reads the length of an array; a negative one is null. element_size: the fewest bytes of an element."""
        position = self.position
        if is_flexible and position < self.end and (byte := self.frame[position]) < 0x80:
            self.position = position + 1
            count = byte - 1
        else:
            count = self.compact_length() if is_flexible else self.int32()
        return self._affordable(count, element_size)

    def text(self, length: int) -> str:
        """Reads a string. Bytes that are not UTF-8 are replaced in the result, and stay in the frame."""
        start = self.position
        self.skip(length)
        return text_of(self.frame[start : self.position])

    def strict_text(self, length: int) -> str:
        """Reads a string. Raises UnicodeDecodeError for bytes that are not UTF-8; they count as read."""
        start = self.position
        self.skip(length)
        return str(self.frame[start : self.position], "utf-8")

    def tag_count(self) -> int:
        """Reads the number of tagged fields; each has at least two bytes. A number that is negative for Java is above
        the bytes that are left."""
        return self._affordable(self.unsigned_varint(), 2)

    def skip_empty_tags(self) -> bool:
        """Skips the count of tagged fields and returns True if it is zero, as it nearly always is; otherwise reads
        nothing."""
        position = self.position
        if position < self.end and not self.frame[position]:
            self.position = position + 1
            return True
        return False

    def next_tag(self, previous: int) -> int:
        """Reads the tag of a tagged field. previous: the tag before it in the same struct, or `NO_TAG`."""
        tag = self.unsigned_varint()
        if tag <= previous:
            raise tag_order(tag, previous)
        return tag

    def skip_tagged_fields(self) -> bool:
        """Skips tagged fields, none of which the mesh knows. Returns True if there are any."""
        if self.skip_empty_tags():
            return False
        tag, count = NO_TAG, self.tag_count()
        for _ in range(count):
            tag = self.next_tag(tag)
            self.skip(self.unsigned_varint())
        return count > 0

    def _affordable(self, count: int, element_size: int) -> int:
        if count * element_size > self.end - self.position:
            raise self.unfit(count * element_size)
        if count > 0:
            self.elements_left -= count
            if self.elements_left < 0:
                raise too_many_elements()
        return count

    def _integer(self, layout: Struct) -> int:
        position = self.position + layout.size
        if position > self.end:
            raise self.unfit(layout.size)
        (value,) = layout.unpack_from(self.frame, self.position)
        self.position = position
        return int(value)

    def unfit(self, size: int) -> ProtocolError:
        """Returns the error for an announced size that does not fit."""
        if size < 0:
            return ProtocolError("invalid_length", f"length {size} at {self.position}")
        return ProtocolError("truncated", f"{size} bytes announced at {self.position}, {self.end - self.position} left")


def too_many_elements() -> ProtocolError:
    """Returns the error for a frame with more elements than may be read."""
    return ProtocolError("too_many_elements", f"more than {MAX_REQUEST_ELEMENTS} elements in one request")


def encoded_text(text: str, is_flexible: bool) -> bytes:
    """Encodes a string with its length. Raises ValueError for a string that is too long for Kafka."""
    content = text.encode()
    if len(content) > MAX_TEXT_BYTES:
        raise ValueError(f"a string of {len(content)} bytes; Kafka has room for {MAX_TEXT_BYTES}")
    if is_flexible:
        return encode_unsigned_varint(len(content) + 1) + content
    return INT16.pack(len(content)) + content


def encoded_count(count: int, is_flexible: bool) -> bytes:
    """Encodes the length of an array or of bytes."""
    return encode_unsigned_varint(count + 1) if is_flexible else INT32.pack(count)
