"""A member of a group as its coordinator knows it, and the requests that make it one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import error as StructError
from struct import unpack_from

from mesh.apis.answers import Ticket
from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.ids import MemberId
from mesh.pool.common.timers import Timer
from mesh.records.spans import TopicName

CONSUMER_PROTOCOL = "consumer"
SHARE_PROTOCOL = "share"
LARGEST_METADATA = 256 << 10
"""Bytes of subscription, and of assignment, that one member may have the coordinator keep."""
OUTDATED_GRACE = 1.0
"""Seconds in which a client that asked for metadata joins again by itself; librdkafka never does."""


MANY_TOPICS = 1_000
"""More of them are not looked at one by one."""
AT_REST = 1.0
"""Seconds after which a member that joins again is not still joining: it knows the partitions of its topics by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """Timeouts in seconds. must_know_id: a dynamic member without an id is given one and told to come back with it."""

    member_id: MemberId
    instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout: float
    rebalance_timeout: float
    must_know_id: bool
    client: ClientIdentity

    @property
    def topics(self) -> bytes:
        """What it subscribes to, as its first protocol says it: to be compared."""
        return subscribed_topics(self.protocols[0][1])


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A SyncGroup request. assignment: what the member, as its own leader, assigned to itself; None when it sent none
    for itself."""

    member_id: MemberId
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes | None


@dataclass(slots=True)
class Subscription:
    """What only a member of the consumer protocol has, or of that of share groups; its epoch is its generation.

    joined: its epoch when it joined last. previous: the epoch before this one. pattern: of the topics it subscribes to
    beside those that it names, "" for none. assigned: how many partitions of each topic.
    """

    joined: int
    previous: int
    topics: tuple[TopicName, ...]
    pattern: str = ""
    assigned: Mapping[TopicName, int] = field(default_factory=dict)

    def subscribe(self, topics: tuple[TopicName, ...] | None, pattern: str | None) -> bool:
        """What is None stays as it is. Whether anything is different."""
        before = self.topics, self.pattern
        self.topics = self.topics if topics is None else topics
        self.pattern = self.pattern if pattern is None else pattern
        return before != (self.topics, self.pattern)

    def owns(self, owned: Mapping[TopicName, frozenset[int]] | None) -> bool:
        """Whether all of this is assigned to it."""
        if owned is None:
            return False
        return all(max(indexes, default=-1) < self.assigned.get(name, 0) for name, indexes in owned.items())


@dataclass(slots=True, eq=False)
class Membership:
    """One member of the group, alive until it leaves, expires or is fenced.

    subscription: of a member of the consumer protocol (KIP-848), whose epoch is its generation, and of a share member;
    None for a classic one.
    is_fenced: what it tried to commit went elsewhere; it is told to join again until it does.
    """

    request: JoinRequest
    member_id: MemberId
    instance_id: str | None
    generation: int = 0
    topics: bytes | None = None
    """What it subscribed to when it was answered last."""
    joined: float = 0.0
    assignment: bytes = b""
    seen: float = 0.0
    joining: Ticket | None = None
    session: Timer | None = None
    subscription: Subscription | None = None
    is_fenced: bool = False
    outdated_since: float | None = None
    """Since when a topic has had more partitions than it knew when it joined."""

    def knows_its_topics(self, now: float) -> bool:
        """Whether its client, which joins again, has had time to learn the partitions of what it subscribes to."""
        return self.topics == self.request.topics and now >= self.joined + AT_REST

    def must_join_again(self, now: float) -> bool:
        """Whether it was given time to find new partitions by itself, and did not. It is told once."""
        is_due = self.outdated_since is not None and now >= self.outdated_since + OUTDATED_GRACE
        if is_due:
            self.outdated_since = None
        return is_due

    @property
    def is_share(self) -> bool:
        """Whether it is a member of a share group (KIP-932)."""
        return self.request.protocol_type == SHARE_PROTOCOL

    @property
    def protocol_name(self) -> str:
        return self.request.protocols[0][0]


def subscribed_topics(metadata: bytes) -> bytes:
    """The part of a member's metadata that names its topics (ConsumerProtocolSubscription.json: a version, then an
    array of strings); behind that stands what changes with each generation. All of it, if it is nothing of the kind."""
    try:
        (count,) = unpack_from(">i", metadata, 2)
        if count > MANY_TOPICS:
            return metadata
        position = 6
        for _ in range(count):
            (length,) = unpack_from(">H", metadata, position)
            position += 2 + length
    except StructError:
        return metadata
    return metadata[2:position] if position <= len(metadata) else metadata
