"""The Parquet files of audits and reports. pyarrow comes with kafka-mesh[spark]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from mesh.pipelines.audit.accounts import COLUMNS

_PLACE = [("cluster", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
_WINDOW = ("window", pa.timestamp("ms", tz="UTC"))
ACCOUNTS = pa.schema([*_PLACE, _WINDOW, *((name, pa.int64()) for name in COLUMNS)])
EXCEPTIONS = pa.schema(
    [
        *_PLACE,
        ("kind", pa.string()),
        ("fails", pa.bool_()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        _WINDOW,
        ("story", pa.list_(pa.string())),
    ]
)


def write_accounts(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    parquet.write_table(pa.Table.from_pylist(list(rows), ACCOUNTS), file)


def write_exceptions(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    parquet.write_table(pa.Table.from_pylist(list(rows), EXCEPTIONS), file)


_WORDS = {"member", "client_id", "host", "standing", "cluster", "topic"}
_SHARES = {"share", "fairness", "redelivery_rate", "dead_letter_rate"}


def write_rows(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows of a report, which all have the same columns."""
    names = list(rows[0]) if rows else []
    parquet.write_table(pa.Table.from_pylist(list(rows), pa.schema([(name, _type_of(name)) for name in names])), file)


def _type_of(name: str) -> Any:
    if name == "window":
        return _WINDOW[1]
    if name == "is_lease":
        return pa.bool_()
    return pa.string() if name in _WORDS else pa.float64() if name in _SHARES else pa.int64()
