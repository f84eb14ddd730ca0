"""The end of a span that is read again: its last record, or the real end of the log."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast
from unittest.mock import MagicMock

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mesh.records.spans import ClusterName, Span
from mesh.upstream.engine import EngineEvent, Reread, RereadToken
from mesh.upstream.events import EventChannel
from mesh.upstream.librdkafka import reader_thread
from mesh.upstream.librdkafka.reader_thread import ReaderThread, _Reading
from tests.upstream.fakes import message
from tests.upstream.harness import source

SPAN = Span(10, 19)


class Log:
    """A consumer of a log that goes from `low` to `high`; it brings the prepared messages."""

    def __init__(self, messages: Sequence[Message], bounds: tuple[int, int] | KafkaError | None) -> None:
        self.messages = list(messages)
        self.bounds = bounds
        self.assigned: list[int] | None = None

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = [each.offset for each in partitions]

    def unassign(self) -> None:
        self.assigned = None

    def poll(self, timeout: float) -> Message | None:
        assert self.assigned == [SPAN.first]
        assert self.messages, "it would read on"
        return self.messages.pop(0)

    def consume(self, count: int, timeout: float) -> list[Message]:
        return []

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float, cached: bool) -> tuple[int, int] | None:
        assert not cached
        if isinstance(self.bounds, KafkaError):
            raise KafkaException(self.bounds)
        return self.bounds


def read(log: Log) -> Reread:
    events: list[EngineEvent] = []

    class Channel:
        put = staticmethod(events.append)

        def __len__(self) -> int:
            return 0

    reading = _Reading(
        cast(Consumer, log), RereadToken(1), source("orders"), SPAN, cast("EventChannel[EngineEvent]", Channel())
    )
    reading.read(threading.Event())
    assert log.assigned is None, "it would prefetch live traffic"
    (event,) = events
    assert isinstance(event, Reread)
    assert event.complete
    return event


def records(first: int, last: int) -> list[Message]:
    return [message(number) for number in range(first, last + 1)]


def end(offset: int) -> Message:
    return message(offset, problem=KafkaError(KafkaError._PARTITION_EOF))


def spans(event: Reread) -> list[tuple[int, int]]:
    return [(batch.first, batch.last) for batch in event.batches]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (records(10, 25), [(10, 19)]),
        ([*records(10, 12), message(15), message(20)], [(10, 15)]),
        ([*records(10, 17), end(20)], [(10, 17)]),
    ],
)
def test_read_to_its_end(messages: list[Message], expected: list[tuple[int, int]]) -> None:
    event = read(Log(messages, KafkaError(KafkaError._FAIL)))
    assert (spans(event), event.error) == (expected, "")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [(records(14, 25), [(14, 19)]), (records(30, 35), []), ([end(50)], [])],
)
@pytest.mark.parametrize("begins", [0, 14, 40])
def test_where_the_log_begins_that_lacks_the_front_of_the_span(
    messages: list[Message], expected: list[tuple[int, int]], begins: int
) -> None:
    event = read(Log(messages, (begins, 60)))
    assert (spans(event), event.error, event.log_start) == (expected, "", begins)


@pytest.mark.parametrize("bounds", [(0, 20), (0, 21), (0, 16), (17, 30)])
def test_an_end_below_it_that_is_none(bounds: tuple[int, int]) -> None:
    """A new leader whose high watermark lags."""
    event = read(Log([*records(10, 14), end(15)], bounds))
    assert spans(event) == [(10, 14)]
    assert event.error


@pytest.mark.parametrize("bounds", [(0, 15), (0, 5), (20, 30), (17, 17)])
def test_an_end_below_it_that_is_one(bounds: tuple[int, int]) -> None:
    event = read(Log([*records(10, 14), end(15)], bounds))
    assert (spans(event), event.error) == ([(10, 14)], "")


@pytest.mark.parametrize(("bounds", "is_gone"), [((0, 8), True), ((0, 300), False)])
def test_reading_that_falls_back(bounds: tuple[int, int], is_gone: bool) -> None:
    event = read(Log([message(0)], bounds))
    assert (event.batches, event.error == "") == ((), is_gone)


def test_nobody_says_where_it_ends() -> None:
    assert read(Log([end(15)], None)).error
    log = Log([end(15)], KafkaError(KafkaError._TIMED_OUT))
    with pytest.raises(KafkaException):
        read(log)
    assert log.assigned is None


def test_a_reader_survives_what_it_did_not_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    told: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()
    channel = cast("EventChannel[EngineEvent]", SimpleNamespace(put=told.put))

    def fail(*_: object) -> None:
        raise ValueError("a record that cannot be encoded")

    monkeypatch.setattr(_Reading, "read", fail)
    reader = ReaderThread(ClusterName("eu"), {"group.id": "g", "bootstrap.servers": "127.0.0.1:1"}, channel)
    reader.start()
    for _ in range(2):
        reader.read(RereadToken(1), source("orders"), SPAN)
        event = told.get(timeout=30.0)
        assert isinstance(event, Reread)
        assert (event.complete, event.error) == (True, "ValueError('a record that cannot be encoded')")
    reader.stop()
    reader.join(30.0)
    assert not reader.is_alive()


class Halves:
    """A consumer of two partitions, the first of which has no leader."""

    def __init__(self, _properties: object) -> None:
        self._partition = -1

    def assign(self, partitions: list[TopicPartition]) -> None:
        (place,) = partitions
        self._partition = place.partition

    def unassign(self) -> None: ...

    def close(self) -> None: ...

    def poll(self, timeout: float) -> Message | None:
        return message(SPAN.last) if self._partition == 1 else None

    def consume(self, count: int, timeout: float) -> list[Message]:
        return []

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float, cached: bool) -> tuple[int, int]:
        return SPAN.last, SPAN.last + 1


def test_a_span_that_nobody_leads_holds_up_others_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_thread, "Consumer", Halves)
    monkeypatch.setattr(reader_thread, "GIVE_UP", 3_600.0)
    monkeypatch.setattr(reader_thread, "CROWDED", 0.0)
    told: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()

    class Channel:
        put = staticmethod(told.put)

        def __len__(self) -> int:
            return 0

    channel = cast("EventChannel[EngineEvent]", Channel())
    reader = ReaderThread(ClusterName("eu"), {"group.id": "g"}, channel)
    for number in (0, 1):
        reader.read(RereadToken(number), source("orders", number), SPAN)
    reader.start()
    ends = [told.get(timeout=30.0) for _ in (0, 1)]
    assert [(each.token, bool(each.error)) for each in ends if isinstance(each, Reread)] == [(0, True), (1, False)]
    reader.stop()
    reader.join(30.0)


def test_a_consumer_that_cannot_be_closed_ends_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    hooked: list[object] = []
    closed = threading.Event()

    class Unclosable(Halves):
        def close(self) -> None:
            closed.set()
            raise KeyError("relay")

    monkeypatch.setattr(threading, "excepthook", hooked.append)
    monkeypatch.setattr(reader_thread, "Consumer", Unclosable)
    monkeypatch.setattr(reader_thread, "IDLE", 0.0)
    told: queue.SimpleQueue[EngineEvent] = queue.SimpleQueue()
    channel = MagicMock(put=told.put)
    reader = ReaderThread(ClusterName("eu"), {"group.id": "g"}, channel)
    reader.start()
    for number in (1, 2):
        reader.read(RereadToken(number), source("orders", 1), SPAN)
        event = told.get(timeout=30.0)
        assert isinstance(event, Reread)
        assert (event.token, event.error) == (number, "")
        assert closed.wait(30.0)
    reader.stop()
    reader.join(30.0)
    assert hooked
