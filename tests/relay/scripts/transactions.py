"""Producers with an identity, and their transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.relay.requests import KEYS
from tests.relay.scripts.records import batch
from tests.relay.sides import ASKED, OTHER, Side

_UNKNOWN = "nobody-knows-it"


def _init_producer_id(side: Side, version: int) -> None:
    name = side.name(f"begins-{version}")

    def ask(at: int = ASKED, **given: Any) -> Any:
        values = {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1, **given}
        return side.ask("init_producer_id", version, at, **values)

    side.prepare_until("init_producer_id", 1, transaction_timeout=60_000)  # the node has a block of ids
    ask(transactional_id=None)
    first = ask(transactional_id=name)
    ask(transactional_id=name)
    ask(transactional_id=name, producer_id=first.producer_id, producer_epoch=first.producer_epoch)
    ask(transactional_id=name, producer_id=4711 << 32, producer_epoch=0)
    ask(transactional_id="")
    ask(transactional_id=name, transaction_timeout=1 << 30)
    ask(transactional_id=name, at=OTHER)


def _add_partitions_to_txn(side: Side, version: int) -> None:
    me = begun(side, f"adds-{version}")

    def ask(topic: str, *partitions: int, is_verified: bool = False, **given: Any) -> None:
        topics = [{"name": topic, "partitions": partitions}]
        old = {f"v3_and_below_{name}": value for name, value in {**me, "topics": topics, **given}.items()}
        new = {**me, "verify_only": is_verified, "topics": topics, **given}
        side.ask("add_partitions_to_txn", version, **old, transactions=[new])

    ask(side.topic, 0, 1)
    ask(side.topic, 0, 1, is_verified=True)
    ask(side.topic, 0, 99)
    ask(_UNKNOWN, 0)
    ask(side.topic, 0, producer_epoch=7)
    ask(side.topic, 0, producer_id=4711 << 32)
    ask(side.topic, 0, transactional_id=side.name("no-transaction"))
    ended(side, me, is_committed=False)


def _add_offsets_to_txn(side: Side, version: int) -> None:
    me = begun(side, f"offsets-{version}")

    def ask(**given: Any) -> None:
        side.ask("add_offsets_to_txn", version, **{**me, "group_id": side.name("a-group"), **given})

    ask()
    ask(producer_epoch=7)
    ask(transactional_id=side.name("no-transaction"))
    ask(group_id="")
    ended(side, me, is_committed=True)


def _end_txn(side: Side, version: int) -> None:
    for is_committed in (True, False):
        me = begun(side, f"ends-{version}-{is_committed}")

        def ask(me: Mapping[str, Any] = me, is_committed: bool = is_committed, **given: Any) -> None:
            side.ask("end_txn", version, **{**me, "committed": is_committed, **given})

        ask(producer_epoch=7)
        ask(transactional_id=side.name("no-transaction"))
        _add(side, me, side.topic, 0)
        ask()
        _until_complete(side, me, is_committed)
        ask()
        ask(committed=not is_committed)


def _txn_offset_commit(side: Side, version: int) -> None:
    me = begun(side, f"commits-{version}")
    group = side.name(f"commits-{version}")
    side.prepare_until("add_offsets_to_txn", 3, **me, group_id=group)

    def ask(topic: str, **given: Any) -> None:
        partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}]
        nobody = {"generation_id": -1, "member_id": ""}
        topics = [{"name": topic, "partitions": [*partitions, {**partitions[0], "partition_index": 99}]}]
        side.ask("txn_offset_commit", version, **{**me, "group_id": group, **nobody, "topics": topics, **given})

    ask(side.topic)
    ask(_UNKNOWN)
    ask(side.topic, member_id="nobody", generation_id=3)
    ask(side.topic, producer_epoch=7)
    ask(side.topic, group_id="")
    ended(side, me, is_committed=True)
    side.prepare("delete_groups", 2, groups_names=[group])


def _write_txn_markers(side: Side, version: int) -> None:
    for partition, is_committed in ((0, True), (1, False), (99, True)):
        marker = {
            "producer_id": 4711 << 20,
            "producer_epoch": 0,
            "transaction_result": is_committed,
            "topics": [{"name": side.topic, "partition_indexes": [partition]}],
            "coordinator_epoch": 0,
            "transaction_version": 1,
        }
        side.ask("write_txn_markers", version, markers=[marker])


def _describe_producers(side: Side, version: int) -> None:
    identity = side.prepare_until("init_producer_id", 4, transaction_timeout=60_000)
    records = batch(b"mine", producer_id=identity.producer_id, epoch=0, sequence=0)
    data = [{"name": side.topic, "partition_data": [{"index": 18, "records": records}]}]
    side.prepare("produce", 12, acks=-1, timeout=10_000, topic_data=data)
    for topic, *partitions in ((side.topic, 18, 99), (side.topic, 17), (_UNKNOWN, 0)):
        side.ask("describe_producers", version, topics=[{"name": topic, "partition_indexes": partitions}])
    side.ask("describe_producers", version, OTHER, topics=[{"name": side.topic, "partition_indexes": [18]}])


def _describe_transactions(side: Side, version: int) -> None:
    me = begun(side, f"described-{version}")
    name = me["transactional_id"]
    for unknown in (side.name("no-transaction"), ""):
        side.ask("describe_transactions", version, transactional_ids=[unknown])
    _add(side, me, side.topic, 0)
    side.ask("describe_transactions", version, transactional_ids=[name])
    ended(side, me, is_committed=True)
    side.ask("describe_transactions", version, OTHER, transactional_ids=[name])


def _list_transactions(side: Side, version: int) -> None:
    for states in ([], ["Ongoing"], ["CompleteCommit", "no state"]):
        for pattern in (None, "of-all.*", "("):
            side.ask("list_transactions", version, state_filters=states, transactional_id_pattern=pattern)
    side.ask("list_transactions", version, producer_id_filters=[4711 << 20], duration_filter=-1)
    side.ask("list_transactions", version, duration_filter=1 << 40)


def begun(side: Side, kind: str) -> Mapping[str, Any]:
    """A transactional producer, with its id and epoch."""
    name = side.name(kind)
    answer = side.prepare_until("init_producer_id", 4, transactional_id=name, transaction_timeout=60_000)
    who = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
    return {"transactional_id": name, **who}


def _add(side: Side, me: Mapping[str, Any], topic: str, partition: int) -> None:
    topics = [{"name": topic, "partitions": [partition]}]
    old = {f"v3_and_below_{name}": value for name, value in {**me, "topics": topics}.items()}
    side.prepare("add_partitions_to_txn", 3, **old)


def ended(side: Side, me: Mapping[str, Any], is_committed: bool) -> None:
    side.prepare_until("end_txn", 3, **me, committed=is_committed)


def _until_complete(side: Side, me: Mapping[str, Any], is_committed: bool) -> None:
    """Waits until its markers are written."""
    if KEYS["describe_transactions"] not in side.shared.versions:
        ended(side, me, is_committed)  # a repetition, which is refused before
        return
    side.until(
        "describe_transactions",
        0,
        lambda answer: answer.transaction_states[0].transaction_state.startswith("Complete"),
        transactional_ids=[me["transactional_id"]],
    )


SCRIPTS = {
    "init_producer_id": _init_producer_id,
    "add_partitions_to_txn": _add_partitions_to_txn,
    "add_offsets_to_txn": _add_offsets_to_txn,
    "end_txn": _end_txn,
    "txn_offset_commit": _txn_offset_commit,
    "write_txn_markers": _write_txn_markers,
    "describe_producers": _describe_producers,
    "describe_transactions": _describe_transactions,
    "list_transactions": _list_transactions,
}
