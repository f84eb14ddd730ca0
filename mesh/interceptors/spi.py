"""What people implement who write interceptors; docs/interceptors.md shows how.

An interceptor is a class that is found as an entry point of the group `kafka_mesh.interceptors`, by whose name `type`
in a configuration calls it. It is made with its `config`, once in each process that it runs in, and keeps nothing
for the next request: a retry may come to another process.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict

from mesh.security.principals import ANONYMOUS, Principal

ENTRY_POINTS: Final = "kafka_mesh.interceptors"


class Reads(IntEnum):
    """The parts of a record that an interceptor looks at. Parts further down are not shown to it."""

    BATCH = 0
    HEADERS = 1
    KEY = 2
    VALUE = 3


class Effect(Enum):
    """The rights of an interceptor: look and refuse; change records as well; leave some out as well."""

    CHECK = "check"
    MAP = "map"
    FILTER = "filter"


class On(Enum):
    """Which way records go: from a producer, or to a consumer."""

    PRODUCE = "produce"
    FETCH = "fetch"


class Verdict(Enum):
    """The fate of a record that is not changed."""

    KEEP = "keep"
    DROP = "drop"


KEEP: Final = Verdict.KEEP
DROP: Final = Verdict.DROP

Header: TypeAlias = tuple[str, bytes | None]


class Record(NamedTuple):
    """A record. timestamp: milliseconds, -1 for none. offset: as the cluster numbers it; of a producer's, its place in
    the batch. size: bytes of key, value and headers as they came, also of those that are not shown. An interceptor
    changes key, value, headers and timestamp; the rest stays as it is."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp: int = -1
    offset: int = 0
    size: int = 0

    def with_value(self, value: bytes | None) -> Record:
        return self._replace(value=value)

    def with_headers(self, headers: Sequence[Header]) -> Record:
        return self._replace(headers=tuple(headers))


class Batch(NamedTuple):
    """The header of a batch, known without reading its records. size: bytes as they are sent. codec: 0 none, 1 gzip, 2
    snappy, 3 lz4, 4 zstd."""

    records: int
    size: int
    codec: int
    is_transactional: bool


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a record on its way. topic: as clients call it; an interceptor of a route is told what it is called
    behind that. route: the routes that lead there, with `/` between them. group: in pools."""

    virtual_cluster: str
    topic: str
    partition: int
    on: On
    principal: Principal = ANONYMOUS
    client_id: str | None = None
    route: str | None = None
    group: str | None = None


class Reject(Exception):
    """A record that is refused, and why: a producer is told so, and nothing of its partition is stored."""


class CannotBegin(Exception):
    """A config that an interceptor cannot begin with; `__init__` raises it. key: below `config`, with dots between
    several. allowed: what its value should be."""

    def __init__(self, key: str, value: str, allowed: str) -> None:
        super().__init__(f"{key}: {value}: {allowed}")
        self.key, self.value, self.allowed = key, value, allowed


Outcome: TypeAlias = Literal[Verdict.KEEP, Verdict.DROP] | Record | Exception
"""KEEP, DROP, a changed record; Reject, or another exception, which is a failure of the interceptor."""


class NoConfig(BaseModel):
    """Of an interceptor with nothing to configure."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Interceptor(ABC):  # noqa: B024 - which of its methods is written depends on what it reads
    """An interceptor: it looks at records. config: the model of what stands below `config`. on: which way records may
    go.

    Write `intercept`, or `intercept_batch` where several records are done faster together; `check_batch` if it reads
    nothing but the batch. Raise Reject to refuse a record.
    """

    reads: ClassVar[Reads] = Reads.VALUE
    effect: ClassVar[Effect] = Effect.MAP
    on: ClassVar[frozenset[On]] = frozenset(On)
    config: ClassVar[type[BaseModel]] = NoConfig

    def __init__(self, config: Any) -> None:  # noqa: B027 - not every one keeps it
        """config: an instance of its model."""

    def intercept(self, record: Record, where: Where) -> Outcome:
        return KEEP

    def intercept_batch(self, records: Sequence[Record], where: Where) -> Sequence[Outcome]:
        """One outcome for each record."""
        outcomes: list[Outcome] = []
        for record in records:
            try:
                outcomes.append(self.intercept(record, where))
            except MemoryError:
                raise
            except Exception as problem:  # noqa: BLE001 - whatever it is, it is told with the record's offset
                outcomes.append(problem)
        return outcomes

    def check_batch(self, batch: Batch, where: Where) -> None:  # noqa: B027 - of those that read nothing else
        """Called in place of the others if it reads BATCH. Raises Reject."""


class AsyncInterceptor(Interceptor):
    """An interceptor that waits for something, for a service say. It runs in a worker, never inline."""

    async def intercept_async(self, record: Record, where: Where) -> Outcome:
        return KEEP

    async def intercept_batch_async(self, records: Sequence[Record], where: Where) -> Sequence[Outcome]:
        """One outcome for each record."""
        outcomes: list[Outcome] = []
        for record in records:
            try:
                outcomes.append(await self.intercept_async(record, where))
            except MemoryError:
                raise
            except Exception as problem:  # noqa: BLE001 - as above
                outcomes.append(problem)
        return outcomes
