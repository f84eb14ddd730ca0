"""The poll loop of the consumers written in Python: one script, whichever library carries it out."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

from tests.clients.script import Script

DEAD = 70
"""The exit code of a process that died of a record."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A record as the library shows it; timestamp in ms, of Kafka's types (0 create, 1 log append)."""

    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class Consumer(ABC):
    """A started consumer: subscribed, or with all partitions assigned."""

    @abstractmethod
    def poll(self) -> Sequence[Seen]:
        """Polls for 0.2 s at most."""

    @abstractmethod
    def commit(self) -> bool:
        """Commits everything polled; waits for the answer, and returns whether it succeeded."""

    def commit_without_waiting(self) -> None:
        """Commits all polled records, without waiting."""
        raise NotImplementedError(f"{type(self).__name__} cannot")

    def commit_positions(self, positions: Mapping[int, int]) -> bool:
        """Commits these next offsets by partition; waits for the answer, and returns whether all succeeded."""
        raise NotImplementedError(f"{type(self).__name__} cannot")

    @abstractmethod
    def pause(self) -> None:
        """Pauses all assigned partitions."""

    @abstractmethod
    def resume(self) -> None:
        """Resumes all assigned partitions."""

    @abstractmethod
    def seek(self, partition: int, offset: int) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def sleep(self, seconds: float) -> None:
        """The work on a record."""
        time.sleep(seconds)


class HandlerFailed(Exception):
    """Raised by the handler of a script that throws."""


class Run:
    """The script from the first poll until SIGTERM."""

    def __init__(self, script: Script, start: Callable[[Script], Consumer]) -> None:
        self._script = script
        self._start = start
        self._handled = 0
        self._uncommitted: dict[int, int] = {}
        self._positions: dict[int, int] = {}
        """The handled and uncommitted positions of its current partitions."""
        self._assignment = 0
        self._has_acted = not script.act
        self._stopped = False
        self._is_commit_due = False
        """True if the last commit failed, for example because of a rebalance."""

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        while not self._stopped:
            consumer, self._is_commit_due = self._start(self._script), False
            try:
                while not self._stopped:
                    self._round(consumer)
            except HandlerFailed:
                report("acted")
            finally:
                consumer.close()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopped = True

    def _round(self, consumer: Consumer) -> None:
        seen = consumer.poll()
        if self._assignment != assignment():
            self._assignment = assignment()
            self._positions.clear()
        for record in seen:
            self._handle(record, consumer)
        sys.stdout.flush()
        if not self._has_acted and self._handled >= self._script.act_after:
            self._act(consumer)
        elif seen and self._script.commit == "async":
            consumer.commit_without_waiting()
        elif (seen or self._is_commit_due) and self._script.commit == "sync" and self._commits:
            self._is_commit_due = not consumer.commit()
            if not self._is_commit_due:
                self._uncommitted.clear()
                report("committed")

        elif self._positions and self._script.commit == "positions":
            self._commit_positions(consumer)

    def _commit_positions(self, consumer: Consumer) -> None:
        positions = dict(self._positions)
        if consumer.commit_positions(positions) and self._assignment == assignment():
            self._positions.clear()
            report("committed", offsets=positions)

    @property
    def _commits(self) -> bool:
        return self._has_acted or self._script.act != "seek"

    def _handle(self, record: Seen, consumer: Consumer) -> None:
        self._handled += 1
        show(record)
        self._uncommitted.setdefault(record.partition, record.offset)
        self._positions[record.partition] = record.offset + 1
        if self._script.dies_of and (record.value or b"").startswith(self._script.dies_of.encode()):
            sys.stdout.flush()
            os._exit(DEAD)
        consumer.sleep(self._script.seconds_per_record)
        if self._has_acted or self._handled != self._script.act_after:
            return
        match self._script.act:
            case "throw":
                self._has_acted = True
                raise HandlerFailed
            case "stall":
                sys.stdout.flush()
                consumer.sleep(self._script.act_seconds)

    def _act(self, consumer: Consumer) -> None:
        self._has_acted = True
        if self._script.act == "pause":
            consumer.pause()
            for _ in range(3):
                for record in consumer.poll():
                    self._handle(record, consumer)
            consumer.resume()
        elif self._script.act == "seek":
            for partition, offset in self._uncommitted.items():
                consumer.seek(partition, offset)
            self._positions.clear()  # it goes back to these positions
        report("acted")


def show(record: Seen) -> None:
    """Writes the line of a record; does not flush."""
    line = {
        "event": "record",
        "at": time.monotonic(),
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [(name, _text(value)) for name, value in record.headers],
    }
    sys.stdout.write(json.dumps(line) + "\n")


_reported: Counter[str] = Counter()


def assignment() -> int:
    """A number that changes whenever partitions are assigned or revoked."""
    return sum(_reported[event] for event in ("assigned", "revoked", "lost"))


def report(
    event: str, partitions: Iterable[int] = (), text: str = "", offsets: Mapping[int, int] | None = None
) -> None:
    """Writes the report of another event; offsets: the next ones by partition, for a commit."""
    _reported[event] += 1
    line = {"event": event, "at": time.monotonic(), "partitions": sorted(partitions), "text": text}
    sys.stdout.write(json.dumps(line | ({"offsets": offsets} if offsets is not None else {})) + "\n")
    sys.stdout.flush()


def run(start: Callable[[Script], Consumer]) -> None:
    """`python -m MODULE SCRIPT`."""
    Run(Script(**json.loads(sys.argv[1])), start).run()


def _text(part: bytes | None) -> str | None:
    return None if part is None else base64.b64encode(part).decode()
