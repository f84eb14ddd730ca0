"""Journals: a line for each record that was fed, and one for each that a member received.

A line is `ID FINGERPRINT`. The fingerprint covers what a consumer can see of a record: key, value, headers, timestamp.
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
    """What a consumer can see of a record; timestamp in ms since the epoch, set by the producer."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int

    @classmethod
    def of(cls, message: Message) -> JournalRecord:
        """The record in a message that is no error; ValueError when its timestamp is not the producer's."""
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
        """The entry of a record; ValueError when its value holds no order id."""
        try:
            identity = json.loads(record.value or b"")["order"]
        except (KeyError, TypeError, ValueError) as problem:
            raise ValueError(f"a record without an order id: {record}") from problem
        return cls(RecordId(identity), hashlib.sha256(repr(record).encode()).hexdigest()[:24])


class DemoJournal:
    """Appends entries to a file; they are there for readers after `flush`."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="ascii")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, entries: Iterable[Entry]) -> None:
        """Append entries."""
        self._file.writelines(f"{entry.id} {entry.fingerprint}\n" for entry in entries)

    def flush(self) -> None:
        """Show readers what was written."""
        self._file.flush()


def read(path: Path) -> Iterator[Entry]:
    """The entries of a journal, without a last line that is still being written."""
    with path.open(encoding="ascii") as lines:
        for line in lines:
            if line.endswith("\n"):
                identity, _, fingerprint = line.rstrip("\n").partition(" ")
                yield Entry(RecordId(identity), fingerprint)


class Counter:
    """How many entries a growing journal has."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file = path.open("rb")
        self._count = 0

    def count(self) -> int:
        """Entries up to now; reads only what is new."""
        self._count += self._file.read().count(b"\n")
        return self._count


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
