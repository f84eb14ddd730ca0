"""Records in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tests.relay.requests import KEYS, request
from tests.relay.scripts.records import batch, corrupt
from tests.relay.sides import ASKED, OTHER, Side

NOBODY = UUID(int=4711)
_UNKNOWN = "nobody-knows-it"
_LATEST, _EARLIEST = -1, -2
_EPOCHS = (-1, 0, 7)
"""Leader epochs: none, the epoch of a topic whose leader never changed, and a future one."""
_NEVER = 1 << 40


def _produced(side: Side, partition: int, records: bytes, topic: str | None = None) -> Mapping[str, Any]:
    is_known = topic in (None, side.topic, side.shared.topic)
    topic_id = side.shared.topic_id if topic == side.shared.topic else side.topic_id if is_known else NOBODY
    data = [{"index": partition, "records": records}]
    return {"name": topic or side.topic, "topic_id": topic_id, "partition_data": data}


def _produce(side: Side, version: int) -> None:
    def ask(*topics: Mapping[str, Any], **given: Any) -> None:
        side.ask("produce", version, **{"acks": -1, "timeout": 10_000, "topic_data": topics, **given})

    plain = _produced(side, version, batch(b"one", b"two"))
    for acks in (-1, 1, 7):
        ask(plain, acks=acks)
    for codec in (1, 2, 3) if version < 7 else (1, 2, 3, 4):
        ask(_produced(side, version, batch(b"x" * 100, codec=codec)))
    identity = side.prepare_until("init_producer_id", 4, transaction_timeout=60_000)
    for sequence in (0, 0, 1, 5):  # the second one is a duplicate, the last one leaves a gap
        records = batch(b"once", producer_id=identity.producer_id, epoch=0, sequence=sequence)
        ask(_produced(side, version, records))
    # Not null: a broker of 4.3.1 fails at it, never answers, and stops serving that connection.
    for records in (corrupt(batch(b"broken")), b"", b"no batch", batch(b"a") + batch(b"b")):
        ask(_produced(side, version, records))
    ask(_produced(side, 99, batch(b"lost")))
    ask(_produced(side, 0, batch(b"lost"), _UNKNOWN))
    ask(plain, transactional_id=side.name("no-transaction"))
    # A partition of another node: from v10 on the answer names that node.
    side.ask("produce", version, OTHER, acks=-1, timeout=1_000, topic_data=[_produced(side, version, batch(b"astray"))])
    unanswered = request(KEYS["produce"], version, {"acks": 0, "timeout": 1_000, "topic_data": [plain]})
    side.tell_and_ask(unanswered, "produce", version, acks=-1, timeout=10_000, topic_data=[plain])


def _fetched(topic: str, topic_id: UUID | None, *partitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The topics of a Fetch, in the form of all versions."""
    usual = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    return {"topic": topic, "topic_id": topic_id, "partitions": [{**usual, **each} for each in partitions or [{}]]}


def _fetch(side: Side, version: int) -> None:
    shared = side.shared.topic, side.shared.topic_id

    def ask(*topics: Mapping[str, Any], at: int = ASKED, **given: Any) -> Any:
        usual = {"max_wait": 1, "min_bytes": 1, "max_bytes": 1 << 22, "session_epoch": -1, "topics": topics}
        return side.ask("fetch", version, at, **{**usual, **given})

    for isolation_level in (0, 1):
        ask(_fetched(*shared), isolation_level=isolation_level)
    ask(_fetched(*shared, {"partition_max_bytes": 1}), max_bytes=1)
    ask(_fetched(*shared, {"fetch_offset": _NEVER}))
    ask(_fetched(*shared, {"partition": 99}), _fetched(*shared))
    ask(_fetched(_UNKNOWN, NOBODY))
    ask(_fetched(*shared, {"last_fetched_epoch": 7}), rack_id="nowhere")
    for epoch in _EPOCHS:
        ask(_fetched(*shared, {"current_leader_epoch": epoch}))
    for at in (ASKED, OTHER):
        ask(_fetched(*shared, {}, {"partition": 1}, {"partition": 2}), at=at)
    ask(_fetched(side.topic, side.topic_id, {"partition": version}), at=OTHER)  # it has no replica
    if version >= 7:
        _fetch_in_a_session(side, version)


