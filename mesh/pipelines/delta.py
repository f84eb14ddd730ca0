"""Appends batches to a Delta table, each once, by the package `deltalake`: without a jar or a special session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def append_once(
    uri: str, rows: pa.Table, app: str, batch: int, partition_by: Sequence[str], options: Mapping[str, str]
) -> bool:
    """Appends rows, and returns whether it did. It does not if the table already has this batch of `app`, or a later
    one. The batch number is written in the same commit as the rows (a `txn` action). options: deltalake's storage
    options."""
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    storage = dict(options) or None
    if DeltaTable.is_deltatable(uri, storage):
        last = DeltaTable(uri, storage_options=storage).transaction_version(app)
        if last is not None and last >= batch:
            return False
    write_deltalake(
        uri,
        _in_utc(rows),
        mode="append",
        partition_by=list(partition_by),
        storage_options=storage,
        commit_properties=CommitProperties(app_transactions=[Transaction(app, batch)]),
    )
    return True


def _in_utc(rows: pa.Table) -> pa.Table:
    """Returns the rows with times in UTC, the only zone in Delta; those of Spark have the zone of its session."""
    import pyarrow as pa

    utc = pa.timestamp("us", tz="UTC")
    fields = [each.with_type(utc) if pa.types.is_timestamp(each.type) else each for each in rows.schema]
    return rows.cast(pa.schema(fields))
