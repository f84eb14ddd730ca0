"""Kafka Streams in groups of the classic protocol: all topics of a topology are to be at the home of its group.

Its transactions end in one cluster, and a group commits to a transaction at its home only. So such a member is refused
when it joins, and not when its first transaction would be.
"""

from __future__ import annotations

from typing import Final, Protocol

from mesh.routing.kit.embedded import CONSUMER, subscribed_topics
from mesh.routing.kit.entities import Owner
from mesh.routing.names import LeafNumber
from mesh.wire.messages import Buffer
from mesh.wire.trees import Tree

ASSIGNOR: Final = "stream"
"""The name of the only assignor of Kafka Streams, which nobody else has."""


class Places(Protocol):
    """Where topics and groups are. Part of `mesh.routing.entities.Names`."""

    def owner(self, topic: str, /) -> Owner | None: ...

    def group_home(self, group_id: str, /) -> LeafNumber: ...


def may_be_of_streams(join: Buffer) -> bool:
    """Whether a JoinGroup, as bytes, is worth reading."""
    return ASSIGNOR.encode() in bytes(join)


def topic_elsewhere(join: Tree, places: Places) -> str | None:
    """A topic of a member of Kafka Streams that is not at the home of its group. None: all are, or it is none."""
    if join["protocol_type"] != CONSUMER:
        return None
    home = places.group_home(join["group_id"])
    for each in join["protocols"]:
        if each["name"] != ASSIGNOR:
            continue
        for topic in subscribed_topics(each["metadata"]):
            owner = places.owner(topic)
            if owner is None or owner.leaf != home:
                return topic
    return None
