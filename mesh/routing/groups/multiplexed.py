"""Members of the consumer and share protocols (KIP-848, KIP-932) in several clusters at once.

A member is one of its group in each cluster that has a topic of its subscription, under the same id, and at its home in
any case: the epoch that it knows is the one at home. What it is assigned is what all clusters together assign to it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, TypeAlias
from uuid import UUID

from mesh.routing.kit.embedded import ELSEWHERE
from mesh.routing.names import LeafNumber
from mesh.routing.union import Owner
from mesh.wire.errors import ErrorCode
from mesh.wire.trees import Tree

SESSION: Final = 60.0
"""Seconds without a heartbeat after which a member is forgotten: brokers have fenced it before."""
MOST_MEMBERS: Final = 20_000
LARGEST_SUBSCRIPTION: Final = 1 << 20
"""Characters of all names."""
MOST_SUBSCRIBED: Final = 64 << 20
"""The same of all members together. Those that have been silent longest are forgotten, and join again."""
JOIN, LEAVE = 0, -1
"""What the epoch of a request says when it is none."""
_NOT_THERE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
Assignment: TypeAlias = Mapping[UUID, frozenset[int]]
"""Partitions by the id of their topic."""


class RouteState(Enum):
    """The membership of a member in one cluster.

    OUT: not yet. LOST: it was, and has been fenced there; it joins again when it no longer owns what it had there.
    """

    OUT = auto()
    IN = auto()
    LOST = auto()


@dataclass(slots=True)
class Route:
    """A member in one cluster. epoch: there."""

    state: RouteState = RouteState.OUT
    epoch: int = JOIN
    assigned: Assignment = field(default_factory=dict)


@dataclass(slots=True)
class Member:
    """One member of a group.

    fields: of its last full request. names: of topics that it subscribes to, as clients call them; named: those of them
    that it has named itself. owned: what it has said that it owns. told: what it was told last that it is assigned;
    None: nothing yet. pattern: a regular expression that it subscribes to, "" for none, and since when names are those
    that match it.
    """

    home: LeafNumber
    fields: Tree
    names: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    owned: Assignment = field(default_factory=dict)
    told: Assignment | None = None
    routes: dict[LeafNumber, Route] = field(default_factory=dict)
    heard_at: float = 0.0
    pattern: str = ""
    matched_at: float = 0.0

    @property
    def assigned(self) -> Assignment:
        """By all clusters."""
        return {id: each for route in self.routes.values() for id, each in route.assigned.items() if each}


class MultiplexedMembers:
    """The members that this process has heard of lately, by group and member id. owner: of a topic. leaf_of_id: of a
    topic, None if it is not known."""

    def __init__(self, owner: Callable[[str], Owner | None], leaf_of_id: Callable[[UUID], LeafNumber | None]) -> None:
        self._owner: Final = owner
        self._leaf_of_id: Final = leaf_of_id
        self._members: Final[OrderedDict[tuple[str, str], Member]] = OrderedDict()
        self._sizes: Final[dict[tuple[str, str], int]] = {}
        """Characters of the subscription of each."""
        self._size = 0

    def get(self, group: str, member_id: str) -> Member | None:
        return self._members.get((group, member_id))

    def known(self, request: Tree, home: LeafNumber, now: float) -> Member | None:
        """The member that a heartbeat is of, a new one for one that joins. None: it is not known here."""
        key = request["group_id"], request["member_id"]
        self._forget_silent(now)
        member = self._members.get(key)
        if request["member_epoch"] == JOIN:
            routes = {} if member is None else member.routes
            member = self._members[key] = Member(home, dict(request), routes=routes)
        if member is not None:
            member.heard_at = now
            self._members.move_to_end(key)
            self._measure(key, request)
            self._forget_silent(now)
        return member

    def forget(self, group: str, member_id: str) -> None:
        self._forget((group, member_id))

    def renamed(self, group: str, member_id: str) -> None:
        """A member that joined without an id has one now."""
        if (member := self._members.pop((group, ""), None)) is not None:
            self._members[group, member_id] = member
            self._sizes[group, member_id] = self._sizes.pop((group, ""), 0)

    def _measure(self, key: tuple[str, str], request: Tree) -> None:
        names = request["subscribed_topic_names"]
        if names is not None:
            size = sum(map(len, names)) + len(request.get("subscribed_topic_regex") or "")
            self._size += size - self._sizes.get(key, 0)
            self._sizes[key] = size

    def _forget(self, key: tuple[str, str]) -> None:
        self._members.pop(key, None)
        self._size -= self._sizes.pop(key, 0)

    def _forget_silent(self, now: float) -> None:
        while self._members:
            key, oldest = next(iter(self._members.items()))
            is_too_much = len(self._members) > MOST_MEMBERS or self._size > MOST_SUBSCRIBED
            if oldest.heard_at > now - SESSION and not (is_too_much and len(self._members) > 1):
                return
            self._forget(key)

    # What clusters are asked

    def asked(self, member: Member, request: Tree, names: Sequence[str] | None) -> dict[LeafNumber, Tree]:
        """What each cluster is to be asked of a heartbeat, in its own names; the home in any case.

        names: of the topics that the member subscribes to now; None: as before.
        """
        self._take(member, request, names)
        wanted: dict[LeafNumber, list[str]] = {member.home: []}
        for name in member.names:
            if (owner := self._owner(name)) is not None:
                wanted.setdefault(owner.leaf, []).append(owner.topic)
        if (
            not wanted[member.home] and "topic_partitions" not in request
        ):  # share groups take no subscription to nothing
            wanted[member.home] = [f"{ELSEWHERE}{name}" for name in member.names]
        asked = {}
        for leaf in [leaf for leaf in member.routes if leaf not in wanted]:
            if member.routes.pop(leaf).state is RouteState.IN:
                asked[leaf] = _leaving(request)
        for leaf, topics in wanted.items():
            route = member.routes.setdefault(leaf, Route())
            if request["member_epoch"] == JOIN:
                route.state, route.epoch, route.assigned = RouteState.OUT, JOIN, {}
            if (told := self._asked_of(leaf, route, member, request, topics, has_names=names is not None)) is not None:
                asked[leaf] = told
        return asked

    def _take(self, member: Member, request: Tree, names: Sequence[str] | None) -> None:
        for field_name in ("rebalance_timeout_ms", "server_assignor", "rack_id", "instance_id"):
            if request.get(field_name) not in (None, -1):
                member.fields[field_name] = request[field_name]
        if names is not None:
            member.names = tuple(names)
        if request.get("topic_partitions") is not None:
            member.owned = _assignment(request["topic_partitions"])

    def _asked_of(
        self, leaf: LeafNumber, route: Route, member: Member, request: Tree, topics: list[str], *, has_names: bool
    ) -> Tree | None:
        if leaf == member.home and request["member_epoch"] != JOIN:
            route.state, route.epoch = RouteState.IN, request["member_epoch"]
        if route.state is RouteState.LOST and not self._owns_some(member, leaf):
            route.state = RouteState.OUT
        match route.state:
            case RouteState.LOST:
                return None
            case RouteState.OUT:
                full = {**member.fields, "member_epoch": JOIN, "topic_partitions": [], "subscribed_topic_regex": None}
                return full | {"member_id": request["member_id"], "subscribed_topic_names": topics}
            case RouteState.IN:
                owned = request.get("topic_partitions")
                return request | {
                    "member_epoch": route.epoch,
                    "subscribed_topic_names": topics if has_names else None,
                    "subscribed_topic_regex": None,
                    "topic_partitions": None if owned is None else [each for each in owned if self._is_at(each, leaf)],
                }

    def _is_at(self, owned: Tree, leaf: LeafNumber) -> bool:
        return self._leaf_of_id(owned["topic_id"]) == leaf

    def _owns_some(self, member: Member, leaf: LeafNumber) -> bool:
        return any(self._leaf_of_id(id) == leaf for id, each in member.owned.items() if each)

    # What they have answered

    def answered(self, member: Member, leaf: LeafNumber, answer: Tree | None) -> ErrorCode | int:
        """An error that the member is to be told; NONE if it is to be told nothing. answer: of a cluster that is not
        the home; None if there was none: what it has assigned stays."""
        route = member.routes.get(leaf)
        if route is None or answer is None:
            return ErrorCode.NONE
        code: int = answer["error_code"]
        if code in _FENCED:
            route.state, route.epoch, route.assigned = RouteState.LOST, JOIN, {}
            return ErrorCode.NONE
        if code in _NOT_THERE:
            return ErrorCode.NONE
        if code == ErrorCode.NONE:
            self.taken(route, answer)
        return code

    def taken(self, route: Route, answer: Tree) -> None:
        """A cluster has the member in its group."""
        route.state, route.epoch = RouteState.IN, answer["member_epoch"]
        if answer["assignment"] is not None:
            route.assigned = _assignment(answer["assignment"]["topic_partitions"])

    def answer(self, member: Member, at_home: Tree, others: Collection[Tree], *, is_full: bool) -> Tree:
        """What the member is told. is_full: whether it has said everything, and is to be told everything."""
        assigned = member.assigned
        is_told = is_full or assigned != member.told
        member.told = assigned
        interval = min(each["heartbeat_interval_ms"] for each in (at_home, *others))
        partitions = [{"topic_id": id, "partitions": sorted(each)} for id, each in assigned.items()]
        return at_home | {
            "heartbeat_interval_ms": interval,
            "assignment": {"topic_partitions": partitions} if is_told else None,
        }


def is_full(request: Tree) -> bool:
    """Whether a heartbeat says everything, as the first one does, and one after an answer that was lost."""
    has_names = request.get("subscribed_topic_names") is not None or bool(request.get("subscribed_topic_regex"))
    return request["member_epoch"] == JOIN or (has_names and request.get("topic_partitions") is not None)


def _leaving(request: Tree) -> Tree:
    return {"group_id": request["group_id"], "member_id": request["member_id"], "member_epoch": LEAVE}


def _assignment(partitions: Sequence[Any]) -> Assignment:
    return {each["topic_id"]: frozenset(each["partitions"]) for each in partitions}
