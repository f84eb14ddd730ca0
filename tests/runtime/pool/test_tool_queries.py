"""Requests of tools go upstream a few at a time, without delay where possible, and no more after the end."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from anyio.lowlevel import checkpoint

from mesh.apis.answers import Answer
from mesh.listener.requests import FramedConnection, PendingRequest
from mesh.pool.common.effects import Effect
from mesh.pool.common.queries import DeleteGroups, GroupsDeleted, Question
from mesh.records.spans import ClusterName
from mesh.runtime.pool.share_groups import ShareGroups
from mesh.runtime.pool.tool_queries import AT_A_TIME, ToolQueries
from mesh.wire.apis import ApiKey
from mesh.wire.connection import FramedRequest

pytestmark = pytest.mark.anyio

QUESTION = DeleteGroups(())


class Asked:
    """Answers when a test says so."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[GroupsDeleted]] = []
        self.is_closed = False

    def change_login(self, cluster: ClusterName, username: str, password: str) -> None: ...

    async def ask(self, question: Question) -> GroupsDeleted:
        assert question is QUESTION
        self.waiting.append(asyncio.get_running_loop().create_future())
        return await self.waiting[-1]

    def answer_all(self) -> None:
        for each in self.waiting:
            if not each.done():
                each.set_result(GroupsDeleted({}))

    def close(self) -> None:
        self.is_closed = True


def request(number: int) -> PendingRequest:
    asked = FramedRequest(ApiKey.DELETE_GROUPS, 2, number, "a tool", b"", 0)
    return PendingRequest(cast("FramedConnection", None), asked)


async def settle() -> None:
    for _ in range(5):
        await checkpoint()


async def test_a_few_at_a_time() -> None:
    upstream, answered = Asked(), list[Effect]()
    tool_queries = ToolQueries(upstream, ShareGroups("vc", None), answered.extend)
    requests = [request(number) for number in range(AT_A_TIME + 1)]
    for each in requests:
        tool_queries.ask(each, QUESTION)
    await settle()
    assert (len(upstream.waiting), answered) == (AT_A_TIME, [])
    upstream.answer_all()
    await settle()
    upstream.answer_all()
    await settle()
    assert [each.ticket for each in answered if isinstance(each, Answer)] == requests
    tool_queries.close()


async def test_they_are_asked_elsewhere_from_a_change_on() -> None:
    older, newer, answered = Asked(), Asked(), list[Effect]()
    tool_queries = ToolQueries(older, ShareGroups("vc", None), answered.extend)
    tool_queries.change(newer)
    tool_queries.ask(request(1), QUESTION)
    await settle()
    assert (older.is_closed, len(older.waiting), len(newer.waiting)) == (True, 0, 1)
    newer.answer_all()
    await settle()
    assert len(answered) == 1
    tool_queries.close()


async def test_nothing_is_answered_after_the_end() -> None:
    upstream, answered = Asked(), list[Effect]()
    tool_queries = ToolQueries(upstream, ShareGroups("vc", None), answered.extend)
    tool_queries.ask(request(1), QUESTION)
    await settle()
    tool_queries.close()
    await settle()
    assert upstream.is_closed
    assert upstream.waiting[0].cancelled()
    assert not answered
