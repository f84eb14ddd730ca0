"""A member of a group as its coordinator knows it, and the requests that it joins with."""

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
"""The most bytes of a subscription, and of an assignment, that the coordinator keeps for one member."""
OUTDATED_GRACE = 1.0
"""Seconds in which a client that was made to refresh its metadata may join again by itself. librdkafka never does."""


MANY_TOPICS = 1_000
"""The most topics of a subscription to compare. With more, the whole metadata is compared."""
AT_REST = 1.0
"""Seconds after a join, by which a member knows the partitions of its topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A JoinGroup request. Timeouts are in seconds. must_know_id: whether a dynamic member without an id is only given
    one, to join with it again."""

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
        """The topics in the subscription of its first protocol, as bytes to be compared."""
        return subscribed_topics(self.protocols[0][1])


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A SyncGroup request. assignment: the assignment that the member, as its own leader, made for itself; None if it
    made none."""

    member_id: MemberId
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes | None


@dataclass(slots=True)
class Subscription:
    """The part of a membership that only members of the consumer protocol and share members have. Their epoch is the
    generation of the membership.

    * joined: the epoch at the last join. previous: the epoch before the current one.
    * pattern: a pattern of topics in addition to `topics`; "" for none.
    * assigned: the number of assigned partitions by topic.
    """

    joined: int
    previous: int
    topics: tuple[TopicName, ...]
    pattern: str = ""
    assigned: Mapping[TopicName, int] = field(default_factory=dict)

    def subscribe(self, topics: tuple[TopicName, ...] | None, pattern: str | None) -> bool:
        """Changes the subscription; None leaves a part unchanged. Returns whether it differs from before."""
        before = self.topics, self.pattern
        self.topics = self.topics if topics is None else topics
        self.pattern = self.pattern if pattern is None else pattern
        return before != (self.topics, self.pattern)

    def owns(self, owned: Mapping[TopicName, frozenset[int]] | None) -> bool:
        """Returns whether all these partitions are assigned to the member."""
        if owned is None:
            return False
        return all(max(indexes, default=-1) < self.assigned.get(name, 0) for name, indexes in owned.items())


@dataclass(slots=True, eq=False)
class Membership:
    """One member of the group, until it leaves, expires or is fenced.

    subscription: of a member of the consumer protocol (KIP-848) or a share member; None for a member of the classic
    protocol. is_fenced: whether a commit of it was void. It is then told to join again until it does.
    """

    request: JoinRequest
    member_id: MemberId
    instance_id: str | None
    generation: int = 0
    topics: bytes | None = None
    """The topics of its subscription (`JoinRequest.topics`) when its last JoinGroup was answered."""
    joined: float = 0.0
    assignment: bytes = b""
    seen: float = 0.0
    joining: Ticket | None = None
    session: Timer | None = None
    subscription: Subscription | None = None
    is_fenced: bool = False
    metadata_outdated_since: float | None = None
    """Since when a topic has had more partitions than the member knew when it joined."""

    def knows_its_topics(self, now: float) -> bool:
        """Returns whether its client, which joins again, has had time to learn the partitions of its topics."""
        return self.topics == self.request.topics and now >= self.joined + AT_REST

    def take_rejoin(self, now: float) -> bool:
        """Returns whether the member has had time to find new partitions by itself, and has not. Returns True only
        once."""
        is_due = self.metadata_outdated_since is not None and now >= self.metadata_outdated_since + OUTDATED_GRACE
        if is_due:
            self.metadata_outdated_since = None
        return is_due

    @property
    def is_share(self) -> bool:
        """True for a member of a share group (KIP-932)."""
        return self.request.protocol_type == SHARE_PROTOCOL

    @property
    def protocol_name(self) -> str:
        return self.request.protocols[0][0]


def subscribed_topics(metadata: bytes) -> bytes:
    """Returns the part of a member's metadata that names its topics (ConsumerProtocolSubscription.json: a version, then
    an array of strings). The fields behind it change with each generation. Returns all metadata if it has another
    form."""
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
