"""Pages of the journal: each has many events, column by column, in Avro's single-object encoding.

The first ten bytes of a page name the schema that it was written with (`C3 01` and a CRC-64-AVRO fingerprint, Avro 1.12
"Single-object encoding"). So a reader recognizes every version by them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

import fastavro

VERSION: Final = 5
"""The version that is written. 2 added `empty` and `deleted`, 3 `truncated`, 4 `given_up`, 5 `replayed`."""
MARKER: Final = b"\xc3\x01"
UNKNOWN_AGE: Final = -(1 << 63)
LARGEST_PAGE: Final = 64 << 20
"""The largest page in bytes; no topic takes as much in one record."""


class NotAPage(ValueError):
    """Raised for bytes that are no page of a journal, or a page of an unknown version."""


def schema_text(version: int = VERSION) -> str:
    """Returns the schema of a version, as JSON text."""
    return resources.files("mesh.journal").joinpath(f"schema-{version}.avsc").read_text()


def _prefix(schema: Any) -> bytes:
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    return MARKER + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))


_VERSIONS: Final[list[Any]] = [fastavro.parse_schema(json.loads(schema_text(each))) for each in range(1, VERSION + 1)]
SCHEMA: Final[Any] = _VERSIONS[-1]
PREFIX: Final = _prefix(SCHEMA)
_SCHEMAS: Final[dict[bytes, Any]] = {_prefix(each): each for each in _VERSIONS}
"""The schemas of all versions that were ever written."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the journal, as readers get it. Times are in ms since the epoch. last: less than `first` if the
    event is about no offset. produced: -1 if it is not known."""

    event: str
    time: int
    virtual_cluster: str
    group: str
    cluster: str
    topic: str
    partition: int
    first: int
    last: int
    member: str
    client_id: str
    host: str
    lease: str
    deliveries: int
    produced: int


class Page:
    """A page that is being written. begun: the time of its first event, in ms since the epoch."""

    __slots__ = ("_columns", "_holders", "_partitions", "_pools", "begun")

    def __init__(self, begun: int) -> None:
        self.begun = begun
        self._pools: dict[tuple[str, str], int] = {}
        self._partitions: dict[tuple[str, str, int], int] = {}
        self._holders: dict[tuple[str, str, str, str], int] = {}
        self._columns: tuple[list[Any], ...] = ([], [], [], [], [], [], [], [], [])

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(
        self,
        event: str,
        time: int,
        pool: tuple[str, str],
        partition: tuple[str, str, int],
        holder: tuple[str, str, str, str],
        first: int,
        last: int,
        deliveries: int,
        produced: int,
    ) -> None:
        """Adds an event. time: ms since the epoch. holder: member, client id, host, lease. produced: ms since the
        epoch; -1 if that is not known."""
        events, after, pools, partitions, holders, firsts, offsets, counts, ages = self._columns
        events.append(event)
        after.append(time - self.begun)
        pools.append(self._pools.setdefault(pool, len(self._pools)))
        partitions.append(self._partitions.setdefault(partition, len(self._partitions)))
        holders.append(self._holders.setdefault(holder, len(self._holders)))
        firsts.append(first)
        offsets.append(last - first + 1)
        counts.append(deliveries)
        ages.append(time - produced if produced >= 0 else UNKNOWN_AGE)

    def encode(
        self, process: str, run: str, sequence: int, dropped: int = 0, dropped_since: int = 0, is_last: bool = False
    ) -> bytes:
        events, after, pools, partitions, holders, firsts, offsets, counts, ages = self._columns
        page = {
            "process": process,
            "run": run,
            "sequence": sequence,
            "is_last": is_last,
            "time": self.begun,
            "dropped": dropped,
            "dropped_since": dropped_since,
            "pools": [{"virtual_cluster": name, "group": group} for name, group in self._pools],
            "partitions": [
                {"cluster": cluster, "topic": topic, "partition": partition}
                for cluster, topic, partition in self._partitions
            ],
            "holders": [
                {"member": member, "client_id": client_id, "host": host, "lease": lease}
                for member, client_id, host, lease in self._holders
            ],
            "event": events,
            "after": after,
            "pool": pools,
            "partition": partitions,
            "holder": holders,
            "first": firsts,
            "offsets": offsets,
            "deliveries": counts,
            "age": ages,
        }
        written = io.BytesIO()
        written.write(PREFIX)
        fastavro.schemaless_writer(written, SCHEMA, page)
        return written.getvalue()


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page that was read. columns: as in the schema. Those of `COLUMNS` have the same length."""

    process: str
    run: str
    sequence: int
    is_last: bool
    time: int
    dropped: int
    dropped_since: int
    columns: dict[str, list[Any]]

    def __iter__(self) -> Iterator[Event]:
        columns = self.columns
        pools, partitions, holders = columns["pools"], columns["partitions"], columns["holders"]
        for event, after, pool, partition, holder, first, offsets, deliveries, age in zip(
            *(columns[name] for name in COLUMNS), strict=True
        ):
            time = self.time + after
            values: list[Any] = [event, time, *pools[pool].values(), *partitions[partition].values()]
            values += [first, first + offsets - 1, *holders[holder].values()]
            values += [deliveries, time - age if age != UNKNOWN_AGE else -1]
            yield Event(*values)


COLUMNS: Final[Sequence[str]] = (
    *("event", "after", "pool", "partition", "holder", "first", "offsets", "deliveries", "age"),
)


def decode(data: bytes) -> ReadPage:
    """Reads a page. Raises NotAPage."""
    schema = _SCHEMAS.get(bytes(data[: len(PREFIX)]))
    if schema is None or len(data) > LARGEST_PAGE:
        raise NotAPage(f"{len(data)} bytes that begin with {bytes(data[: len(PREFIX)]).hex()}")
    try:
        found: Any = fastavro.schemaless_reader(io.BytesIO(data[len(PREFIX) :]), schema, None)
    except Exception as problem:
        raise NotAPage(repr(problem)) from problem
    if len({len(found[name]) for name in COLUMNS}) != 1:
        raise NotAPage("its columns are not of the same length")
    values: dict[str, Any] = {name: found[name] for name in ("process", "run", "sequence", "is_last", "dropped")}
    values |= {name: round(found[name].timestamp() * 1000) for name in ("time", "dropped_since")}
    return ReadPage(**values, columns={name: found[name] for name in ("pools", "partitions", "holders", *COLUMNS)})
