"""Reads what a Fetch answer holds of one partition."""

from __future__ import annotations

from mesh.records.batch import Batch, parse_batch


def split_batches(buffer: bytes | bytearray | memoryview) -> list[Batch]:
    """The whole batches of a Fetch answer. Raises CorruptBatch."""
    batches: list[Batch] = []
    position, limit = 0, len(buffer)
    while (batch := parse_batch(buffer, position, limit)) is not None:
        batches.append(batch)
        position += len(batch.data)
    return batches
