"""Requests about topology descriptions, for a node that does not know them.

The mesh asks the node, in the client's place, for all that the node knows: whether the client may read or delete a
group, whether the node is its coordinator, which members and which topology it has. So these are the cluster's own
answers. Where the mesh has rules, they decide what a client may do, and the mesh asks the node for the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from mesh.runtime.interception.messages import ReadRequest, read_answer, written_answer
from mesh.runtime.topologies.ending_requests import (
    AwaitDescription,
    ClassicJoinRequest,
    DeletingRequest,
    Deletion,
    EndingRequest,
    groups_with_description,
)
from mesh.runtime.topologies.frames import described, describing, head_instead, instead
from mesh.runtime.topologies.topologies import Topologies
from mesh.security.rules import Operation
from mesh.streams.description import tree_of
from mesh.streams.gate import STALE_TOPOLOGY, Heartbeat, is_missing, may_be_asked
from mesh.streams.steps import ApiError, DescribedStreamsGroup, DescriptionStatus, Push, push
from mesh.telemetry.logs import get_logger
from mesh.upstream.links.handshake import Unreachable
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode, ProtocolError
from mesh.wire.interception import Decision, FollowUp
from mesh.wire.messages import Buffer
from mesh.wire.passing import RequestHead
from mesh.wire.trees import Tree

log = get_logger(__name__)

GATE_TIMEOUT: Final = 5.0
"""Seconds that the response to a heartbeat waits for the topology epoch of its group."""
_UNSET: Final = -1

AskGroup = Callable[[str], Awaitable[DescribedStreamsGroup]]
"""Asks the node to describe a group to the mesh. Raises the errors of a broker or a link."""


class ClientRules(Protocol):
    """The rules of the mesh for one client."""

    def allow(self, operation: Operation, group: str) -> bool: ...

    def refused(self, head: RequestHead, frame: memoryview, operation: Operation, group: str) -> None:
        """Notes that the rules refused a request."""


class TopologyRequests:
    """The requests of one client. is_served_there: returns True if the client's node itself knows descriptions.
    ask_group: asks that node. rules: None if the cluster authorizes clients."""

    def __init__(
        self,
        topologies: Topologies,
        is_served_there: Callable[[], bool],
        ask_group: AskGroup,
        rules: ClientRules | None = None,
    ) -> None:
        self._topologies = topologies
        self._is_served_there = is_served_there
        self._ask_group = ask_group
        self._rules = rules

    def handles(self, head: RequestHead) -> bool:
        match head.api_key:
            case ApiKey.STREAMS_GROUP_HEARTBEAT | ApiKey.STREAMS_GROUP_DESCRIBE:
                is_about_them = head.api_version >= 1
            case ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE | ApiKey.DELETE_GROUPS | ApiKey.JOIN_GROUP:
                is_about_them = True
            case _:
                is_about_them = False
        return is_about_them and not self._is_served_there()

    def decide(self, head: RequestHead, frame: memoryview) -> Decision | None:
        request = ReadRequest.of(head, frame)
        match head.api_key:
            case ApiKey.STREAMS_GROUP_HEARTBEAT:
                change = _HeartbeatChange(self._topologies, request, self._ask_group)
                return Decision(_lowered_heartbeat(request), change=change)
            case ApiKey.STREAMS_GROUP_DESCRIBE:
                return Decision(
                    instead(request, ApiKey.STREAMS_GROUP_DESCRIBE, 0, request.tree),
                    change=_DescribeChange(self._topologies, request),
                )
            case ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE:
                if self._rules is not None:
                    return None
                return Decision(
                    describing(request, [request.tree["group_id"]]), change=_PushChange(self._topologies, request)
                )
            case _:
                return self._decide_end(request)

    def _decide_end(self, request: ReadRequest) -> Decision | None:
        """Decides on a request that may end groups. Most of these groups have no description."""
        groups = groups_with_description(self._topologies, _groups_of(request))
        if groups:
            if self._rules is not None:
                return None
            return Decision(
                describing(request, groups),
                change=AwaitDescription(request, self._ending_request(request)),
                is_alone=True,
            )
        if request.head.api_key == ApiKey.JOIN_GROUP:
            return Decision([request.frame])
        deletion = Deletion(self._topologies, request, {}, ())
        return Decision(deletion.frame(()), change=deletion)

    def _ending_request(self, request: ReadRequest) -> EndingRequest:
        kind = ClassicJoinRequest if request.head.api_key == ApiKey.JOIN_GROUP else DeletingRequest
        return kind(self._topologies, request)

    # Under rules

    async def decide_later(self, head: RequestHead, frame: memoryview) -> Decision:
        request = ReadRequest.of(head, frame)
        if head.api_key == ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE:
            return Decision(None, answer=await self._answer_push(request))
        groups = groups_with_description(self._topologies, _groups_of(request))
        found = {group: await self._describe(group) for group in groups}
        outcome = await self._ending_request(request).after(found)
        if isinstance(outcome, FollowUp):
            return Decision(outcome.frame, change=outcome.change)
        return Decision(None, answer=outcome)

    async def _answer_push(self, request: ReadRequest) -> Sequence[Buffer]:
        group, rules = request.tree["group_id"], self._rules
        assert rules is not None, "nothing is judged without"
        if rules.allow(Operation.READ, group):
            found = await self._describe(group)
        else:
            found = DescribedStreamsGroup(group, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            rules.refused(request.head, request.frame, Operation.READ, group)
        return await _answer_to_push(self._topologies, request, found)

    async def _describe(self, group: str) -> DescribedStreamsGroup:
        """Returns a group as the mesh sees it, with the permissions of the client."""
        assert self._rules is not None, "the client asks itself without"
        try:
            async with asyncio.timeout(GATE_TIMEOUT):
                found = await self._ask_group(group)
        except (Unreachable, ProtocolError, TimeoutError):
            return DescribedStreamsGroup(group, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        may_read, may_delete = (self._rules.allow(each, group) for each in (Operation.READ, Operation.DELETE))
        return replace(found, may_read=may_read, may_delete=may_delete)


def _groups_of(request: ReadRequest) -> list[str]:
    """The groups that a request may end."""
    return request.tree["groups_names"] if "groups_names" in request.tree else [request.tree["group_id"]]


def _lowered_heartbeat(request: ReadRequest) -> list[Buffer]:
    """Returns the request in v0, as Kafka's own client writes it: brokers before 4.4 refuse fields that they do not
    support."""
    tree = {**request.tree, "task_offsets": None, "task_end_offsets": None}
    if tree["warmup_tasks"] is not None:
        tree["warmup_tasks"] = []
    return instead(request, ApiKey.STREAMS_GROUP_HEARTBEAT, 0, tree)


# Heartbeats


class _HeartbeatChange:
    """Turns the response to a heartbeat into v1, and adds the request for a description if one is wanted."""

    def __init__(self, topologies: Topologies, request: ReadRequest, ask_group: AskGroup) -> None:
        self._topologies = topologies
        self._request = request
        self._ask_group = ask_group

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        start, tree = read_answer(head_instead(self._request, ApiKey.STREAMS_GROUP_HEARTBEAT, 0), answer)
        tree["acceptable_recovery_lag"] = tree["acceptable_recovery_lag"] or _UNSET  # brokers before 4.4 never set it
        try:
            async with asyncio.timeout(GATE_TIMEOUT):
                tree["topology_description_required"] = await self._is_required(tree)
        except Exception as problem:  # noqa: BLE001 - a heartbeat never fails for a description
            fields = {"virtual_cluster": self._topologies.name, "group": self._request.tree["group_id"]}
            log.info("topology description not requested", reason=str(problem) or repr(problem), **fields)
        return written_answer(self._request.head, answer, start, tree)

    async def _is_required(self, answer: Tree) -> bool:
        request, topologies = self._request.tree, self._topologies
        group = request["group_id"]
        statuses = frozenset(each["status_code"] for each in answer["status"] or ())
        version, epoch = self._request.head.api_version, request["member_epoch"]
        heartbeat = Heartbeat(version, epoch, answer["error_code"], statuses)
        if not may_be_asked(heartbeat):
            return False
        if (topology := request["topology"]) is not None and STALE_TOPOLOGY not in statuses:
            topologies.learn_current(group, topology["epoch"])
        current = topologies.current(group)
        if current is None:
            current = (await self._ask_group(group)).topology_epoch
            topologies.learn_current(group, current)
        return is_missing(current, topologies.epochs(group)) and topologies.ask_for(group, current)


# Push


class _PushChange:
    """Makes the response to a push, when the cluster has described the group."""

    def __init__(self, topologies: Topologies, request: ReadRequest) -> None:
        self._topologies = topologies
        self._request = request

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        group = self._request.tree["group_id"]
        unknown = DescribedStreamsGroup(group, ErrorCode.GROUP_ID_NOT_FOUND)
        found = described(self._request, answer).get(group, unknown)
        return await _answer_to_push(self._topologies, self._request, found)


async def _answer_to_push(
    topologies: Topologies, request: ReadRequest, group: DescribedStreamsGroup
) -> Sequence[Buffer]:
    tree = request.tree
    asked = Push(group.group, tree["member_id"], tree["topology_epoch"], tree["topology_description"])
    result: ApiError = await topologies.carry_out(group.group, push(asked, group))
    return request.answered({"error_code": result.code, "error_message": result.message})


# Describe


class _DescribeChange:
    """Turns the response to a description of groups into v1, with the topology descriptions."""

    def __init__(self, topologies: Topologies, request: ReadRequest) -> None:
        self._topologies = topologies
        self._request = request

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        start, tree = read_answer(head_instead(self._request, ApiKey.STREAMS_GROUP_DESCRIBE, 0), answer)
        for group in tree["groups"]:
            group["topology_description_status"] = DescriptionStatus.NOT_REQUESTED.value
        if self._request.tree["include_topology_description"]:
            await asyncio.gather(*(self._add(each) for each in tree["groups"] if each["error_code"] == ErrorCode.NONE))
        return written_answer(self._request.head, answer, start, tree)

    async def _add(self, group: Tree) -> None:
        topology = group["topology"]
        epoch = topology["epoch"] if topology is not None else -1
        status, description = await self._topologies.described(group["group_id"], epoch)
        group["topology_description_status"] = status.value
        if status is DescriptionStatus.AVAILABLE and description is not None:
            group["topology_description"] = tree_of(description)
