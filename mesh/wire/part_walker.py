"""Changes Fetch answers while they pass through in chunks, for topics whose partition numbers or leader epochs differ
between clients and clusters: topics that a union has concatenated or moved (`mesh.routing.concatenated`).

Topic ids, partition numbers and epochs have fixed sizes, and are overwritten in place. A field that continues in the
next chunk is held back until it is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from mesh.wire.answer_walker import TOPIC_ID, AnswerWalker
from mesh.wire.apis import ApiKey
from mesh.wire.chunk_walker import Walk
from mesh.wire.messages import Buffer
from mesh.wire.reader import INT32

VERSIONS_WITH_PARTS: Final[Mapping[ApiKey, range]] = MappingProxyType({ApiKey.FETCH: range(13, 19)})
"""The versions with topic ids. A translated topic name might have another length."""

_NOWHERE: Final = -1
_HIGHEST: Final = (1 << 31) - 1


class Shift(NamedTuple):
    """The changes for one topic. id: its new topic id, as bytes. partitions: added to partition numbers. epochs: added
    to leader epochs."""

    id: bytes
    partitions: int
    epochs: int = 0


_UNCHANGED: Final = Shift(b"", 0)


class PartWalker(AnswerWalker):
    """Walks over a Fetch answer like its base class, and also shifts topics. shifts: by topic id as bytes."""

    __slots__ = ("_kept", "_kept_from", "_shift", "_shifts")

    def __init__(self, api_key: ApiKey, version: int, length: int, leaf: int, shifts: Mapping[bytes, Shift]) -> None:
        """The version must be one of `VERSIONS_WITH_PARTS`. The other parameters are those of the base class."""
        super().__init__(api_key, version, length, leaf)
        self._shifts: Final = shifts
        self._shift = _UNCHANGED
        """The shift of the current topic."""
        self._kept = bytearray()
        """The first bytes of a field that continues in the next chunk."""
        self._kept_from = _NOWHERE

    @classmethod
    def _walked(cls, leaf: int) -> Mapping[ApiKey, range]:
        return VERSIONS_WITH_PARTS

    def feed(self, chunk: memoryview) -> Sequence[Buffer]:
        size = len(chunk)
        self._expect(size)
        if size < self._skip and self._held_from == _NOWHERE:
            self._skip -= size
            return (chunk,)
        if self._kept:
            chunk, self._kept = memoryview(self._kept + chunk), bytearray()
        self._walk_over(chunk, self._walk)
        if self._kept_from != _NOWHERE:
            start, self._kept_from = self._kept_from, _NOWHERE
            self._kept += chunk[start:]
            return (chunk[:start],) if start else ()
        return (chunk,) if self._held_from == _NOWHERE else self._release(chunk)

    def _topic(self) -> Walk:
        yield from self._whole(TOPIC_ID)
        end = self._position + TOPIC_ID
        id = self._chunk[self._position : end]
        self._shift = self._shifts.get(bytes(id), _UNCHANGED)
        if self._shift.id:
            id[:] = self._shift.id
        self._position = end

    def _pass_usual_partitions(self, most: int) -> int:
        return 0 if self._shift.partitions else super()._pass_usual_partitions(most)

    def _fetch_partition(self) -> Walk:
        if self._shift.partitions:
            yield from self._whole(INT32.size)
            (known,) = INT32.unpack_from(self._chunk, self._position)
            INT32.pack_into(self._chunk, self._position, known + self._shift.partitions)
        yield from super()._fetch_partition()

    def _leader(self) -> Walk:
        if not self._shift.epochs:
            yield from super()._leader()
            return
        yield from self._node()
        yield from self._epoch()
        yield from self._tagged_fields()

    def _epoch(self) -> Walk:
        yield from self._whole(INT32.size)
        (known,) = INT32.unpack_from(self._chunk, self._position)
        if known >= 0:
            INT32.pack_into(self._chunk, self._position, min(known + self._shift.epochs, _HIGHEST))
        self._position += INT32.size

    def _whole(self, size: int) -> Walk:
        """Waits until this many bytes are in the chunk."""
        while len(self._chunk) - self._position < size:
            self._affordable(size, 1)
            self._kept_from = self._position
            yield
