"""Numbers, names and runs in the fields of a commit's metadata: varints as in records, base64url without padding."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

from mesh.records.spans import Span
from mesh.records.varints import read_varint


class ForeignMetadata(ValueError):
    """Raised for metadata of another partition or offset, of an unknown version, or damaged. The message says which."""


class Reader:
    """Reads the values of a field. Raises ValueError or IndexError if one is missing."""

    def __init__(self, payload: str) -> None:
        self._data = urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._data)

    def number(self) -> int:
        value, self._at = read_varint(self._data, self._at)
        return value

    def data(self, longest: int) -> bytes:
        """Reads bytes that follow their length. longest: the largest allowed length."""
        length = self.number()
        end = self._at + length
        if not 0 <= length <= longest or end > len(self._data):
            raise ForeignMetadata("bytes that are too many or do not end")
        data, self._at = self._data[self._at : end], end
        return data

    def name(self, longest: int) -> str:
        name = self.data(longest)
        if not name:
            raise ForeignMetadata("a name that is empty")
        return name.decode()

    def runs(self, base: int, most: int | None = None) -> tuple[Span, ...]:
        """Reads the remaining runs, or `most` of them."""
        runs: list[Span] = []
        position = base
        while len(runs) < most if most is not None else not self.is_at_end:
            gap, count = self.number(), self.number()
            if count < 1 or gap < (most is None):
                raise ForeignMetadata("a run that is empty or not apart from the one before")
            runs.append(Span(position + gap, position + gap + count - 1))
            position += gap + count
        return tuple(runs)


def to_base64(payload: bytes | bytearray) -> str:
    return urlsafe_b64encode(payload).rstrip(b"=").decode()
