"""The rules by which the members of a pool share its records: weights and priorities of members, limits, priorities of
topics."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import Final

from mesh.pool.common.client import ClientIdentity
from mesh.pool.common.ids import GroupId
from mesh.records.spans import ClusterName, UpstreamPartition


@dataclass(frozen=True, slots=True)
class ClientPattern:
    """A pattern of members, by client.id and principal. Both must match; None matches any."""

    client_id: str | None = None
    principal: str | None = None

    def matches(self, client: ClientIdentity) -> bool:
        return (self.client_id is None or fnmatch.fnmatchcase(client.id, self.client_id)) and (
            self.principal is None or fnmatch.fnmatchcase(client.principal, self.principal)
        )


_ANY: Final = ClientPattern()


@dataclass(frozen=True, slots=True)
class WeightRule:
    """A rule for the weight and priority of members. weight: how much a member gets, relative to others. priority:
    members with a higher one come first."""

    clients: ClientPattern
    weight: float = 1.0
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRule:
    """A limit for the matching members of a group, for each of them or for all together. group: a pattern.

    in_flight: the most offsets that they hold. share: their part of what the
    group gets, between 0 and 1. None: no limit.
    """

    group: str = "*"
    clients: ClientPattern = _ANY
    is_of_each: bool = False
    records_per_second: float | None = None
    bytes_per_second: float | None = None
    in_flight: int | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class TopicPriority:
    """The priority of upstream topics. is_prefix: whether `name` is a prefix of their names."""

    cluster: ClusterName
    name: str
    is_prefix: bool
    priority: int

    def matches(self, source: UpstreamPartition) -> bool:
        is_named = source.topic.startswith(self.name) if self.is_prefix else source.topic == self.name
        return is_named and source.cluster == self.cluster


@dataclass(frozen=True, slots=True)
class Sharing:
    """The rules of a pool. Of weights and topics the first matching rule counts, of limits all matching ones."""

    weights: tuple[WeightRule, ...] = ()
    limits: tuple[LimitRule, ...] = ()
    topics: tuple[TopicPriority, ...] = ()

    def limits_of(self, group: GroupId) -> tuple[LimitRule, ...]:
        return tuple(rule for rule in self.limits if fnmatch.fnmatchcase(group, rule.group))

    def weight_of(self, client: ClientIdentity) -> WeightRule | None:
        return next((rule for rule in self.weights if rule.clients.matches(client)), None)

    def topic_priority(self, source: UpstreamPartition) -> int:
        return next((rule.priority for rule in self.topics if rule.matches(source)), 0)


EQUAL: Final = Sharing()
"""All members are equal, and there are no limits."""
