"""A test kit for authors of interceptors: it passes records to an interceptor as the mesh does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mesh.interceptors.chain import ChainResult, ChainStep, InterceptorName, OnFailure, run_chain
from mesh.interceptors.spi import Interceptor, On, Record, Where
from mesh.records.encode import encode_batch
from mesh.records.rewrite import records_of, whole_batches


class Failed(AssertionError):
    """Raised when the interceptor failed with an exception or an invalid result, or refused a record."""


def intercepted(
    kind: type[Interceptor],
    records: Sequence[Record],
    config: Mapping[str, Any] | None = None,
    *,
    on: On = On.FETCH,
    topic: str = "orders",
) -> list[Record]:
    """Returns the kept records, as stored or consumed. Offset and size of the given records do not matter.

    Raises Failed if the interceptor does something that is not allowed, and for refused records.
    """
    where = Where("testing", topic, 0, on)
    made = kind(kind.config.model_validate(dict(config or {})))
    batch = encode_batch(
        0, [(at, each.timestamp, each.key, each.value, list(each.headers)) for at, each in enumerate(records)]
    )
    step = ChainStep(InterceptorName(kind.__name__), made, OnFailure.FAIL)
    result = run_chain([step], memoryview(batch.data), where, time.perf_counter, asyncio.run)
    _check(result)
    data = bytes(batch.data) if result.records is None else result.records
    return [
        Record(each.key, each.value, tuple(each.headers), each.timestamp, each.delta)
        for one in whole_batches(memoryview(data))
        for each in records_of(one)
    ]


def _check(result: ChainResult) -> None:
    if result.rejected:
        raise Failed(f"rejected: {result.rejected[0].text}")
    if result.failure is not None:
        raise Failed(result.failure.text)
