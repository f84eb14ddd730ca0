"""`avro` rejects values that do not match an Avro schema, to the last byte."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from mesh.interceptors.shipped.checked_by_schema import BySchema
from mesh.interceptors.spi import Reject


class Avro(BySchema[Any]):
    """An interceptor that rejects values that their schema cannot decode."""

    schema_type = "AVRO"

    def compiled(self, text: str) -> Any:
        return fastavro.parse_schema(json.loads(text))

    def check(self, schema: Any, payload: bytes) -> None:
        data = io.BytesIO(payload)
        try:
            fastavro.schemaless_reader(data, schema, None)
        except (MemoryError, RecursionError):
            raise
        except Exception as problem:
            raise Reject(f"a value that its schema cannot decode: {type(problem).__name__}") from problem
        if left := len(payload) - data.tell():
            raise Reject(f"a value with {left} bytes behind what its schema says")
