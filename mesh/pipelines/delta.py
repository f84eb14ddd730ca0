"""Appends batches to a Delta table, each once, by the package `deltalake`: without a jar or a special session."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_DIGEST_BITS, _NUMBER_BITS = 43, 20


class OtherBatch(ValueError):
    """Raised for a batch that a table has with other records, or that comes before its last one."""


@dataclass(frozen=True, slots=True)
class DeltaBatch:
    """The last batch of an app in a Delta table. mark: the mark of its lease; None if an earlier release wrote it."""

    number: int
    mark: int | None

    def is_of(self, lease: str) -> bool:
        """Returns whether the batch may be that of a lease."""
        return self.mark in (None, _mark(self.number, lease))


def last_batch(uri: str, app: str, options: Mapping[str, str]) -> DeltaBatch | None:
    """Returns the last batch of `app`; None if the table has none, or does not exist. options: deltalake's storage
    options."""
    from deltalake import DeltaTable

    storage = dict(options) or None
    if not DeltaTable.is_deltatable(uri, storage):
        return None
    table = DeltaTable(uri, storage_options=storage)
    number = table.transaction_version(app)
    if number is None:
        return None
    mark = table.transaction_version(_app_of_leases(app))
    # An earlier release writes the number of a batch only.
    is_of_it = mark is not None and mark >> _DIGEST_BITS == number % (1 << _NUMBER_BITS)
    return DeltaBatch(number, mark if is_of_it else None)


def append_once(
    uri: str, rows: pa.Table, app: str, batch: int, lease: str, partition_by: Sequence[str], options: Mapping[str, str]
) -> bool:
    """Appends rows, and returns whether it did. It does not if the table already has this batch of `app`. The numbers
    of batch and lease are written in the same commit as the rows (`txn` actions). options: deltalake's storage options.

    Raises OtherBatch for a batch before the last one, and if the table has the batch with another lease.
    """
    from deltalake import CommitProperties, Transaction, write_deltalake

    last = last_batch(uri, app, options)
    if last is not None and last.number > batch:
        raise OtherBatch(f"batch {batch} of {app} comes after batch {last.number} in {uri}: its checkpoint is a copy")
    if last is not None and last.number == batch:
        if not last.is_of(lease):
            raise OtherBatch(f"{uri} has other records in batch {batch} of {app}: its checkpoint is a copy")
        return False
    transactions = [Transaction(app, batch), Transaction(_app_of_leases(app), _mark(batch, lease))]
    write_deltalake(
        uri,
        _in_utc(rows),
        mode="append",
        partition_by=list(partition_by),
        storage_options=dict(options) or None,
        commit_properties=CommitProperties(app_transactions=transactions),
    )
    return True


def _app_of_leases(app: str) -> str:
    return f"{app} lease"


def _mark(batch: int, lease: str) -> int:
    """Returns the batch and a digest of its lease as one number, since a `txn` action has only a number."""
    digest = int.from_bytes(hashlib.sha256(lease.encode()).digest()) % (1 << _DIGEST_BITS)
    return batch % (1 << _NUMBER_BITS) << _DIGEST_BITS | digest


def _in_utc(rows: pa.Table) -> pa.Table:
    """Returns the rows with times in UTC, the only zone in Delta; those of Spark have the zone of its session."""
    import pyarrow as pa

    utc = pa.timestamp("us", tz="UTC")
    fields = [each.with_type(utc) if pa.types.is_timestamp(each.type) else each for each in rows.schema]
    return rows.cast(pa.schema(fields))
