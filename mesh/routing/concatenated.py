"""Concatenated topics: clients see one topic, whose partitions are those of topics of several leaves.

Each part has a declared *width*: the number of partitions that clients see of it. So a partition's number alone says
which part it belongs to, whatever the clusters have. Clients see partitions that a part lacks without a leader, and do
not see partitions beyond its width.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid5

from mesh.routing.names import LeafNumber
from mesh.wire.errors import ErrorCode
from mesh.wire.part_walker import Shift
from mesh.wire.trees import Tree

_NAMESPACE: Final = UUID("9d3c2b3e-5f0b-5f57-9a3b-3a1d1a2f6c4e")
_NO_NODE: Final = -1
NO_EPOCH: Final = -1
EPOCHS_PER_MOVE: Final = 1 << 20
"""The most leader elections that a partition may have had in one cluster while the epochs that clients see still
rise."""
HIGHEST_EPOCH: Final = (1 << 31) - 1
_NO_END: Final = (1 << 63) - 1
"""The end of an epoch's log that was never truncated."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a concatenated topic: a topic of a leaf.

    name, id: the concatenated topic's name and id, as clients know them. leaf, topic: the leaf that has the part, and
    the topic's name there. first: the number by which clients know partition 0 of the part. width: the number of
    partitions that clients see of it. epoch_offset: added to the leader epochs of the leaf, so that clients see epochs
    rise when a topic moves to another cluster (`epoch_offset_after`); 0 for a topic that was not moved.
    """

    name: str
    id: UUID
    leaf: LeafNumber
    topic: str
    first: int
    width: int
    epoch_offset: int = 0

    @property
    def end(self) -> int:
        """The clients' number after that of the part's last partition."""
        return self.first + self.width

    def to_leaf_partition(self, partition: int) -> int | None:
        """Returns the leaf's number of a partition that clients name; None if it belongs to another part."""
        return partition - self.first if self.first <= partition < self.end else None

    def to_client_partition(self, partition: int) -> int | None:
        """Returns the clients' number of a partition of the leaf; None if it is beyond the width."""
        return partition + self.first if 0 <= partition < self.width else None

    def to_leaf_epoch(self, epoch: int) -> int:
        """Returns the leaf's epoch for a leader epoch of clients. It is -1, which the leaf does not check, for an epoch
        from before the topic was moved there."""
        return epoch if not self.epoch_offset else max(epoch - self.epoch_offset, NO_EPOCH)

    def to_client_epoch(self, epoch: int) -> int:
        """Returns the clients' epoch for a leader epoch of the leaf; -1 for none."""
        return epoch if epoch < 0 else min(epoch + self.epoch_offset, HIGHEST_EPOCH)

    def to_leaf_record_epoch(self, epoch: int) -> int:
        """Returns the leaf's epoch for the epoch of a record that a client has read; -1 for a moved topic, since the
        record may come from the other cluster. With its epoch the leaf would report a truncated log, or clients would
        wait for an epoch that the leaf never reaches."""
        return NO_EPOCH if self.epoch_offset else epoch

    def to_client_end_epoch(self, epoch: int) -> int:
        """Returns the epoch whose log ends at `to_client_end_offset`; for a moved topic any valid epoch."""
        return max(epoch, 0) if self.epoch_offset else epoch

    def to_client_end_offset(self, offset: int) -> int:
        """Returns the offset at which the log of an epoch ends. A moved topic has no truncated log: both clusters have
        the same records."""
        return _NO_END if self.epoch_offset else offset


