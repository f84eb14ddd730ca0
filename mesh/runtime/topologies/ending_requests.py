"""Requests that end a streams group: DeleteGroups, and the JoinGroup of a classic member, which turns an empty group
into one of another kind. The description of the group is deleted first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from mesh.runtime.interception.messages import ReadRequest, read_answer
from mesh.runtime.topologies.frames import described, head_instead, in_version, instead
from mesh.runtime.topologies.topologies import Topologies
from mesh.streams.steps import ApiError, DescribedStreamsGroup, delete
from mesh.upstream.store.documents import StoreError
from mesh.wire.apis import ApiKey
from mesh.wire.errors import ErrorCode
from mesh.wire.interception import FollowUp
from mesh.wire.messages import Buffer
from mesh.wire.trees import Tree

FIRST_WITH_MESSAGES: Final = 3
"""The first version of DeleteGroups with the error message of a failed deletion."""


def groups_with_description(topologies: Topologies, groups: Sequence[str]) -> list[str]:
    """The groups with a description. All groups, if the store cannot be read."""
    try:
        return [group for group in groups if topologies.epochs(group).has_description]
    except StoreError:
        return list(groups)


class EndingRequest(Protocol):
    """A request that ends groups, and that waits until the cluster has described them."""

    async def after(self, groups: Mapping[str, DescribedStreamsGroup]) -> Sequence[Buffer] | FollowUp:
        """Returns the response, or the request that is to be passed on. groups: the groups with a description, by
        name."""


class AwaitDescription:
    """Waits for a node's description of groups. Implements `mesh.wire.interception.AnswerChange`."""

    def __init__(self, request: ReadRequest, ending_request: EndingRequest) -> None:
        self._request = request
        self._ending_request = ending_request

    async def changed(self, answer: memoryview) -> Sequence[Buffer] | FollowUp:
        return await self._ending_request.after(described(self._request, answer))


class DeletingRequest:
    """A request that deletes groups. Implements `EndingRequest`."""

    def __init__(self, topologies: Topologies, request: ReadRequest) -> None:
        self._topologies = topologies
        self._request = request

    async def after(self, groups: Mapping[str, DescribedStreamsGroup]) -> Sequence[Buffer] | FollowUp:
        chosen = [group for group, each in groups.items() if _is_empty(each) and each.may_delete]
        topologies = self._topologies
        results = await asyncio.gather(*(topologies.carry_out(group, delete(group)) for group in chosen))
        held_back = {
            group: result for group, result in zip(chosen, results, strict=True) if result.code != ErrorCode.NONE
        }
        left = [group for group in self._request.tree["groups_names"] if group not in held_back]
        deletion = Deletion(topologies, self._request, held_back, left)
        return FollowUp(deletion.frame(left), deletion) if left else deletion.answered([])


class ClassicJoinRequest:
    """A request of a classic member that joins a group. Implements `EndingRequest`."""

    def __init__(self, topologies: Topologies, request: ReadRequest) -> None:
        self._topologies = topologies
        self._request = request

    async def after(self, groups: Mapping[str, DescribedStreamsGroup]) -> Sequence[Buffer] | FollowUp:
        group = self._request.tree["group_id"]
        found = groups.get(group)
        if found is not None and _is_empty(found) and found.may_read:
            result = await self._topologies.carry_out(group, delete(group))
            if result.code != ErrorCode.NONE:  # as a broker would answer: the member joins again
                member, code = self._request.tree["member_id"], ErrorCode.REBALANCE_IN_PROGRESS
                return self._request.answered({"error_code": code, "member_id": member})
        return FollowUp([self._request.frame], _Unchanged())


class _Unchanged:
    """Leaves a response unchanged."""

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        return [answer]


class Deletion:
    """The deletion of groups by the cluster, except those that are held back: their descriptions could not be
    deleted."""

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
            return in_version(self._request, self._version)
        return instead(self._request, ApiKey.DELETE_GROUPS, self._version, {"groups_names": list(groups)})

    async def changed(self, answer: memoryview) -> Sequence[Buffer]:
        _, tree = read_answer(head_instead(self._request, ApiKey.DELETE_GROUPS, self._version), answer)
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


def _is_empty(group: DescribedStreamsGroup) -> bool:
    return group.error == ErrorCode.NONE and group.is_empty
