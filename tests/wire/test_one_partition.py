"""A Produce of a single partition passes as it comes, and is then what it is when it is taken whole."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesh.routing.names import LeafNumber
from mesh.routing.translation import LeafTranslation
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.entities import Direction
from mesh.wire.errors import ProtocolError
from mesh.wire.one_partition import LARGEST_BEGINNING, OnePartitionReader, one_partition
from mesh.wire.passing import REQUEST_HEAD, RequestHead
from mesh.wire.relayed_apis import ADVERTISED_APIS
from mesh.wire.relaying import RelayedRequest
from mesh.wire.routed import RoutedConnection
from mesh.wire.trees import Tree, write_tree
from tests.routing.test_translation import Addresses, Tags, batch, translation
from tests.routing.unions import RENAMED, SAME

VERSIONS = range(3, 14)
US = LeafNumber(1)


def large(producer_id: int, size: int = 2_000) -> bytes:
    """A batch of that many bytes."""
    data = batch(producer_id)
    return data[:8] + (size - 12).to_bytes(4, "big") + data[12:] + bytes(size - len(data))


BATCH, IDEMPOTENT = large(-1), large(7)


def produce(version: int, records: bytes, topic: str = "us.orders", **more: Any) -> bytes:
    """A Produce of a single partition, in its frame."""
    data: Tree = {"partition_data": [{"index": 3, "records": records}], "name": topic}
    return framed(version, {"acks": -1, "timeout_ms": 1_000, "topic_data": [data], **more})


def framed(version: int, request: Tree) -> bytes:
    tags = b"\0" if is_flexible(ApiKey.PRODUCE, version) else b""
    rest = b"\0\2me" + tags + write_tree(ApiKey.PRODUCE, version, Direction.REQUEST, request)
    return REQUEST_HEAD.pack(8 + len(rest), ApiKey.PRODUCE, version, 7) + rest


class Wire:
    """The wire of one client, and all that it has passed."""

    def __init__(self, of_leaf: LeafTranslation) -> None:
        self.unanswered: list[RelayedRequest] = []
        served = {key: (min(versions[0], 3), versions[1]) for key, versions in ADVERTISED_APIS.items()}
        self.wire = RoutedConnection(
            served, frozenset(), Addresses(), of_leaf, self.unanswered.append, LARGEST_BEGINNING * 4
        )
        self.passed = b""

    def send(self, data: bytes) -> int:
        """The number of bytes that pass at once."""
        passed = b"".join(self.wire.receive_requests(memoryview(bytearray(data)), 0.0))
        self.passed += passed
        return len(passed)

    def send_in_parts(self, frame: bytes, cuts: Sequence[int]) -> None:
        for start, end in pairwise([0, *sorted(cuts), len(frame)]):
            self.send(frame[start:end])


def whole(of_leaf: LeafTranslation, frame: bytes) -> bytes | None:
    """The frame for the cluster when it is taken whole; None: it does not pass."""
    head = RequestHead(*REQUEST_HEAD.unpack_from(frame))
    translated = of_leaf.request(head, memoryview(bytearray(frame)))
    return None if translated is None else b"".join(translated.frame)


LEAVES = [
    pytest.param(LeafNumber(0), SAME, None, "orders", id="the same names"),
    pytest.param(US, RENAMED, None, "us.orders", id="other names"),
    pytest.param(US, RENAMED, Tags(), "us.orders", id="other producer ids"),
    pytest.param(LeafNumber(0), SAME, None, "us.orders", id="elsewhere"),
]


@pytest.mark.parametrize(("leaf", "config", "tags", "topic"), LEAVES)
@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=15)
@given(data=st.data())
def test_it_is_what_it_is_when_it_is_taken_whole(
    leaf: LeafNumber, config: dict[str, Any], tags: Tags | None, topic: str, version: int, data: st.DataObject
) -> None:
    records = data.draw(st.sampled_from([BATCH, IDEMPOTENT, b"x", b"\0" * 200, BATCH + IDEMPOTENT]))
    acks = data.draw(st.sampled_from([-1, 1]))  # without acks one for another cluster ends the connection
    name = data.draw(st.sampled_from([None, "us.pay"]))
    frame = produce(version, records, topic, acks=acks, transactional_id=name)
    cuts = data.draw(st.lists(st.integers(1, len(frame)), max_size=6))
    of_leaf = translation(leaf, config, tags)
    wire = Wire(of_leaf)
    wire.send_in_parts(frame, cuts)
    expected = whole(of_leaf, frame)
    assert wire.passed == (expected or b"")
    assert wire.wire.local == ([] if expected is not None else [frame])
    assert wire.wire.in_flight == 1
    assert wire.wire.unread == 0


@pytest.mark.parametrize(("leaf", "config", "tags", "topic"), LEAVES[:3])
@pytest.mark.parametrize("version", range(3, 13))
def test_it_passes_before_its_records_have_come(
    leaf: LeafNumber, config: dict[str, Any], tags: Tags | None, topic: str, version: int
) -> None:
    frame = produce(version, BATCH, topic)
    wire = Wire(translation(leaf, config, tags))
    assert wire.send(frame[:200]) > 150
    assert wire.wire.unread == len(frame) - 200
    assert len(wire.wire.under_way([ApiKey.PRODUCE])) == 1, "a move of its topic waits for it"
    assert wire.send(frame[200:300]) == 100
    wire.wire.passed(len(frame) - 300)
    wire.passed += frame[300:]
    assert wire.passed == whole(translation(leaf, config), frame)
    wire.send(frame)
    assert wire.passed == 2 * (whole(translation(leaf, config), frame) or b"")


def test_without_acks_it_is_taken_whole() -> None:
    """Nothing would show whether all of it has passed when its topic is moved."""
    frame = produce(9, BATCH, acks=0)
    wire = Wire(translation())
    assert not wire.send(frame[:-1])
    assert not wire.unanswered
    wire.send(frame[-1:])
    assert wire.passed == whole(translation(), frame)
    assert len(wire.unanswered) == 1
    assert wire.wire.in_flight == 0


@pytest.mark.parametrize("version", [8, 9])
def test_one_that_comes_byte_by_byte_passes_soon(version: int) -> None:
    frame = produce(version, BATCH)
    wire = Wire(translation())
    for at in range(200):
        wire.send(frame[at : at + 1])
    assert len(wire.passed) > 100
    wire.send(frame[200:])
    assert wire.passed == whole(translation(), frame)


@pytest.mark.parametrize("version", [8, 9])
def test_a_record_that_may_get_another_producer_id_waits_for_the_rest(version: int) -> None:
    frame = produce(version, IDEMPOTENT)
    wire = Wire(translation(tags=Tags()))
    assert not wire.send(frame[:-1])
    assert wire.send(frame[-1:])
    assert wire.passed == whole(translation(tags=Tags()), frame)
    assert IDEMPOTENT not in wire.passed


@pytest.mark.parametrize("version", [8, 9])
def test_two_partitions_wait_for_each_other(version: int) -> None:
    """The second topic is elsewhere, so nothing may pass."""
    topics = [{"name": each, "partition_data": [{"index": 0, "records": BATCH}]} for each in ("us.orders", "orders")]
    frame = framed(version, {"acks": -1, "timeout_ms": 1, "topic_data": topics})
    wire = Wire(translation())
    assert not wire.send(frame[:-1])
    assert not wire.send(frame[-1:])
    assert wire.wire.local == [frame]
    frame = framed(version, {"acks": -1, "timeout_ms": 1, "topic_data": topics[:1] * 2})
    wire = Wire(translation())
    assert not wire.send(frame[:-1])
    assert wire.send(frame[-1:])


def test_each_is_judged_by_its_own_names() -> None:
    """Also behind one that has passed with another topic or transaction."""
    names = [("us.orders", None), ("us.orders", None), ("orders", None), ("us.orders", "pay"), ("us.orders", "us-pay")]
    of_leaf = translation(config=SAME)
    for topic, transaction in (*names, *reversed(names)):
        frame = produce(9, BATCH, topic, transactional_id=transaction)
        found = one_partition(9, memoryview(frame), len(frame))
        assert found is not None
        assert found != "incomplete"
        assert of_leaf.passes_unchanged(found) is (topic == "us.orders" and transaction != "pay")


def test_a_whole_one_passes_by_what_stands_in_front_of_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = produce(9, BATCH)
    wire = Wire(translation(config=SAME))
    monkeypatch.setattr(LeafTranslation, "request", None)
    assert wire.send(frame) == len(frame)
    assert wire.passed == frame
    assert [each.api_key for each in wire.wire.under_way([ApiKey.PRODUCE])] == [ApiKey.PRODUCE]


@pytest.mark.parametrize("version", [8, 9])
def test_one_for_another_cluster_without_acks_ends_the_connection(version: int) -> None:
    frame = produce(version, BATCH, "orders", acks=0)
    wire = Wire(translation())
    assert not wire.send(frame)
    assert isinstance(wire.wire.problem, ProtocolError)


def test_tagged_fields_behind_the_records_are_read_first() -> None:
    frame = produce(9, BATCH)
    tagged = frame[:-1] + b"\1\5\1x"
    tagged = REQUEST_HEAD.pack(len(tagged) - 4, ApiKey.PRODUCE, 9, 7) + tagged[REQUEST_HEAD.size :]
    wire = Wire(translation())
    assert not wire.send(tagged[:200])
    assert wire.send(tagged[200:])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_beginning_is_incomplete_until_it_is_known(version: int) -> None:
    frame = memoryview(produce(version, BATCH, transactional_id="pay"))
    found = one_partition(version, frame, len(frame))
    assert found is not None
    assert found != "incomplete"
    assert bytes(frame[found.records_at :][: len(BATCH)]) == BATCH
    for end in range(REQUEST_HEAD.size, found.records_at):
        assert one_partition(version, frame[:end], len(frame)) == "incomplete"
    assert one_partition(version, frame[: found.records_at], len(frame)) == found
    assert one_partition(version, frame, len(frame) + 1) is None


@st.composite
def beginnings(draw: st.DrawFn) -> tuple[int, memoryview, int]:
    """A version, the first bytes of a Produce of one or two partitions, and its size; most differ little."""
    version = draw(st.sampled_from([8, 9, 9, 9, 13]))
    records = large(-1, draw(st.sampled_from([61, 127, 128, 2_000])))
    partition = {"index": draw(st.integers(-1, 300)), "records": records}
    partitions = [partition] * draw(st.sampled_from([1, 1, 1, 2]))
    topic = {"name": draw(st.sampled_from(["orders", "orders", "us.orders"])), "partition_data": partitions}
    name = draw(st.sampled_from([None, None, "pay", "x" * 2_000]))
    request = {"acks": draw(st.sampled_from([-1, -1, 1])), "timeout_ms": 1_000, "transactional_id": name}
    frame = bytearray(framed(version, {**request, "topic_data": [topic]}))
    if draw(st.integers(0, 9)) == 0:
        frame[draw(st.integers(REQUEST_HEAD.size, min(len(frame) - 1, 60)))] = draw(st.integers(0, 255))
    return version, memoryview(frame)[: draw(st.integers(REQUEST_HEAD.size, len(frame)))], len(frame)


@settings(max_examples=400)
@given(requests=st.lists(beginnings(), min_size=2, max_size=6))
def test_a_reader_that_knows_the_request_before_reads_the_same(requests: list[tuple[int, memoryview, int]]) -> None:
    reader = OnePartitionReader()
    for version, beginning, size in requests:
        assert reader.read(version, beginning, size) == one_partition(version, beginning, size)


def test_a_reader_does_not_take_a_topic_id_for_the_name_before() -> None:
    """The compact name of 15 bytes, its length in front, is a topic id of a later version."""
    name = "a" * 15
    named, of_id = produce(9, BATCH, name), produce(13, BATCH)
    at = of_id.index(bytes(16))
    of_id = of_id[:at] + b"\x10" + name.encode() + of_id[at + 16 :]
    assert named[12:60] == of_id[12:60]
    reader = OnePartitionReader()
    for version, frame in ((9, memoryview(named)), (13, memoryview(of_id))):
        assert reader.read(version, frame, len(frame)) == one_partition(version, frame, len(frame))


def test_a_reader_keeps_few_bytes() -> None:
    reader = OnePartitionReader()
    for name in ("pay", "x" * 30_000):
        frame = memoryview(produce(9, BATCH, transactional_id=name))
        assert reader.read(9, frame, len(frame)) == one_partition(9, frame, len(frame))
    assert len(reader._fields) < 100


def test_what_is_no_produce_of_one_partition() -> None:
    nothing = {"acks": -1, "timeout_ms": 1, "topic_data": []}
    for version in (8, 9):
        for request in (nothing, {**nothing, "topic_data": [{"name": "orders", "partition_data": []}]}):
            frame = memoryview(framed(version, request))
            assert one_partition(version, frame, len(frame)) is None


def test_a_beginning_without_end_is_looked_at_a_few_times_only() -> None:
    """A text of the header that takes all of the room: it waits until it is whole, and is then refused."""
    frame = produce(9, BATCH)
    tags = b"\1\5" + b"\x80\x80\x14" + bytes(5 << 16)
    long = frame[:16] + tags + frame[17:]
    long = REQUEST_HEAD.pack(len(long) - 4, ApiKey.PRODUCE, 9, 7) + long[REQUEST_HEAD.size :]
    wire = Wire(translation())
    wire.send_in_parts(long, range(1_000, len(long), 1_000))
    assert wire.passed == whole(translation(), long)