@dataclass(frozen=True, slots=True)
class Concatenated:
    """A concatenated topic: its parts, in the order of their partitions.

    has_moved: whether this is a topic that was moved from one leaf to another.
    """

    name: str
    id: UUID
    parts: tuple[Part, ...]
    has_moved: bool = False

    @property
    def width(self) -> int:
        """The number of partitions that clients see."""
        return self.parts[-1].end

    def is_moved_to(self, leaf: LeafNumber) -> bool:
        """Returns True if the topic was moved to this leaf."""
        return self.has_moved and self.part_at_leaf(leaf) is not None

    def part_with_partition(self, partition: int) -> Part | None:
        """The part that has a partition; None if the topic has no such partition."""
        return next((part for part in self.parts if part.to_leaf_partition(partition) is not None), None)

    def part_at_leaf(self, leaf: LeafNumber) -> Part | None:
        return next((part for part in self.parts if part.leaf == leaf), None)


def epoch_offset_after(cuts: int) -> int:
    """Returns the `Part.epochs` of a topic that has moved to another cluster this many times."""
    return min(cuts * EPOCHS_PER_MOVE, HIGHEST_EPOCH + 1 - EPOCHS_PER_MOVE)


def concatenate(name: str, anchor: str, parts: Sequence[tuple[LeafNumber, str, int]]) -> Concatenated:
    """Makes a concatenated topic. parts: the leaf, topic and width of each part, at most one per leaf. anchor: a text
    that stays the same as long as the topic does, such as the routes to its first part. The topic's id is derived from
    it, and is the same in every process."""
    id = uuid5(_NAMESPACE, f"{anchor}/{parts[0][1]}/{name}")
    made: list[Part] = []
    for leaf, topic, width in parts:
        made.append(Part(name, id, leaf, topic, made[-1].end if made else 0, width))
    return Concatenated(name, id, tuple(made))


class Concatenations:
    """The concatenated topics of a union; False if it has none, like most unions. moved_from: the leaves that a topic
    has moved away from. Clients may still ask them for the topic by an id that they know."""

    def __init__(self, topics: Iterable[Concatenated] = (), moved_from: Iterable[LeafNumber] = ()) -> None:
        self._moved_from: Final = frozenset(moved_from)
        self._by_name: Final = {topic.name: topic for topic in topics}
        self._by_id: Final = {topic.id: topic for topic in self}
        self._parts: Final = {(part.leaf, part.topic): part for topic in self for part in topic.parts}
        self._at: Final[dict[LeafNumber, list[Part]]] = {}
        for part in self._parts.values():
            self._at.setdefault(part.leaf, []).append(part)

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def __iter__(self) -> Iterator[Concatenated]:
        return iter(self._by_name.values())

    def named(self, name: str) -> Concatenated | None:
        return self._by_name.get(name)

    def with_id(self, id: UUID) -> Concatenated | None:
        return self._by_id.get(id)

    def part(self, leaf: LeafNumber, topic: str) -> Part | None:
        """Returns the part that has this name at a leaf."""
        return self._parts.get((leaf, topic))

    def has_parts_at(self, leaf: LeafNumber) -> bool:
        return leaf in self._at

    def parts_at(self, leaf: LeafNumber) -> Sequence[Part]:
        return self._at.get(leaf, ())

    def is_moved_from(self, leaf: LeafNumber) -> bool:
        """Returns True if the leaf had a part that has moved away."""
        return leaf in self._moved_from

    def renames(self, leaf: LeafNumber) -> bool:
        """Returns True if the name of any part at the leaf differs from the clients' name."""
        return any(part.topic != part.name for part in self.parts_at(leaf))


class PartIds:
    """The topic ids that leaves have reported. When a topic is created again, its old id is kept for a while, since an
    answer may still contain it. most: the number of ids to remember for each leaf. changes: the number of changes so
    far."""

    def __init__(self, most: int = 10_000) -> None:
        self._most: Final = most
        self._newest: Final[dict[tuple[LeafNumber, str], UUID]] = {}
        self._topics: Final[dict[LeafNumber, dict[UUID, str]]] = {}
        self.changes = 0

    def learn(self, leaf: LeafNumber, topic: str, id: UUID) -> None:
        if self._newest.get((leaf, topic)) == id:
            return
        self._newest[leaf, topic] = id
        topics = self._topics.setdefault(leaf, {})
        topics.pop(id, None)
        topics[id] = topic
        if len(topics) > self._most:
            del topics[next(iter(topics))]
        self.changes += 1

    def newest(self, leaf: LeafNumber, topic: str) -> UUID | None:
        return self._newest.get((leaf, topic))

    def topic(self, leaf: LeafNumber, id: UUID) -> str | None:
        return self.topics(leaf).get(id)

    def topics(self, leaf: LeafNumber) -> Mapping[UUID, str]:
        """Returns the known topics of a leaf, by id."""
        return self._topics.get(leaf, {})


