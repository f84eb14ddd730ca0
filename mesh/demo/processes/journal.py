"""Journals: a line for each record that was fed, and one for each that a member received.

A line is `ID FINGERPRINT`. The fingerprint covers everything that a consumer sees of a record: key, value, headers,
timestamp.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NewType, Self, cast

from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

RecordId = NewType("RecordId", str)


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """A record as a consumer sees it; timestamp in ms since the epoch, set by the producer."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int

    @classmethod
    def of(cls, message: Message) -> JournalRecord:
        """Returns the record in a message without an error. Raises ValueError when its timestamp is not the
        producer's."""
        kind, timestamp = message.timestamp()
        if kind != TIMESTAMP_CREATE_TIME:
            raise ValueError(f"a timestamp of type {kind} instead of {TIMESTAMP_CREATE_TIME}")
        pairs = cast(list[tuple[str, bytes | None]], message.headers() or [])
        return cls(_bytes(message.key()), _bytes(message.value()), tuple(pairs), timestamp)


@dataclass(frozen=True, slots=True)
class Entry:
    """One record in a journal."""

    id: RecordId
    fingerprint: str

    @classmethod
    def of(cls, record: JournalRecord) -> Entry:
        """Returns the entry of a record. Raises ValueError when its value has no order id."""
        try:
            identity = json.loads(record.value or b"")["order"]
        except (KeyError, TypeError, ValueError) as problem:
            raise ValueError(f"a record without an order id: {record}") from problem
        return cls(RecordId(identity), hashlib.sha256(repr(record).encode()).hexdigest()[:24])


class DemoJournal:
    """A journal that is being written. Readers see the entries after `flush`."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="ascii")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, entries: Iterable[Entry]) -> None:
        """Appends entries."""
        self._file.writelines(f"{entry.id} {entry.fingerprint}\n" for entry in entries)

    def flush(self) -> None:
        """Makes the written entries visible to readers."""
        self._file.flush()


def read(path: Path) -> Iterator[Entry]:
    """Yields the entries of a journal, without a last line that is still being written."""
    with path.open(encoding="ascii") as lines:
        for line in lines:
            if line.endswith("\n"):
                identity, _, fingerprint = line.rstrip("\n").partition(" ")
                yield Entry(RecordId(identity), fingerprint)


class Counter:
    """A counter of the entries of a growing journal."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file = path.open("rb")
        self._count = 0

    def count(self) -> int:
        """Returns the number of entries so far. Reads only new ones."""
        self._count += self._file.read().count(b"\n")
        return self._count


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
