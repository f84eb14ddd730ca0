"""Interceptors that do one thing, and batches for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mesh.interceptors.chain import ChainResult, ChainStep, InterceptorName, OnFailure, run_chain
from mesh.interceptors.spi import Effect, Interceptor, NoConfig, On, Outcome, Reads, Record, Where
from mesh.records.encode import encode_batch
from mesh.records.rewrite import records_of, whole_batches

FETCH = Where("front", "orders", 3, On.FETCH)
PRODUCE = Where("front", "orders", 3, On.PRODUCE)


class Does(Interceptor):
    """What a function does with each record."""

    def __init__(
        self, function: Callable[[Record], Outcome], effect: Effect = Effect.FILTER, reads: Reads = Reads.VALUE
    ) -> None:
        super().__init__(NoConfig())
        self.function = function
        self.effect = effect  # type: ignore[misc]  # a test says it for each
        self.reads = reads  # type: ignore[misc]
        self.shown: list[Record] = []

    def intercept(self, record: Record, where: Where) -> Outcome:
        self.shown.append(record)
        return self.function(record)


def step(interceptor: Interceptor, on_failure: OnFailure = OnFailure.FAIL, name: str = "it") -> ChainStep:
    return ChainStep(InterceptorName(name), interceptor, on_failure)


def batch(*values: bytes, base: int = 0) -> bytes:
    """A batch of records with these values, and keys and headers."""
    records = [(base + at, 1_000 + at, b"k%d" % at, value, [("h", b"%d" % at)]) for at, value in enumerate(values)]
    return bytes(encode_batch(base, records).data)


def judged(
    steps: Sequence[ChainStep], data: bytes, where: Where = FETCH, aborted: Sequence[tuple[int, int]] = ()
) -> ChainResult:
    return run_chain(steps, memoryview(data), where, lambda: 0.0, aborted=aborted)


def values(data: bytes | None) -> list[tuple[int, bytes | None]]:
    """Offsets and values."""
    assert data is not None
    return [
        (int.from_bytes(each[:8], "big") + record.delta, record.value)
        for each in whole_batches(memoryview(data))
        for record in records_of(each)
    ]
