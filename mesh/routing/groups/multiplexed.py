"""Members of the consumer and share protocols (KIP-848, KIP-932) in several clusters at once.

A member joins its group, under the same member id, at its home and in each cluster that has a topic of its
subscription. The member itself sees only the epoch of its home. Its assignment is the sum of the assignments by all
clusters.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final
from uuid import UUID

from mesh.routing.groups.places import Assignment, Places
from mesh.routing.kit.embedded import FOREIGN_PREFIX
from mesh.routing.names import LeafNumber
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

SESSION: Final = 60.0
"""Seconds without a heartbeat after which the mesh forgets a member. Brokers fence it earlier."""
MOST_MEMBERS: Final = 20_000
LARGEST_SUBSCRIPTION: Final = 1 << 20
"""The most characters in the topic names of one subscription."""
MOST_SUBSCRIBED: Final = 64 << 20
"""The most characters in the subscriptions of all members together. Above it the members that were silent longest are
forgotten; they join again."""
JOIN, LEAVE = 0, -1
"""Member epochs with a special meaning in a heartbeat."""
_COORDINATOR_UNAVAILABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})


class MembershipState(Enum):
    """The state of a member in one cluster.

    NOT_JOINED: it has not joined yet. JOINED: it is in the group. FENCED: the cluster fenced it. It joins again when it
    no longer owns the partitions that it had there.
    """

    NOT_JOINED = auto()
    JOINED = auto()
    FENCED = auto()


@dataclass(slots=True)
class ClusterMembership:
    """A member in one cluster. epoch: the member epoch there. assigned: its assignment by this cluster, as clients know
    it. topics_hash: the hash of the topic names in its subscription there. is_accepted: True if the cluster accepted
    the last heartbeat. If it did not, it may not know what that heartbeat said, or the mesh what it answered. As in any
    client, the next heartbeat is full then: it repeats everything, and so does its answer."""

    state: MembershipState = MembershipState.NOT_JOINED
    epoch: int = JOIN
    assigned: Assignment = field(default_factory=dict)
    topics_hash: int = 0
    is_accepted: bool = False


@dataclass(slots=True)
class MultiplexedMember:
    """One member of a group.

    fields: the fields with which it joins a cluster: those of its first heartbeat, kept up to date. names: the topics
    that it subscribes to, by clients' names. named: those of them that it named itself. owned: the partitions that it
    reported as owned. sent_assignment: the last assignment that it was sent; None before the first. pattern: the
    regular expression that it subscribes to, "" for none. matched_at: when the names were last matched with it.
    """

    home: LeafNumber
    fields: Tree
    names: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    owned: Assignment = field(default_factory=dict)
    sent_assignment: Assignment | None = None
    memberships: dict[LeafNumber, ClusterMembership] = field(default_factory=dict)
    heard_at: float = 0.0
    pattern: str = ""
    matched_at: float = 0.0

    @property
    def assigned(self) -> Assignment:
        """The assignments by all clusters together."""
        assigned: dict[UUID, frozenset[int]] = {}
        for membership in self.memberships.values():
            for id, each in membership.assigned.items():
                if each:
                    assigned[id] = assigned.get(id, frozenset()) | each
        return assigned


class MultiplexedMembers:
    """The members that have sent this process a heartbeat lately, by group and member id. places: where topics are."""

    def __init__(self, places: Places) -> None:
        self._places: Final = places
        self._members: Final[OrderedDict[tuple[str, str], MultiplexedMember]] = OrderedDict()
        self._sizes: Final[dict[tuple[str, str], int]] = {}
        """The characters of each member's subscription as the member sent it, without the topics that its pattern
        matches."""
        self._size = 0

    def get(self, group: str, member_id: str) -> MultiplexedMember | None:
        return self._members.get((group, member_id))

    def take_heartbeat(self, request: Tree, home: LeafNumber, now: float) -> MultiplexedMember | None:
        """Returns the member that sent a heartbeat; a new one if it joins. None: this process does not know it. A
        member without an id is known from `assign_id` on."""
        key = request["group_id"], request["member_id"]
        self._forget_oldest(now)
        if not request["member_id"]:  # several members may join without an id at the same time
            return MultiplexedMember(home, dict(request), heard_at=now) if request["member_epoch"] == JOIN else None
        member = self._members.get(key)
        if request["member_epoch"] == JOIN:
            memberships = {} if member is None else member.memberships
            member = self._members[key] = MultiplexedMember(home, dict(request), memberships=memberships)
        if member is not None:
            member.heard_at = now
            self._members.move_to_end(key)
            self._measure(key, request)
            self._forget_oldest(now)
        return member

    def forget(self, group: str, member_id: str) -> None:
        self._forget((group, member_id))

    def assign_id(self, group: str, member_id: str, member: MultiplexedMember) -> None:
        """Takes the id that a member got when it joined without one."""
        key = group, member_id
        self._members[key] = member
        self._members.move_to_end(key)
        self._measure(key, member.fields)
        self._forget_oldest(member.heard_at)

    def _measure(self, key: tuple[str, str], request: Tree) -> None:
        names = request["subscribed_topic_names"]
        if names is not None:
            size = sum(map(len, names)) + len(request.get("subscribed_topic_regex") or "")
            self._size += size - self._sizes.get(key, 0)
            self._sizes[key] = size

    def _forget(self, key: tuple[str, str]) -> None:
        self._members.pop(key, None)
        self._size -= self._sizes.pop(key, 0)

    def _forget_oldest(self, now: float) -> None:
        while self._members:
            key, oldest = next(iter(self._members.items()))
            is_above_limits = len(self._members) > MOST_MEMBERS or self._size > MOST_SUBSCRIBED
            if oldest.heard_at > now - SESSION and not (is_above_limits and len(self._members) > 1):
                return
            self._forget(key)

    # Requests to clusters

    def heartbeats(
        self, member: MultiplexedMember, request: Tree, names: Sequence[str] | None
    ) -> dict[LeafNumber, Tree]:
        """Takes a heartbeat of a member, and returns those to send, by cluster and in its names. The home always gets
        one, a cluster that fenced the member none.

        names: the topics that the member subscribes to now; None if they have not changed.
        """
        self._update_member(member, request, names)
        wanted: dict[LeafNumber, list[str]] = {member.home: []}
        for name in member.names:
            for leaf, topic in self._places.of_topic(name):
                wanted.setdefault(leaf, []).append(topic)
        if not wanted[member.home] and "topic_partitions" not in request:  # share groups accept no empty subscription
            wanted[member.home] = [f"{FOREIGN_PREFIX}{name}" for name in member.names]
        heartbeats = {}
        for leaf in [leaf for leaf in member.memberships if leaf not in wanted]:
            if member.memberships.pop(leaf).state is MembershipState.JOINED:
                heartbeats[leaf] = _leaving(request)
        for leaf, topics in wanted.items():
            membership = member.memberships.setdefault(leaf, ClusterMembership())
            if request["member_epoch"] == JOIN:
                membership.state, membership.epoch, membership.assigned = MembershipState.NOT_JOINED, JOIN, {}
            if (
                heartbeat := self._heartbeat(leaf, membership, member, request, topics, is_changed=names is not None)
            ) is not None:
                heartbeats[leaf] = heartbeat
        return heartbeats

    def _update_member(self, member: MultiplexedMember, request: Tree, names: Sequence[str] | None) -> None:
        for field_name in ("rebalance_timeout_ms", "server_assignor", "rack_id", "instance_id"):
            if request.get(field_name) not in (None, -1):
                member.fields[field_name] = request[field_name]
        if names is not None:
            member.names = tuple(names)
        if request.get("topic_partitions") is not None:
            member.owned = _assignment(request["topic_partitions"])

    def _heartbeat(
        self,
        leaf: LeafNumber,
        membership: ClusterMembership,
        member: MultiplexedMember,
        request: Tree,
        topics: list[str],
        *,
        is_changed: bool,
    ) -> Tree | None:
        if leaf == member.home and request["member_epoch"] != JOIN:
            membership.state, membership.epoch = MembershipState.JOINED, request["member_epoch"]
        if membership.state is MembershipState.FENCED and not self._places.has_some(leaf, member.owned):
            membership.state = MembershipState.NOT_JOINED
        names = topics if is_changed or hash(tuple(topics)) != membership.topics_hash else None
        owned = request.get("topic_partitions")
        full = member.fields | {"member_id": request["member_id"]}
        match membership.state:
            case MembershipState.FENCED:
                return None
            case MembershipState.NOT_JOINED:
                request, names, owned = full, topics, []  # clusters refuse a member that joins with partitions
            case MembershipState.JOINED if not membership.is_accepted:
                request, names, owned = full, topics, _partitions(member.owned)
            case MembershipState.JOINED:
                pass
        membership.topics_hash, membership.is_accepted = hash(tuple(topics)), False
        return request | {
            "member_epoch": membership.epoch,
            "subscribed_topic_names": names,
            "subscribed_topic_regex": None,
            "topic_partitions": None if owned is None else self._places.to_leaf(leaf, owned),
        }

    # Answers of clusters

    def take_answer(self, member: MultiplexedMember, leaf: LeafNumber, answer: Tree | None) -> ErrorCode | int:
        """Takes the answer of a cluster other than the home. None means no answer: the assignment stays. Returns an
        error for the member, or NONE."""
        membership = member.memberships.get(leaf)
        if membership is None or answer is None:
            return ErrorCode.NONE
        code: int = answer["error_code"]
        if code in _FENCED:
            membership.state, membership.epoch, membership.assigned = MembershipState.FENCED, JOIN, {}
            return ErrorCode.NONE
        if code in _COORDINATOR_UNAVAILABLE:
            return ErrorCode.NONE
        if code == ErrorCode.NONE:
            self.accepted(member, leaf, answer)
        return code

    def accepted(self, member: MultiplexedMember, leaf: LeafNumber, answer: Tree) -> None:
        """Takes the answer of a cluster that accepts the member."""
        membership = member.memberships[leaf]
        membership.state, membership.epoch = MembershipState.JOINED, answer["member_epoch"]
        membership.is_accepted = True
        if answer["assignment"] is not None:
            membership.assigned = self._places.to_clients(leaf, answer["assignment"]["topic_partitions"])

    def answer(self, member: MultiplexedMember, at_home: Tree, others: Collection[Tree], *, is_full: bool) -> Tree:
        """Returns the answer to the member. is_full: whether the member sent a full heartbeat, and must get its full
        assignment."""
        assigned = member.assigned
        is_told = is_full or assigned != member.sent_assignment
        member.sent_assignment = assigned
        interval = min(each["heartbeat_interval_ms"] for each in (at_home, *others))
        return at_home | {
            "heartbeat_interval_ms": interval,
            "assignment": {"topic_partitions": _partitions(assigned)} if is_told else None,
        }


def is_full(request: Tree) -> bool:
    """Returns True for a full heartbeat: the first one, or one that a member sends after it has lost an answer."""
    has_names = request.get("subscribed_topic_names") is not None or bool(request.get("subscribed_topic_regex"))
    return request["member_epoch"] == JOIN or (has_names and request.get("topic_partitions") is not None)


def _leaving(request: Tree) -> Tree:
    return {"group_id": request["group_id"], "member_id": request["member_id"], "member_epoch": LEAVE}


def _assignment(partitions: Sequence[Any]) -> Assignment:
    return {each["topic_id"]: frozenset(each["partitions"]) for each in partitions}


def _partitions(assignment: Assignment) -> list[Tree]:
    return [{"topic_id": id, "partitions": sorted(each)} for id, each in assignment.items()]
