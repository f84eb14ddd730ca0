"""The check before a landing starts: its checkpoint is the one with which its table was written.

Spark numbers the batches of a checkpoint from 0, and a table passes over numbers that it has. An older copy of a
checkpoint, or another one, has other records under such a number. They would be acknowledged to the mesh, which gives
them to nobody again, and would never land.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mesh.pipelines.checkpoints import NONE, Checkpoint, LeasedBatch, UnreadableBatch


class OtherCheckpoint(ValueError):
    """Raised for a checkpoint that is not the one of its table, with the remedy."""


@dataclass(frozen=True, slots=True)
class LandedBatch:
    """The last batch that a table has, according to one of its records. where: that record. is_of: whether a lease may
    be the one of this batch; True if the lease is unknown."""

    where: str
    number: int
    is_of: Callable[[LeasedBatch], bool] = lambda _: True


def check(checkpoint: Checkpoint, folder: str, landed: Iterable[LandedBatch], remedy: str) -> None:
    """Raises OtherCheckpoint if a landing would lose batches. folder: of the checkpoint. remedy: what to do."""
    try:
        _check(checkpoint, folder, landed, remedy)
    except UnreadableBatch as problem:
        raise OtherCheckpoint(f"checkpoint: {folder} is damaged: {problem}. {remedy}") from None


def _check(checkpoint: Checkpoint, folder: str, landed: Iterable[LandedBatch], remedy: str) -> None:
    last = checkpoint.last()
    for each in landed:
        if each.number > last:
            planned = "has no batch" if last == NONE else f"ends with batch {last}"
            raise OtherCheckpoint(
                f"checkpoint: {folder} {planned}, but {each.where} ends with batch {each.number}: this is a new "
                f"checkpoint, or an older copy. The records of its next batches would be acknowledged and never land. "
                f"{remedy}"
            )
        if checkpoint.has(each.number) and not each.is_of(checkpoint.leased(each.number)):
            raise OtherCheckpoint(
                f"checkpoint: {folder} has other records in batch {each.number} than {each.where}: it belongs to "
                f"another table, or is a copy that went on by itself. {remedy}"
            )
