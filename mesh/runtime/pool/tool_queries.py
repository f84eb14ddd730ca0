"""Requests of tools to the upstream clusters: a few at a time, each answered when the clusters have answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mesh.apis.answers import Answer
from mesh.listener.requests import PendingRequest
from mesh.pool.common.effects import Effect
from mesh.pool.common.queries import GroupsDeleted, LogOffset, LogOffsets, LogOffsetsFound, Question
from mesh.records.spans import ClusterName, UpstreamPartition
from mesh.runtime.pool.administration import Administration
from mesh.runtime.pool.share_groups import ShareGroups
from mesh.tasks import OwnedTask, TaskName, begin
from mesh.wire.errors import ErrorCode

AT_A_TIME = 16
_QUERY = OwnedTask(TaskName.TOOL_QUERY)
_GONE = frozenset({ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND})


class ToolQueries:
    """The requests of tools at one virtual cluster. share_groups: the share groups in the store; deleting a group
    deletes it there. carry_out: takes the answers."""

    def __init__(
        self,
        administration: Administration,
        share_groups: ShareGroups,
        carry_out: Callable[[Sequence[Effect]], None],
    ) -> None:
        self._administration = administration
        self._share_groups = share_groups
        self._carry_out = carry_out
        self._free = asyncio.Semaphore(AT_A_TIME)
        self._asking: set[asyncio.Task[None]] = set()

    def ask(self, pending: PendingRequest, question: Question) -> None:
        task = begin(_QUERY, partial(self._answer, pending, question), lambda: pending.connection.client.abort())
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def offsets_at(self, times: Mapping[UpstreamPartition, int]) -> Mapping[UpstreamPartition, LogOffset]:
        """Returns the offset of the first record of each partition that is not older than a time, in ms since the
        epoch; -1 if there is none."""
        async with self._free:
            result = await self._administration.ask(LogOffsets(times, read_committed=False))
        assert isinstance(result, LogOffsetsFound)
        return result.offsets

    def change(self, administration: Administration) -> None:
        """Sends further requests through another administration."""
        self._administration.close()
        self._administration = administration

    def change_login(self, cluster: ClusterName, username: str, password: str) -> None:
        self._administration.change_login(cluster, username, password)

    def close(self) -> None:
        self._administration.close()
        for task in self._asking:
            task.cancel()

    async def _answer(self, pending: PendingRequest, question: Question) -> None:
        async with self._free:
            result = await self._administration.ask(question)
            if isinstance(result, GroupsDeleted):
                result = await self._forgotten(result)
        self._carry_out([Answer(pending, result)])

    async def _forgotten(self, deleted: GroupsDeleted) -> GroupsDeleted:
        """Deletes groups from the store as well. A share group that has committed nothing exists only there."""
        gone = [group for group, error in deleted.errors.items() if error in _GONE]
        forgotten = await self._share_groups.forget(gone)
        return GroupsDeleted(dict(deleted.errors) | dict.fromkeys(forgotten, ErrorCode.NONE))
