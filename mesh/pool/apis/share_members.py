"""Shared by the handlers of ShareFetch and ShareAcknowledge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mesh.apis.guards.result import may_topic
from mesh.pool.apis.context import PoolContext
from mesh.pool.share.requests import NamedPartition
from mesh.records.spans import TopicName
from mesh.security.rules import Operation
from mesh.wire.messages import AcknowledgementBatch, ShareTopic

LONGEST_MEMBER_ID: Final = 36
"""The most characters of a member id, as on a broker: the length of a UUID."""


def is_member_id(member_id: str | None) -> bool:
    return member_id is not None and 0 < len(member_id) <= LONGEST_MEMBER_ID


def acknowledgements_of(topics: Iterable[ShareTopic]) -> dict[NamedPartition, list[AcknowledgementBatch]]:
    """Returns the acknowledgements of each partition that has some, in the order of the request."""
    found: dict[NamedPartition, list[AcknowledgementBatch]] = {}
    for topic in topics:
        for each in topic.partitions:
            if each.acknowledgements:
                name = NamedPartition(topic.topic_id, each.partition)
                found.setdefault(name, []).extend(each.acknowledgements)
    return found


def may_read(context: PoolContext, topic: TopicName) -> bool:
    """Returns whether a client may read a topic. It is checked for each partition of a session in each request, since a
    request does not name partitions that are already in the session."""
    return may_topic(context, Operation.READ, topic)
