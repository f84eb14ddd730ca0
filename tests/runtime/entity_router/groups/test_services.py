"""The search for unknown topic ids, which several requests share."""

from __future__ import annotations

import asyncio
from functools import partial
from unittest.mock import AsyncMock, Mock
from uuid import UUID

import pytest

from mesh.runtime.entity_router.groups.services import REFRESH_INTERVAL, GroupServices
from tests.fake_time import in_fake_time
from tests.planted import PLANTED

UNKNOWN = UUID(int=7)


@pytest.mark.parametrize("problem", PLANTED, ids=repr)
@in_fake_time
async def test_a_search_that_fails_fails_the_requests_that_wait_and_is_made_again(problem: BaseException) -> None:
    """Each request has an owner that reports the failure."""

    async def refresh() -> None:
        await asyncio.sleep(0.1)
        if entities.refresh_topics.await_count == 1:
            raise problem

    entities = Mock(is_id_known=Mock(return_value=False), are_all_reported=True)
    entities.concatenated.with_id = Mock(return_value=None)
    entities.refresh_topics = AsyncMock(side_effect=refresh)
    services = GroupServices(Mock(), entities, lambda: 1.0, Mock())
    both = await asyncio.gather(services.learn([UNKNOWN]), services.learn([UNKNOWN]), return_exceptions=True)
    assert [type(each) for each in both] == [type(problem)] * 2
    assert entities.refresh_topics.await_count == 1
    await asyncio.sleep(REFRESH_INTERVAL)
    assert await services.learn([UNKNOWN])
    assert entities.refresh_topics.await_count == 2


@in_fake_time
async def test_a_request_that_is_given_up_leaves_the_search_to_the_others() -> None:
    entities = Mock(is_id_known=Mock(return_value=False), are_all_reported=True)
    entities.concatenated.with_id = Mock(return_value=None)
    entities.refresh_topics = AsyncMock(wraps=partial(asyncio.sleep, 1))
    services = GroupServices(Mock(), entities, lambda: 1.0, Mock())
    given_up = asyncio.get_running_loop().create_task(services.learn([UNKNOWN]))
    await asyncio.sleep(0.5)
    given_up.cancel()
    assert await services.learn([UNKNOWN])
    await asyncio.wait([given_up])
    assert (given_up.cancelled(), entities.refresh_topics.await_count) == (True, 1)
