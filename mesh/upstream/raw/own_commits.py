"""Commits over the mesh's own connection to the group's coordinator, in the name of librdkafka's member.

Through librdkafka a commit passes three threads, and its answer waits for the next poll of the consumer: twice the
round trip. So librdkafka makes only the commits that are not stored at once. It handles a coordinator that moves, an
old generation and a hanging broker, and reports them.

One commit is in flight at a time, and all are reported in order: while librdkafka has some to make, it also makes later
ones. A commit that is handed over before it is sent is sent by librdkafka only: sent later, it would replace newer
ones. A commit that is handed over after it was sent has the same positions there, so a broker that hung may execute
either first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from mesh.records.spans import CommitPosition, UpstreamPartition
from mesh.tasks import OwnedTask, TaskName, guarded, report
from mesh.upstream.engine import Committed, CommitToken
from mesh.upstream.groups.coordinators import NoCoordinator, link_to_coordinator
from mesh.upstream.links.connection import BrokerLink
from mesh.upstream.links.handshake import Unreachable
from mesh.upstream.links.nodes import Nodes
from mesh.wire.client.commits import (
    OFFSET_COMMIT,
    VERSION,
    CommittedOffset,
    GroupMembership,
    decode_offset_commit,
    offset_commit_request,
)
from mesh.wire.client.groups import TopicPartition
from mesh.wire.errors import ProtocolError

PATIENCE: Final = 1.0
"""Seconds after which a commit is handed over, though its answer may still come."""
RETRY_DELAY: Final = 1.0
"""Seconds after a commit that was not stored, for which all commits are handed over."""

Positions = Mapping[UpstreamPartition, CommitPosition]


@dataclass(slots=True, eq=False)
class _Commit:
    token: CommitToken
    positions: Positions
    is_ours: bool
    is_sent: bool = False
    is_handed_over: bool = False


class OwnCommits:
    """The commits of one group on one cluster. report: called when a commit is stored completely. hand_over: lets
    librdkafka make a commit, and report it. request_membership: has `joined` called again. fail: called after an
    unforeseen exception, which may have lost a commit."""

    def __init__(
        self,
        nodes: Nodes,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[Committed], None],
        hand_over: Callable[[CommitToken, Positions], None],
        request_membership: Callable[[], None],
        fail: Callable[[], None] = lambda: None,
    ) -> None:
        self._task: Final = OwnedTask(TaskName.ENGINE, cluster=nodes.name)
        self._fail = fail
        self._nodes = nodes
        self._loop = loop
        self._report = report
        self._hand_over = hand_over
        self._request_membership = request_membership
        self._membership: GroupMembership | None = None
        self._link: BrokerLink | None = None
        self._under_way: asyncio.Task[bool] | None = None
        self._is_stale = False
        """True if the commit in flight was handed over."""
        self._waiting: deque[_Commit] = deque()
        """Commits behind the one in flight, unless that is stale."""
        self._handed_over: set[CommitToken] = set()
        """Commits that librdkafka has to make."""
        self._hands_over_until = 0.0

    def joined(self, membership: GroupMembership | None) -> None:
        """Notes the membership of librdkafka's consumer from now on; None if unknown."""
        self._membership = membership

    def left(self) -> None:
        """Notes that the membership ended, or that its cluster does not answer. librdkafka will find out what can be
        stored."""
        self._membership = None

    def commit(self, token: CommitToken, positions: Positions, is_ours: bool) -> None:
        """Makes a commit when those before it are done. is_ours: whether this process has all of these partitions; if
        not, librdkafka handles the commit."""
        self._waiting.append(_Commit(token, positions, is_ours))
        if self._under_way is None or self._is_stale:
            self._begin_next()

    def _begin_next(self) -> None:
        """Begins the first waiting commit that the mesh can make itself. Hands those before it over to librdkafka."""
        while self._waiting:
            commit, membership = self._waiting.popleft(), self._membership
            is_paused = self._loop.time() < self._hands_over_until or self._under_way is not None
            if membership is None or is_paused or self._handed_over or not commit.is_ours:
                self._hand_over_commit(commit)
            else:
                self._begin(commit, membership)
                return

    def _begin(self, commit: _Commit, membership: GroupMembership) -> None:
        self._is_stale = False
        patience = self._loop.call_later(PATIENCE, guarded(self._task, self._not_stored, self._fail), commit)
        self._under_way = self._loop.create_task(self._send(membership, commit), name="own commit")
        self._under_way.add_done_callback(guarded(self._task, partial(self._done, commit, patience), self._fail))

    def _hand_over_commit(self, commit: _Commit) -> None:
        self._handed_over.add(commit.token)
        self._hand_over(commit.token, commit.positions)

    def ended(self, token: CommitToken) -> None:
        """Notes that librdkafka has made a commit, or has failed to."""
        self._handed_over.discard(token)

    async def close(self) -> None:
        """Waits for the commit in flight: a last commit must not overtake it."""
        self._membership = None
        self._waiting.clear()
        if (task := self._under_way) is not None:
            await asyncio.wait([task], timeout=PATIENCE)
            task.cancel()

    def _done(self, commit: _Commit, patience: asyncio.TimerHandle, task: asyncio.Task[bool]) -> None:
        self._under_way = None
        patience.cancel()
        if commit.is_handed_over or task.cancelled():
            return
        if (problem := task.exception()) is not None:
            report(self._task, problem)
            self._not_stored(commit)
        elif task.result():
            self._report(Committed(commit.token, dict.fromkeys(commit.positions, 0)))
            self._begin_next()
        else:
            self._not_stored(commit)

    def _not_stored(self, commit: _Commit) -> None:
        commit.is_handed_over = self._is_stale = True
        if self._under_way is not None and not commit.is_sent:
            self._under_way.cancel()
        self._hands_over_until = self._loop.time() + RETRY_DELAY
        self._link = None
        self._hand_over_commit(commit)
        self._begin_next()
        self._request_membership()

    async def _send(self, membership: GroupMembership, commit: _Commit) -> bool:
        """Sends a commit. Returns whether all of it is stored."""
        try:
            link = self._link
            if link is None:
                link = await link_to_coordinator(self._nodes, membership.group)
                served = (await link.versions()).get(OFFSET_COMMIT)
                if served is None or not served.lowest <= VERSION <= served.highest:
                    return False
                self._link = link
            offsets: dict[TopicPartition, CommittedOffset] = {
                (source.topic, source.partition): _committed(each) for source, each in commit.positions.items()
            }
            answer = await link.send(offset_commit_request(membership, offsets))
            commit.is_sent = True
            errors = decode_offset_commit(await answer)
        except (NoCoordinator, Unreachable, ProtocolError):
            return False
        return all(errors.get(place) == 0 for place in offsets)


def _committed(position: CommitPosition) -> CommittedOffset:
    """Returns a position in the form in which librdkafka's Python client commits it: with the end of a C string.
    Otherwise that client reads beyond the text when it looks up commits (2.16)."""
    metadata = f"{position.metadata}\0" if position.metadata else ""
    return CommittedOffset(position.offset, position.leader_epoch, metadata)
