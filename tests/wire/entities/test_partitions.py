"""Programs with partitions: each number of a partition is asked about, behind the topic that it is of, and no other;
and each epoch of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from mesh.wire.apis import ApiKey
from mesh.wire.entities import Direction, Unchanged, program, program_with_partitions
from mesh.wire.entities.fields import Field
from mesh.wire.entities.kinds import EntityKind
from mesh.wire.entities.layouts import layout
from mesh.wire.trees import Tree, read_tree, write_tree
from tests.wire.entities.messages import MESSAGES, Message, by_side, named_side, sample_body

MOVED = 0x300
OF_PARTITIONS = (
    EntityKind.PARTITION,
    EntityKind.LEADER_EPOCH,
    EntityKind.RECORD_EPOCH,
    EntityKind.END_EPOCH,
    EntityKind.END_OFFSET,
)
"""Each kind changes by its position here."""


class Moving(Unchanged):
    """Partitions get other numbers and epochs. asked: each partition with the topic in front of it."""

    def __init__(self) -> None:
        self._topic: str | UUID | None = None
        self.asked: list[tuple[str | UUID, int]] = []

    def topic(self, name: str) -> str:
        self._topic = name
        return name

    def topic_id(self, topic_id: UUID) -> UUID:
        self._topic = topic_id
        return topic_id

    def partition(self, partition: int) -> int:
        assert self._topic is not None
        self.asked.append((self._topic, partition))
        return partition ^ MOVED

    def leader_epoch(self, epoch: int) -> int:
        return epoch ^ (MOVED + 1)

    def record_epoch(self, epoch: int) -> int:
        return epoch ^ (MOVED + 2)

    def end_epoch(self, epoch: int) -> int:
        return epoch ^ (MOVED + 3)

    def end_offset(self, offset: int) -> int:
        return offset ^ (MOVED + 4)


def moved(fields: Sequence[Field], tree: Tree) -> Tree:
    """The expected message, without the program under test."""
    result = dict(tree)
    for field in fields:
        name, value = field.kafka_name, tree[field.kafka_name]
        if value is None:
            continue
        values = value if field.is_array else [value]
        if field.fields:
            values = [moved(field.fields, each) for each in values]
        elif field.kind in OF_PARTITIONS:
            other = MOVED + OF_PARTITIONS.index(field.kind)
            values = [each ^ other if each >= 0 else each for each in values]
        result[name] = values if field.is_array else values[0]
    return result


def has_partitions(fields: Sequence[Field]) -> bool:
    return any(field.kind is EntityKind.PARTITION or has_partitions(field.fields) for field in fields)


WITH_PARTITIONS = [message for message in MESSAGES if has_partitions(layout(*message))]


@pytest.mark.parametrize("versions", by_side(WITH_PARTITIONS), ids=named_side)
def test_all_numbers_of_partitions_and_no_others(versions: list[Message]) -> None:
    for message in versions:
        body, to = sample_body(*message), Moving()
        told = b"".join(program_with_partitions(*message).translate(memoryview(body), 0, to))
        assert len(told) == len(body), f"{message}: numbers have fixed sizes"
        assert read_tree(*message, told) == moved(layout(*message), read_tree(*message, body)), message
        assert to.asked, message
        others = b"".join(program(*message).translate(memoryview(body), 0, to))
        assert others == body, f"{message}: programs without partitions ask about none"


def test_a_partition_is_one_of_the_topic_in_front_of_it() -> None:
    def asked(name: str, *partitions: int) -> dict[str, Any]:
        return {"name": name, "partition_indexes": [*partitions]}

    request = {"topics": [asked("a", 0, 5), asked("b", 5)]}
    body = write_tree(ApiKey.DESCRIBE_PRODUCERS, 0, Direction.REQUEST, request)
    to = Moving()
    program_with_partitions(ApiKey.DESCRIBE_PRODUCERS, 0, Direction.REQUEST).translate(memoryview(body), 0, to)
    assert to.asked == [("a", 0), ("a", 5), ("b", 5)]


def test_every_message_about_partitions_of_topics_has_them() -> None:
    """The others that have a field of this name: partitions of tasks, and numbers of partitions to create."""
    apis = {api_key for api_key, _, _ in WITH_PARTITIONS}
    assert ApiKey.STREAMS_GROUP_DESCRIBE not in apis
    assert ApiKey.CREATE_PARTITIONS not in apis
    assert len(apis) == 31


def test_the_epochs_of_partitions_are_known_in_every_message_that_has_them() -> None:
    """The epochs that clients and brokers compare: fields that are not listed here have none, or one that is never
    compared."""
    found = {
        (api_key, side, kind) for api_key, version, side in MESSAGES for kind in kinds(layout(api_key, version, side))
    }
    requests = {(api_key, kind) for api_key, side, kind in found if side is Direction.REQUEST}
    responses = {(api_key, kind) for api_key, side, kind in found if side is Direction.RESPONSE}
    assert requests == {
        (ApiKey.FETCH, EntityKind.LEADER_EPOCH),
        (ApiKey.FETCH, EntityKind.RECORD_EPOCH),
        (ApiKey.LIST_OFFSETS, EntityKind.LEADER_EPOCH),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, EntityKind.LEADER_EPOCH),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, EntityKind.RECORD_EPOCH),
        (ApiKey.OFFSET_COMMIT, EntityKind.RECORD_EPOCH),
        (ApiKey.TXN_OFFSET_COMMIT, EntityKind.RECORD_EPOCH),
    }
    assert responses == {
        (ApiKey.PRODUCE, EntityKind.LEADER_EPOCH),
        (ApiKey.FETCH, EntityKind.LEADER_EPOCH),
        (ApiKey.SHARE_FETCH, EntityKind.LEADER_EPOCH),
        (ApiKey.SHARE_ACKNOWLEDGE, EntityKind.LEADER_EPOCH),
        (ApiKey.METADATA, EntityKind.LEADER_EPOCH),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, EntityKind.LEADER_EPOCH),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, EntityKind.END_EPOCH),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, EntityKind.END_OFFSET),
    }


def kinds(fields: Sequence[Field]) -> set[EntityKind]:
    """The kinds of epochs and of the fields that belong to them."""
    own = {field.kind for field in fields if field.kind in OF_PARTITIONS[1:] and field.kind is not None}
    return own.union(*(kinds(field.fields) for field in fields))