def _fetch_in_a_session(side: Side, version: int) -> None:
    topic, topic_id = side.shared.topic, side.shared.topic_id
    usual = {"max_wait": 1, "min_bytes": 1, "max_bytes": 1 << 22}
    topics = [_fetched(topic, topic_id, {}, {"fetch_offset": 1, "partition": 1})]
    session_id = side.ask("fetch", version, **usual, session_epoch=0, topics=topics).session_id
    session = {**usual, "session_id": session_id}
    side.ask("fetch", version, **session, session_epoch=1)
    forgotten = {"topic": topic, "topic_id": topic_id, "partitions": [1]}
    side.ask("fetch", version, **session, session_epoch=2, topics=[], forgotten_topics_data=[forgotten])
    side.ask("fetch", version, **session, session_epoch=7)
    side.ask("fetch", version, **session, session_epoch=-1)
    side.ask("fetch", version, **{**usual, "session_id": 4711}, session_epoch=1)


def _list_offsets(side: Side, version: int) -> None:
    def ask(topic: str, *partitions: Mapping[str, Any], **given: Any) -> None:
        several = [{"partition_index": 0, **each} for each in partitions]
        usual = {"replica_id": -1, "timeout": 1_000, "topics": [{"name": topic, "partitions": several}]}
        side.ask("list_offsets", version, **{**usual, **given})

    for timestamp in (_LATEST, _EARLIEST, -3, -4, -5, -6, -99, 0, 1_700_000_000_001, _NEVER << 8):
        for isolation_level in (0, 1):
            ask(side.shared.topic, {"timestamp": timestamp}, isolation_level=isolation_level)
    for epoch in _EPOCHS:
        ask(side.shared.topic, {"timestamp": _LATEST, "current_leader_epoch": epoch})
    ask(side.shared.topic, *({"timestamp": _LATEST, "partition_index": each} for each in (0, 1, 2, 99)))
    ask(_UNKNOWN, {"timestamp": _LATEST})
    ask(side.shared.topic, {"timestamp": _LATEST}, {"timestamp": _LATEST})


def _offset_for_leader_epoch(side: Side, version: int) -> None:
    def ask(topic: str, **given: int) -> None:
        partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0, **given}
        side.ask(
            "offset_for_leader_epoch", version, replica_id=-1, topics=[{"topic": topic, "partitions": [partition]}]
        )

    for epoch in _EPOCHS:
        ask(side.shared.topic, leader_epoch=epoch)
        ask(side.shared.topic, current_leader_epoch=epoch)
    ask(side.shared.topic, partition=1)
    ask(_UNKNOWN)


def _delete_records(side: Side, version: int) -> None:
    partition = 18 - version
    data = [_produced(side, partition, batch(b"one", b"two", b"three"))]
    side.prepare("produce", 12, acks=-1, timeout=10_000, topic_data=data)
    for topic, index, offset in (
        (side.topic, partition, 1),
        (side.topic, partition, 0),
        (side.topic, partition, 99),
        (side.topic, partition, -1),
        (side.topic, 99, 0),
        (side.shared.topic, 1, 0),
        (_UNKNOWN, 0, 0),
    ):
        deleted = {"name": topic, "partitions": [{"partition_index": index, "offset": offset}]}
        side.ask("delete_records", version, topics=[deleted], timeout=10_000)


SCRIPTS = {
    "produce": _produce,
    "fetch": _fetch,
    "list_offsets": _list_offsets,
    "offset_for_leader_epoch": _offset_for_leader_epoch,
    "delete_records": _delete_records,
}
