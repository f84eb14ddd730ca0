"""The claims of a Parquet table: the lease of each batch that may land in it.

Two queries on copies of one checkpoint plan other records under the same number. The sink of Spark lands those that
come first, and passes over the others. So a query claims a number before its sink is called, and lands only if no other
lease has a claim on it.

A claim is an empty file `BATCH-LEASE-RUN`, in a folder of the table. A query first writes its claim, then lists the
claims. So of two queries at least one sees both claims, on each file system that lists a file after it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from mesh.pipelines.checkpoints import NONE, LeasedBatch
from mesh.pipelines.continuing import OtherCheckpoint

FOLDER = "_kafka_mesh"
"""Readers pass over a folder that begins with `_`."""


class BatchClaim(NamedTuple):
    """One file. run: a name that is unique to a run of a query."""

    batch: int
    lease: str
    run: str

    def __str__(self) -> str:
        return f"{self.batch}-{self.lease}-{self.run}"


class Claims:
    """The claims of a table. folder: with `names`, `create` and `remove` of Folder."""

    def __init__(self, folder: Any, run: str) -> None:
        self._folder = folder
        self._run = run

    def last(self) -> int:
        """Returns the number of the last claimed batch."""
        return max((each.batch for each in self._claims()), default=NONE)

    def is_of(self, batch: int, leased: LeasedBatch) -> bool:
        """Returns whether a claim on this batch has this lease."""
        return any(each.batch == batch and each.lease == leased.lease for each in self._claims())

    def claim(self, batch: int, lease: str) -> None:
        """Claims a batch that is about to land. Raises OtherCheckpoint if another lease has a claim on it, or any has
        one on a later batch."""
        mine = BatchClaim(batch, lease, self._run)
        self._folder.create(str(mine))
        claims = list(self._claims())
        for each in claims:
            if each.batch > batch or (each.batch == batch and each.lease != lease):
                self._folder.remove(str(mine))
                raise OtherCheckpoint(
                    f"checkpoint: another query lands batch {each.batch} of the same table, with other records (its "
                    f"claim is {FOLDER}/{each}): its checkpoint is a copy of this one"
                )
        # The claims of the batch before stay: a query that lists them now sees these or those of this batch.
        for each in claims:
            if each.batch < batch - 1:
                self._folder.remove(str(each))

    def _claims(self) -> Iterator[BatchClaim]:
        for name in self._folder.names():
            number, _, rest = name.partition("-")
            if number.isdecimal():
                yield BatchClaim(int(number), *rest.rsplit("-", 1))