class PartsAtLeaf:
    """The parts that one leaf has or had, by the clients' names and by the leaf's. False if there are none."""

    def __init__(self, leaf: LeafNumber, topics: Concatenations, ids: PartIds) -> None:
        self._leaf: Final = leaf
        self._topics: Final = topics
        self._ids: Final = ids
        self._is_there: Final = topics.has_parts_at(leaf) or topics.is_moved_from(leaf)
        self._shifts: Mapping[bytes, Shift] = {}
        self._shifts_of = -1
        """The number of changes of the ids when the shifts were computed."""

    def __bool__(self) -> bool:
        return self._is_there

    def by_client_name(self, name: str) -> Part | None:
        """Returns the part of the topic that clients call so. None: the topic is not concatenated, or has no part
        here."""
        topic = self._topics.named(name)
        return None if topic is None else topic.part_at_leaf(self._leaf)

    def by_client_id(self, id: UUID) -> Part | None:
        topic = self._topics.with_id(id)
        return None if topic is None else topic.part_at_leaf(self._leaf)

    def is_concatenated(self, topic: str | UUID) -> bool:
        """Returns True if clients know a concatenated topic by this name or id."""
        return (self._topics.named(topic) if isinstance(topic, str) else self._topics.with_id(topic)) is not None

    def by_leaf_name(self, topic: str) -> Part | None:
        """Returns the part that has this name at the leaf."""
        return self._topics.part(self._leaf, topic)

    def by_leaf_id(self, id: UUID) -> Part | None:
        topic = self._ids.topic(self._leaf, id)
        return None if topic is None else self.by_leaf_name(topic)

    def id_of(self, part: Part) -> UUID | None:
        """Returns the leaf's id of a part; None if the leaf has not reported it yet."""
        return self._ids.newest(part.leaf, part.topic)

    def shifts(self) -> Mapping[bytes, Shift]:
        """Returns the `Shift` of each part, by the leaf's topic id as bytes."""
        if self._shifts_of != self._ids.changes:
            parts = ((id, self.by_leaf_name(topic)) for id, topic in self._ids.topics(self._leaf).items())
            self._shifts = {
                id.bytes: Shift(part.id.bytes, part.first, part.epoch_offset) for id, part in parts if part is not None
            }
            self._shifts_of = self._ids.changes
        return self._shifts


def problem_with(part: Part, partitions: int) -> str | None:
    """Returns a problem with a part, or None. partitions: the number that its leaf has; 0 if the topic does not
    exist."""
    if partitions < part.width:
        have = f"has {partitions} partitions" if partitions else "is not there"
        first, last = part.first + partitions, part.end - 1
        without = f"partition {last} of {part.name} has" if first == last else None
        without = without or f"partitions {first} to {last} of {part.name} have"
        return f"topic {part.topic} {have}, {part.width} are declared: {without} no leader"
    if partitions > part.width:
        return f"topic {part.topic} has {partitions} partitions, {part.width} are declared: clients see no others"
    return None


def leaderless(partition: int) -> Tree:
    """Returns the entry in Metadata and DescribeTopicPartitions for a partition that its cluster does not have, or has
    not reported yet."""
    return {
        "error_code": int(ErrorCode.LEADER_NOT_AVAILABLE),
        "partition_index": partition,
        "leader_id": _NO_NODE,
        "leader_epoch": -1,
        "replica_nodes": [],
        "isr_nodes": [],
        "offline_replicas": [],
    }
