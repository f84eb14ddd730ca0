"""The interface for authors of interceptors; docs/own-interceptors.md shows how to use it.

An interceptor is a class that is registered as an entry point of the group `kafka_mesh.interceptors`. The `type` in a
configuration is the name of that entry point. The class is instantiated with its `config`, once in each process in
which it runs. It must keep no state between requests: a retry may reach another process.
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
    """The parts of a record that an interceptor reads. It does not see parts further down in this list."""

    BATCH = 0
    HEADERS = 1
    KEY = 2
    VALUE = 3


class Effect(Enum):
    """The rights of an interceptor: CHECK reads and refuses records, MAP may also change them, FILTER may also drop
    them."""

    CHECK = "check"
    MAP = "map"
    FILTER = "filter"


class On(Enum):
    """The direction of records: from a producer, or to a consumer."""

    PRODUCE = "produce"
    FETCH = "fetch"


class Verdict(Enum):
    """The outcome for a record that is not changed."""

    KEEP = "keep"
    DROP = "drop"


KEEP: Final = Verdict.KEEP
DROP: Final = Verdict.DROP

Header: TypeAlias = tuple[str, bytes | None]


class Record(NamedTuple):
    """A record. An interceptor may change key, value, headers and timestamp; the rest stays as it is.

    timestamp: in milliseconds, -1 for none.
    offset: the offset in the cluster; for a producer's record, its index in the batch.
    size: bytes of key, value and headers as they arrived, including parts that the interceptor does not see.
    """

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
    """The header of a batch, known without reading its records. size: its bytes as they are sent. codec: 0 none, 1
    gzip, 2 snappy, 3 lz4, 4 zstd."""

    records: int
    size: int
    codec: int
    is_transactional: bool


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a record on its way. topic: the name that clients use; for an interceptor of a route, the name
    behind it. route: the routes to the interceptor, joined by `/`. group: the group's id, in pools."""

    virtual_cluster: str
    topic: str
    partition: int
    on: On
    principal: Principal = ANONYMOUS
    client_id: str | None = None
    route: str | None = None
    group: str | None = None


class Reject(Exception):
    """Refuses a record, with a reason. The producer gets the reason, and no record of its partition is stored."""


class CannotBegin(Exception):
    """Raised by `__init__` for an unusable config. key: the key below `config`, with dots between several. allowed: the
    right values."""

    def __init__(self, key: str, value: str, allowed: str) -> None:
        super().__init__(f"{key}: {value}: {allowed}")
        self.key, self.value, self.allowed = key, value, allowed


Outcome: TypeAlias = Literal[Verdict.KEEP, Verdict.DROP] | Record | Exception
"""KEEP, DROP or a changed record; Reject; or another exception, which counts as a failure of the interceptor."""


class NoConfig(BaseModel):
    """The configuration of an interceptor that has no settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Interceptor(ABC):  # noqa: B024 - which of its methods is written depends on what it reads
    """An interceptor of records. config: the model of its `config` section. on: the directions that it supports.

    Write `intercept`, or `intercept_batch` if several records together are faster, or `check_batch` if only the batch
    is read. Raise Reject to refuse a record.
    """

    reads: ClassVar[Reads] = Reads.VALUE
    effect: ClassVar[Effect] = Effect.MAP
    on: ClassVar[frozenset[On]] = frozenset(On)
    config: ClassVar[type[BaseModel]] = NoConfig

    def __init__(self, config: Any) -> None:  # noqa: B027 - not every one keeps it
        """config: an instance of the class's `config` model."""

    def intercept(self, record: Record, where: Where) -> Outcome:
        return KEEP

    def intercept_batch(self, records: Sequence[Record], where: Where) -> Sequence[Outcome]:
        """Returns one outcome for each record."""
        outcomes: list[Outcome] = []
        for record in records:
            try:
                outcomes.append(self.intercept(record, where))
            except MemoryError:
                raise
            except Exception as problem:  # noqa: BLE001 - of users' code; reported with the record's offset
                outcomes.append(problem)
        return outcomes

    def check_batch(self, batch: Batch, where: Where) -> None:  # noqa: B027 - of those that read nothing else
        """Checks a batch; called instead of the other methods if the interceptor reads BATCH. Raises Reject."""


class AsyncInterceptor(Interceptor):
    """An interceptor that waits for something, such as a service. It runs in a worker, never inline."""

    async def intercept_async(self, record: Record, where: Where) -> Outcome:
        return KEEP

    async def intercept_batch_async(self, records: Sequence[Record], where: Where) -> Sequence[Outcome]:
        """Returns one outcome for each record."""
        outcomes: list[Outcome] = []
        for record in records:
            try:
                outcomes.append(await self.intercept_async(record, where))
            except MemoryError:
                raise
            except Exception as problem:  # noqa: BLE001 - as above
                outcomes.append(problem)
        return outcomes
