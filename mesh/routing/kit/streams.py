"""Checks members of Kafka Streams in classic groups: all topics of a topology must be at the home of its group.

A transaction stays in one cluster, and offsets can be committed in a transaction only at the group's home. The mesh
refuses such a member when it joins, so that it does not fail in its first transaction.
"""

from __future__ import annotations

from typing import Final, Protocol

from mesh.routing.concatenated import Concatenations
from mesh.routing.kit.embedded import CONSUMER, subscribed_topics
from mesh.routing.kit.union_view import Owner
from mesh.routing.names import LeafNumber
from mesh.wire.messages import Buffer
from mesh.wire.trees import Tree

ASSIGNOR: Final = "stream"
"""The name of the only assignor of Kafka Streams."""


class EntityPlaces(Protocol):
    """The leaves of topics and groups. A part of `mesh.routing.entities.UnionNames`."""

    @property
    def concatenated(self) -> Concatenations: ...

    def owner(self, topic: str, /) -> Owner | None: ...

    def group_home(self, group_id: str, /) -> LeafNumber: ...


def may_be_of_streams(join: Buffer) -> bool:
    """Returns True if a JoinGroup may come from Kafka Streams. join: the encoded request, which is not decoded for
    this."""
    return ASSIGNOR.encode() in bytes(join)


def topic_elsewhere(join: Tree, places: EntityPlaces) -> str | None:
    """Returns a topic of a Kafka Streams member that is not at the home of its group. None: there is no such topic, or
    the member is not one of Kafka Streams."""
    if join["protocol_type"] != CONSUMER:
        return None
    home = places.group_home(join["group_id"])
    for each in join["protocols"]:
        if each["name"] != ASSIGNOR:
            continue
        for topic in subscribed_topics(each["metadata"]):
            owner, concatenated = places.owner(topic), places.concatenated.named(topic)
            if concatenated is not None and concatenated.is_moved_to(home):
                continue
            if owner is None or owner.leaf != home:
                return topic
    return None
