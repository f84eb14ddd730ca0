"""For the tests of people who write interceptors: one is shown records as it would be at work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mesh.interceptors.chain import InterceptorName, Judged, OnFailure, Step, judge
from mesh.interceptors.spi import Interceptor, On, Record, Where
from mesh.records.encode import encode_batch
from mesh.records.rewrite import records_of, whole_batches


class Failed(AssertionError):
    """The interceptor failed: what it raised, or what it may not return."""


def intercepted(
    kind: type[Interceptor],
    records: Sequence[Record],
    config: Mapping[str, Any] | None = None,
    *,
    on: On = On.FETCH,
    topic: str = "orders",
) -> list[Record]:
    """The records that go on, as they would be stored or consumed. offset and size of those given do not matter.

    Raises Failed where the interceptor does something that it may not, and for records that it refuses."""
    where = Where("testing", topic, 0, on)
    made = kind(kind.config.model_validate(dict(config or {})))
    batch = encode_batch(
        0, [(at, each.timestamp, each.key, each.value, list(each.headers)) for at, each in enumerate(records)]
    )
    step = Step(InterceptorName(kind.__name__), made, OnFailure.FAIL)
    judged = judge([step], memoryview(batch.data), where, time.perf_counter, asyncio.run)
    _check(judged)
    data = bytes(batch.data) if judged.records is None else judged.records
    return [
        Record(each.key, each.value, tuple(each.headers), each.timestamp, each.delta)
        for one in whole_batches(memoryview(data))
        for each in records_of(one)
    ]


def _check(judged: Judged) -> None:
    if judged.rejected:
        raise Failed(f"rejected: {judged.rejected[0].text}")
    if judged.failure is not None:
        raise Failed(judged.failure.text)
