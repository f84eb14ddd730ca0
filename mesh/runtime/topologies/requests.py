"""Requests about topology descriptions, over a node that does not know them.

What the node knows it is asked itself, in the client's place: whether the client may read or delete a group, whether
the node is its coordinator, which members and which topology it has. So these are the cluster's own answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from mesh.runtime.interception.messages import ReadRequest, read_answer, written_answer
from mesh.runtime.topologies.topologies import Topologies
from mesh.streams.description import tree_of
from mesh.streams.gate import STALE_TOPOLOGY, Heartbeat, is_missing, may_be_asked
from mesh.streams.steps import ApiError, DescribedGroup, DescriptionStatus, Push, delete, push
from mesh.telemetry.logs import get_logger
from mesh.upstream.store.documents import StoreError
from mesh.wire.apis import ApiKey, is_flexible
from mesh.wire.entities import Side
from mesh.wire.errors import ErrorCode
from mesh.wire.interception import Decision, FollowUp
from mesh.wire.messages import Buffer
from mesh.wire.passing import RequestHead
from mesh.wire.reader import INT16, INT32
from mesh.wire.trees import Tree, write_tree

log = get_logger(__name__)

GATE_TIMEOUT: Final = 5.0
"""Seconds for which a heartbeat's answer waits for the topology epoch of its group."""
FIRST_WITH_MESSAGES: Final = 3
"""Of DeleteGroups, whose answer has the error of a deletion that failed."""
_READ, _DELETE = 3, 6
"""Bits of authorized operations."""
_EMPTY: Final = "Empty"
_UNSAID: Final = -1
_API_KEY_AT: Final = INT32.size
_NO_TAGS: Final = b"\0"

AskCurrent = Callable[[str], Awaitable[int]]
"""The topology epoch of a group, from the cluster; -1 if there is none. Raises whatever a broker or a link does."""


class TopologyRequests:
    """The requests of one client. is_served_there: whether the node that the client talks to knows descriptions itself.
    ask_current: asks that node."""

    def __init__(self, topologies: Topologies, is_served_there: Callable[[], bool], ask_current: AskCurrent) -> None:
        self._topologies = topologies
        self._is_served_there = is_served_there
        self._ask_current = ask_current

    def takes(self, head: RequestHead) -> bool:
        match head.api_key:
            case ApiKey.STREAMS_GROUP_HEARTBEAT | ApiKey.STREAMS_GROUP_DESCRIBE:
                is_about_them = head.api_version >= 1
            case ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE | ApiKey.DELETE_GROUPS:
                is_about_them = True
            case _:
                is_about_them = False
        return is_about_them and not self._is_served_there()

    def decide(self, head: RequestHead, frame: memoryview) -> Decision:
        request = ReadRequest.of(head, frame)
        match head.api_key:
            case ApiKey.STREAMS_GROUP_HEARTBEAT:
                change = _HeartbeatChange(self._topologies, request, self._ask_current)
                return Decision(_lowered_heartbeat(request), change=change)
            case ApiKey.STREAMS_GROUP_DESCRIBE:
                return Decision(
                    _instead(request, ApiKey.STREAMS_GROUP_DESCRIBE, 0, request.tree),
                    change=_DescribeChange(self._topologies, request),
                )
            case ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE:
                return Decision(
                    _describing(request, [request.tree["group_id"]]), change=_PushChange(self._topologies, request)
                )
            case _:
                return _decide_deletion(self._topologies, request)

    async def judged(self, head: RequestHead, frame: memoryview) -> Decision:
        raise AssertionError("every request is decided at once")


# Frames


def _in_version(request: ReadRequest, version: int) -> list[Buffer]:
    """The same request in a version whose body is the same."""
    at = _API_KEY_AT + INT16.size
    return [request.frame[:at], INT16.pack(version), request.frame[at + INT16.size :]]


def _lowered_heartbeat(request: ReadRequest) -> list[Buffer]:
    """In v0, as Kafka's own client writes it: brokers before 4.4 refuse what they do not support yet."""
    tree = {**request.tree, "task_offsets": None, "task_end_offsets": None}
    if tree["warmup_tasks"] is not None:
        tree["warmup_tasks"] = []
    return _instead(request, ApiKey.STREAMS_GROUP_HEARTBEAT, 0, tree)


def _instead(request: ReadRequest, api_key: ApiKey, version: int, tree: Tree) -> list[Buffer]:
    """Another request of the same client, with the same correlation id."""
    body = write_tree(api_key, version, Side.REQUEST, tree)
    header = bytes(request.frame[_API_KEY_AT + 2 * INT16.size : request.body])
    if is_flexible(api_key, version) and not is_flexible(ApiKey(request.head.api_key), request.head.api_version):
        header += _NO_TAGS
    size = 2 * INT16.size + len(header) + len(body)
    return [INT32.pack(size), INT16.pack(api_key), INT16.pack(version), header, body]


def _describing(request: ReadRequest, groups: Sequence[str]) -> list[Buffer]:
    tree = {"group_ids": list(groups), "include_authorized_operations": True}
    return _instead(request, ApiKey.STREAMS_GROUP_DESCRIBE, 0, tree)


def _head(request: ReadRequest, api_key: ApiKey, version: int) -> RequestHead:
    """Of a request that was sent in the place of this one."""
    return request.head._replace(api_key=api_key, api_version=version)


def _described(request: ReadRequest, answer: memoryview) -> dict[str, DescribedGroup]:
    _, tree = read_answer(_head(request, ApiKey.STREAMS_GROUP_DESCRIBE, 0), answer)
    return {each["group_id"]: described_group(each) for each in tree["groups"]}


