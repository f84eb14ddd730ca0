"""Bytes behind the batch in a Produce."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack

from tests.records.golden import GZIP


def tails() -> Iterator[tuple[bytes, bool]]:
    """Bytes behind a whole batch, and whether a broker ignores them, as Kafka 4.3.1 does."""
    for size in range(21):
        yield bytes(size), size < 12
        yield b"\xff" * size, size < 12
        yield GZIP[:size], True
        for length in (13, 14, 20, 48, 49, 1_000, -1):
            for magic in range(4):
                is_long = length >= 14 or size < 12
                yield pack(">qiib", 0, length, 0, magic)[:size].ljust(size, b"\0"), is_long and (magic < 3 or size < 17)
