"""The Parquet files in which an audit leaves what it found. pyarrow comes with kafka-mesh[spark]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from mesh.pipelines.accounts import COLUMNS

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
