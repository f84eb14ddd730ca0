"""The body of a message while it is encoded: small parts are copied together, records are not copied."""

from __future__ import annotations

from collections.abc import Iterable

from mesh.wire.messages import Buffer


class Body(bytearray):
    """A body that is being encoded, with buffers of records that are not copied into it."""

    def __init__(self) -> None:
        super().__init__()
        self._beside: list[tuple[int, Buffer]] = []
        """Buffers of records, each with its position in the encoded bytes."""

    def put(self, records: Iterable[Buffer]) -> None:
        """Appends buffers of records."""
        self._beside += [(len(self), each) for each in records if len(each)]

    def pieces(self) -> list[Buffer]:
        """Returns the encoded bytes and the records, in order."""
        pieces: list[Buffer] = []
        written, at = memoryview(self), 0
        for place, records in self._beside:
            if place > at:
                pieces.append(written[at:place])
            pieces.append(records)
            at = place
        return [*pieces, written[at:]] if at < len(written) else pieces