def described_group(tree: Tree) -> DescribedGroup:
    """A group in an answer to StreamsGroupDescribe. Authorized operations that were not said allow everything."""
    operations = tree["authorized_operations"]
    topology = tree["topology"]
    return DescribedGroup(
        tree["group_id"],
        tree["error_code"],
        tree["error_message"],
        topology["epoch"] if topology is not None else -1,
        frozenset(each["member_id"] for each in tree["members"]),
        tree["group_state"] == _EMPTY,
        operations < 0 or bool(operations >> _READ & 1),
        operations < 0 or bool(operations >> _DELETE & 1),
    )


# Heartbeats


class _HeartbeatChange:
    """The answer to a heartbeat, in v1, with whether the description is asked for."""

    def __init__(self, topologies: Topologies, request: ReadRequest, ask_current: AskCurrent) -> None:
        self._topologies = topologies
        self._request = request
        self._ask_current = ask_current

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        start, tree = read_answer(_head(self._request, ApiKey.STREAMS_GROUP_HEARTBEAT, 0), answer)
        tree["acceptable_recovery_lag"] = tree["acceptable_recovery_lag"] or _UNSAID  # brokers before 4.4 never say it
        try:
            async with asyncio.timeout(GATE_TIMEOUT):
                tree["topology_description_required"] = await self._is_required(tree)
        except Exception as problem:  # noqa: BLE001 - a heartbeat never fails for a description
            fields = {"virtual_cluster": self._topologies.name, "group": self._request.tree["group_id"]}
            log.info("a topology description is not asked for", reason=str(problem) or repr(problem), **fields)
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
            current = await self._ask_current(group)
            topologies.learn_current(group, current)
        return is_missing(current, topologies.epochs(group)) and topologies.ask_for(group, current)


# Push


class _PushChange:
    """The answer to a push, made when the cluster has described the group."""

    def __init__(self, topologies: Topologies, request: ReadRequest) -> None:
        self._topologies = topologies
        self._request = request

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        tree = self._request.tree
        group = tree["group_id"]
        described = _described(self._request, answer).get(group, DescribedGroup(group, ErrorCode.GROUP_ID_NOT_FOUND))
        asked = Push(group, tree["member_id"], tree["topology_epoch"], tree["topology_description"])
        result = await self._topologies.carry_out(group, push(asked, described))
        return self._request.answered({"error_code": result.code, "error_message": result.message})


# Describe


class _DescribeChange:
    """The answer to a description of groups, in v1."""

    def __init__(self, topologies: Topologies, request: ReadRequest) -> None:
        self._topologies = topologies
        self._request = request

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        start, tree = read_answer(_head(self._request, ApiKey.STREAMS_GROUP_DESCRIBE, 0), answer)
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


# Delete


def _decide_deletion(topologies: Topologies, request: ReadRequest) -> Decision:
    groups = request.tree["groups_names"]
    kept = _kept(topologies, groups)
    if not kept:
        deletion = _Deletion(topologies, request, {}, ())
        return Decision(deletion.frame(groups), change=deletion)
    return Decision(_describing(request, kept), change=_BeforeDeletion(topologies, request), is_alone=True)


def _kept(topologies: Topologies, groups: Sequence[str]) -> list[str]:
    """Those with a description. While that is not known: all of them."""
    try:
        return [group for group in groups if topologies.epochs(group).has_description]
    except StoreError:
        return list(groups)


class _BeforeDeletion:
    """What is done about the descriptions of groups, when the cluster has described them."""

    def __init__(self, topologies: Topologies, request: ReadRequest) -> None:
        self._topologies = topologies
        self._request = request

    async def changed(self, answer: memoryview) -> Sequence[Buffer] | FollowUp:
        described = _described(self._request, answer)
        chosen = [
            group
            for group, each in described.items()
            if each.error == ErrorCode.NONE and each.is_empty and each.may_delete
        ]
        topologies = self._topologies
        results = await asyncio.gather(*(topologies.carry_out(group, delete(group)) for group in chosen))
        held_back = {
            group: result for group, result in zip(chosen, results, strict=True) if result.code != ErrorCode.NONE
        }
        left = [group for group in self._request.tree["groups_names"] if group not in held_back]
        deletion = _Deletion(topologies, self._request, held_back, left)
        return FollowUp(deletion.frame(left), deletion) if left else deletion.answered([])


class _Deletion:
    """The deletion of groups by the cluster, as far as they are not held back."""

    def __init__(
        self,
        topologies: Topologies,
        request: ReadRequest,
        held_back: Mapping[str, ApiError],
        left: Sequence[str],
    ) -> None:
        self._topologies = topologies
        self._request = request
        self._held_back = held_back
        self._left = left
        self._version = min(request.head.api_version, FIRST_WITH_MESSAGES - 1)

    def frame(self, groups: Sequence[str]) -> list[Buffer]:
        if not self._held_back:
            return _in_version(self._request, self._version)
        return _instead(self._request, ApiKey.DELETE_GROUPS, self._version, {"groups_names": list(groups)})

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        _, tree = read_answer(_head(self._request, ApiKey.DELETE_GROUPS, self._version), answer)
        results = tree["results"]
        await self._topologies.forget(each["group_id"] for each in results if each["error_code"] == ErrorCode.NONE)
        return self.answered(results, tree["throttle_time_ms"])

    def answered(self, results: Sequence[Tree], throttle_time_ms: int = 0) -> list[Buffer]:
        by_group = {each["group_id"]: each for each in results}
        has_messages = self._request.head.api_version >= FIRST_WITH_MESSAGES
        for group, error in self._held_back.items():
            code = error.code if has_messages else ErrorCode.UNKNOWN_SERVER_ERROR
            by_group[group] = {"group_id": group, "error_code": code, "error_message": error.message}
        return self._request.answered({"throttle_time_ms": throttle_time_ms, "results": list(by_group.values())})
