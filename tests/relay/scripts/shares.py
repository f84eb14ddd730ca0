"""Share groups."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

from tests.relay.scripts.records import batch
from tests.relay.sides import ASKED, OTHER, Side, spelt

_LEAVES = -1
_OPENS, _CLOSES = 0, -1
_ACCEPT, _RELEASE = 1, 2
_GROUP_RESOURCE = 32
_WHILE = 20_000
"""Milliseconds to wait for existing records."""
_NOBODY = UUID(int=4711)


def _member(kind: str) -> str:
    """The clients choose the ids of these members; brokers read them as uuids."""
    return spelt(uuid5(_NOBODY, kind))


def _share_group_heartbeat(side: Side, version: int) -> None:
    group, member_id = side.name("sharers"), _member("heartbeat")
    # Otherwise the epochs would show when the coordinator has an entry for the group.
    _join(side, group, _member("before"))
    _leave(side, group, _member("before"))

    def ask(at: int = ASKED, **given: Any) -> Any:
        return side.ask("share_group_heartbeat", version, at, **{"group_id": group, "member_id": member_id, **given})

    answer = ask(member_epoch=0, subscribed_topic_names=[side.topic])
    ask(member_epoch=answer.member_epoch)
    ask(member_epoch=99)
    ask(member_epoch=answer.member_epoch, member_id="nobody")
    ask(member_epoch=0, subscribed_topic_names=[side.topic], at=OTHER)
    ask(member_epoch=0, subscribed_topic_names=[], group_id="")
    ask(member_epoch=_LEAVES)
    ask(member_epoch=_LEAVES)


def _share_group_describe(side: Side, version: int) -> None:
    group, member_id = side.name("described-sharers"), _member("describe")
    _join(side, group, member_id)
    for is_authorized in (False, True):
        names = [group, side.name("no-group")]
        side.ask("share_group_describe", version, group_ids=names, include_authorized_operations=is_authorized)
    _leave(side, group, member_id)
    side.ask("share_group_describe", version, group_ids=[group, ""])


def _share_fetch(side: Side, version: int) -> None:
    group, member_id, partition = side.name(f"fetchers-{version}"), _member("fetch"), 10 + version
    topic = _readable(side, group, member_id, partition)

    def ask(epoch: int, *topics: Any, at: int = ASKED, **given: Any) -> Any:
        limits = {"max_wait": 1, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 2, "batch_size": 2}
        values = {"group_id": group, "member_id": member_id, "share_session_epoch": epoch, **limits, "topics": topics}
        return side.ask("share_fetch", version, at, **{**values, **given})

    ask(_OPENS, topic, max_wait=_WHILE)
    settled = {"first_offset": 0, "last_offset": 1, "acknowledge_types": [_ACCEPT]}
    acknowledged = {"partition_index": partition, "acknowledgement_batches": [settled]}
    # A broker of 4.3.1 answers it only at the end of its time, with records that were there from the start.
    ask(1, {**topic, "partitions": [acknowledged]}, max_wait=300)
    ask(7)
    ask(2, {"topic_id": _NOBODY, "partitions": [{"partition_index": 0}]})
    ask(_CLOSES)
    ask(_CLOSES)
    ask(_OPENS, topic, group_id=None)
    # A partition of another node: the answer names that node.
    ask(_OPENS, topic, at=OTHER)
    _leave(side, group, member_id)


def _share_acknowledge(side: Side, version: int) -> None:
    group, member_id, partition = side.name(f"settlers-{version}"), _member("settle"), 14 + version
    topic = _readable(side, group, member_id, partition)
    member = {"group_id": group, "member_id": member_id}
    limits = {"max_wait": _WHILE, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 4, "batch_size": 4}
    side.ask("share_fetch", version, **member, **limits, share_session_epoch=_OPENS, topics=[topic])

    def ask(epoch: int, first: int, last: int, *types: int, at: int = ASKED, **given: Any) -> None:
        settled = {"first_offset": first, "last_offset": last, "acknowledge_types": types}
        partitions = [{"partition_index": partition, "acknowledgement_batches": [settled]}]
        values = {**member, "share_session_epoch": epoch, "topics": [{**topic, "partitions": partitions}], **given}
        side.ask("share_acknowledge", version, at, **values)

    ask(1, 0, 0, _ACCEPT)
    ask(2, 1, 2, _ACCEPT, _RELEASE)
    ask(3, 0, 0, _ACCEPT)
    ask(4, 99, 99, _ACCEPT)
    ask(5, 0, 0, 77)
    ask(9, 0, 0, _ACCEPT)
    ask(1, 0, 0, _ACCEPT, member_id=_member("nobody"))
    side.ask(
        "share_fetch", version, OTHER, **member, **{**limits, "max_wait": 1}, share_session_epoch=_OPENS, topics=[topic]
    )
    ask(1, 0, 0, _ACCEPT, at=OTHER)
    ask(_CLOSES, 3, 3, _ACCEPT)
    _leave(side, group, member_id)


def _describe_share_group_offsets(side: Side, version: int) -> None:
    group, member_id, partition = side.name(f"share-offsets-{version}"), _member("offsets"), 6 + version
    _readable(side, group, member_id, partition)
    _leave(side, group, member_id)
    # Neither an empty list of topics nor a missing partition: a broker of 4.3.1 does not answer these.
    for topics in (None, [{"topic_name": side.topic, "partitions": [partition]}], [{"topic_name": "nobody"}]):
        several = [{"group_id": group, "topics": topics}, {"group_id": side.name("no-group"), "topics": topics}]
        side.ask("describe_share_group_offsets", version, groups=several)


def _alter_share_group_offsets(side: Side, version: int) -> None:
    def ask(group: str, topic: str, partition: int, offset: int) -> None:
        partitions = [{"partition_index": partition, "start_offset": offset}]
        topics = [{"topic_name": topic, "partitions": partitions}]
        side.ask("alter_share_group_offsets", version, group_id=group, topics=topics)

    group, member_id, partition = side.name("altered"), _member("alter"), 4
    _readable(side, group, member_id, partition)
    ask(group, side.topic, partition, 2)
    _leave(side, group, member_id)
    ask(group, side.topic, partition, 2)
    ask(group, side.topic, 99, 2)
    ask(group, "nobody-knows-it", 0, 2)
    ask(side.name("no-group"), side.topic, partition, 0)


def _delete_share_group_offsets(side: Side, version: int) -> None:
    group, member_id = side.name("deleted"), _member("delete")
    _readable(side, group, member_id, 5)

    def ask(group: str, *topics: str) -> None:
        named = [{"topic_name": each} for each in topics]
        side.ask("delete_share_group_offsets", version, group_id=group, topics=named)

    ask(group, side.topic)
    _leave(side, group, member_id)
    ask(group, side.topic, "nobody-knows-it")
    ask(group, side.topic)
    ask(side.name("no-group"), side.topic)


def _readable(side: Side, group: str, member_id: str, partition: int) -> dict[str, Any]:
    """A member of a group that begins at the first record, and a partition with records, as a topic to fetch."""
    begins = [{"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}]
    resource = {"resource_type": _GROUP_RESOURCE, "resource_name": group, "configs": begins}
    side.prepare("incremental_alter_configs", 1, resources=[resource])
    records = batch(b"one", b"two", b"three", b"four")
    data = [{"name": side.topic, "partition_data": [{"index": partition, "records": records}]}]
    side.prepare("produce", 12, acks=-1, timeout=10_000, topic_data=data)
    _join(side, group, member_id)
    return {"topic_id": side.topic_id, "partitions": [{"partition_index": partition}]}


def _join(side: Side, group: str, member_id: str) -> None:
    """Returns when the member is assigned the side's topic: then the group has a place in it, without which a fetch may
    fail."""
    side.until(
        "share_group_heartbeat",
        1,
        lambda answer: answer.assignment and answer.assignment.topic_partitions,
        group_id=group,
        member_id=member_id,
        member_epoch=0,
        subscribed_topic_names=[side.topic],
    )


def _leave(side: Side, group: str, member_id: str) -> None:
    side.prepare("share_group_heartbeat", 1, group_id=group, member_id=member_id, member_epoch=_LEAVES)


SCRIPTS = {
    "share_group_heartbeat": _share_group_heartbeat,
    "share_group_describe": _share_group_describe,
    "share_fetch": _share_fetch,
    "share_acknowledge": _share_acknowledge,
    "describe_share_group_offsets": _describe_share_group_offsets,
    "alter_share_group_offsets": _alter_share_group_offsets,
    "delete_share_group_offsets": _delete_share_group_offsets,
}
